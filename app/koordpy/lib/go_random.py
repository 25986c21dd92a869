"""Random numbers as Go's `math/rand` draws them from a seed, to repeat what programs in Go have drawn.

An additive lagged Fibonacci generator (607, 273). `go_random_state.txt` is its state before a seed is mixed
in, 607 little-endian 64 bit numbers in base64: the table `rngCooked` of Go's source.
"""

import base64
import random
import struct
from collections.abc import MutableSequence
from functools import cache
from pathlib import Path
from typing import Any, Final

_LENGTH: Final = 607
_TAP: Final = 273
_MASK: Final = (1 << 64) - 1
_PRIME: Final = (1 << 31) - 1
_ZERO: Final = 89482311
"""What stands for the seed 0, of which the generator would make only zeros."""


class GoRandom(random.Random):
    """A `random.Random` whose numbers are those of Go's `rand.New(rand.NewSource(seed))`."""

    def seed(self, a: Any = 0, version: int = 2) -> None:
        """Begin anew with a whole number."""
        x = int(a or 0) % _PRIME or _ZERO
        self._state = []
        for _ in range(20):
            x = _next_seed(x)
        for cooked in _cooked():
            x = _next_seed(x)
            mixed = x << 40
            x = _next_seed(x)
            mixed ^= x << 20
            x = _next_seed(x)
            self._state.append((mixed ^ x ^ cooked) & _MASK)
        self._tap, self._feed = 0, _LENGTH - _TAP

    def int63(self) -> int:
        """Return Go's `Int63`: 63 random bits."""
        self._tap = (self._tap - 1) % _LENGTH
        self._feed = (self._feed - 1) % _LENGTH
        found = self._state[self._feed] = (self._state[self._feed] + self._state[self._tap]) & _MASK
        return found & (_MASK >> 1)

    def getrandbits(self, k: int) -> int:
        """Return `k` random bits."""
        found = 0
        for _ in range(-(-k // 31)):
            found = found << 31 | self.int63() >> 32
        return found >> -k % 31

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return (self.int63() >> 10) / (1 << 53)

    def _randbelow(self, n: int) -> int:
        """Return Go's `Intn`; `randrange` and `choice` call it."""
        if not 0 < n < 1 << 31:
            raise ValueError(f"got {n}, expected a number from 1 to below 2 to the power of 31")
        if n & (n - 1) == 0:
            return self.int63() >> 32 & (n - 1)
        most = (1 << 31) - 1 - (1 << 31) % n
        while (found := self.int63() >> 32) > most:
            pass
        return found % n

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Shuffle in place as Go's `Shuffle` with a function that swaps."""
        for i in range(len(x) - 1, 0, -1):
            j = self._below(i + 1)
            x[i], x[j] = x[j], x[i]

    def permutation(self, n: int) -> list[int]:
        """Return Go's `Perm`: the numbers below `n` in random order."""
        found = [0] * n
        for i in range(n):
            j = self._randbelow(i + 1)
            found[i] = found[j]
            found[j] = i
        return found

    def _below(self, n: int) -> int:
        """Return what Go's `Shuffle` draws, in another way than `Intn`."""
        product = (self.int63() >> 31) * n
        if product & 0xFFFFFFFF < n:
            least = (1 << 32) % n
            while product & 0xFFFFFFFF < least:
                product = (self.int63() >> 31) * n
        return product >> 32


@cache
def _cooked() -> tuple[int, ...]:
    raw = base64.b64decode(Path(__file__).with_name("go_random_state.txt").read_text(encoding="ascii"))
    return tuple(number & _MASK for number in struct.unpack(f"<{_LENGTH}q", raw))


def _next_seed(x: int) -> int:
    """Return the next number of Lehmer's generator: 48271 x modulo 2^31 - 1."""
    return 48271 * x % _PRIME
