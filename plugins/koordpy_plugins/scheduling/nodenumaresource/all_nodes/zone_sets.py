"""The sets of a machine's NUMA nodes, and which of them serve a pod, on many such machines at once."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations, compress
from math import comb
from typing import Final

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.policy import Told, lack, offer

from ..hints import Hints, hints_of
from ..scorer import Scorer
from ..state.columns import NUMA_NODES
from .zone_arrays import ZoneArrays

MOST_ZONES: Final = NUMA_NODES
"""Nodes with more NUMA nodes are evaluated by themselves. Kubernetes allows 8, which have 255 sets."""

_FEW_ZONES: Final = 3
"""With so few, all sets are tried on all nodes."""

_CELLS: Final = 1 << 15
"""Of arrays over masks and nodes: more than a processor's cache holds take longer."""


class ZoneSets:
    """The sets of NUMA nodes in the order in which they are tried: by size, then by position.

    `numbers` are their masks; `names`, sorted, the resources that a pod requests.
    """

    def __init__(self, zones: Sequence[int], wanted: Iterable[str]) -> None:
        self.zones, self.names = zones, sorted(wanted)
        self._sets = list(chain.from_iterable(combinations(zones, size) for size in _sizes(zones)))
        self.numbers = [bitmask.of(each) for each in self._sets]
        self._listed: dict[bytes, tuple[str, str]] = {}

    def by_size(self) -> Iterator[slice]:
        """Yield the positions of the sets of one NUMA node, of two, and so on."""
        end = 0
        for size in _sizes(self.zones):
            begin, end = end, end + comb(len(self.zones), size)
            yield slice(begin, end)

    def offered(self, arrays: ZoneArrays) -> Bool:
        """(names, n) whether a node offers a resource."""
        found = np.zeros((len(self.names), len(arrays)), np.bool_)
        for row, name in enumerate(self.names):
            found[row] = arrays.offers(name)
        return found

    def serving(self, arrays: ZoneArrays, tried: slice, offered: Bool) -> Bool:
        """(names, sets, n) whether equally large sets serve a resource that is offered (names, n)."""
        if len(self.zones) <= _FEW_ZONES:
            return self._serving(arrays, tried, offered)
        here = np.flatnonzero(arrays.may_fit(len(self._sets[tried.start])))
        if len(here) == len(arrays):
            return self._serving(arrays, tried, offered)
        found = np.zeros((len(self.names), tried.stop - tried.start, len(arrays)), np.bool_)
        if len(here):
            found[..., here] = self._serving(arrays.pick(here), tried, offered[:, here])
        return found

    def _serving(self, arrays: ZoneArrays, tried: slice, offered: Bool) -> Bool:
        found = np.zeros((len(self.names), tried.stop - tried.start, len(arrays)), np.bool_)
        for begin, masks in self._blocks(tried, len(arrays)):
            fits = arrays.serves(masks)
            for row, name in enumerate(self.names):
                if offered[row].any():
                    serves = fits & offered[row] & arrays.has_left(name, masks)
                    found[row, begin : begin + len(serves)] = serves
        return found

    def admitting(self, arrays: ZoneArrays, tried: slice, offered: Bool, allowed: Bool) -> Bool:
        """(sets, n) which equally large sets that are allowed (sets, n) serve all that is offered (names, n).

        Of many sets other providers allow a node a few: only these are tried.
        """
        if len(self.zones) <= _FEW_ZONES or not arrays.fits_decide:
            for serves, is_there in zip(self.serving(arrays, tried, offered), offered, strict=True):
                allowed = allowed & (serves | ~is_there)
            return allowed
        found = allowed & arrays.may_fit(len(self._sets[tried.start]))
        sets, nodes = np.nonzero(found)
        masks = np.array(self._sets[tried]).T
        step = max(_CELLS // len(masks), 1)
        for begin in range(0, len(sets), step):
            at, here = sets[begin : begin + step], nodes[begin : begin + step]
            zones = masks[:, at]
            serves, _ = arrays.fits(zones, here)
            for is_there, name in zip(offered, self.names, strict=True):
                if is_there.any():
                    serves &= arrays.has_left(name, zones, here) | ~is_there[here]
            found[at, here] = serves
        return found

    def scores(self, arrays: ZoneArrays, tried: slice, scorer: Scorer) -> Int64:
        """(sets, n) the scores of hints with equally large sets."""
        return np.concatenate([arrays.scores(scorer, masks) for _, masks in self._blocks(tried, len(arrays))])

    def _blocks(self, tried: slice, nodes: int) -> Iterator[tuple[int, Int64]]:
        """Yield some of the sets at a time, (k, m), with the position of their first among those tried."""
        masks = np.array(self._sets[tried]).T
        step = max(_CELLS // (len(masks) * nodes), 1)
        for begin in range(0, masks.shape[1], step):
            yield begin, masks[:, begin : begin + step]

    def told(self, serving: Bool, offered: Bool, *, is_restricted: bool) -> Told:
        """Return what reasons say of the hints of a node, on which sets serve a resource (names, sets)."""
        lacking, texts = [], []
        for name, serves, is_there in zip(self.names, serving, offered.tolist(), strict=True):
            packed = np.packbits(serves).tobytes()
            if any(packed):
                among, smallest = self._lists(packed, serves)
                texts.append(offer(name, [among if is_restricted else smallest], [among]))
            elif is_there:
                lacking.append(lack(name))
        return Told(lacking, texts)

    def _lists(self, packed: bytes, serves: Bool) -> tuple[str, str]:
        """Return the texts of sets that serve (sets,), and of the smallest ones; resources often agree."""
        known = self._listed.get(packed)
        if known is None:
            among = list(compress(self._texts, serves.tolist()))
            fewest = next(int(here.sum()) for tried in self.by_size() if (here := serves[tried]).any())
            known = self._listed[packed] = " ".join(among), " ".join(among[:fewest])
        return known

    @cached_property
    def _texts(self) -> list[str]:
        return [bitmask.text(number) for number in self.numbers]

    def hints(self, arrays: ZoneArrays, scorer: Scorer, *, is_restricted: bool) -> Hints:
        """Return what `hints.topology_hints` returns for the only node of arrays."""
        offered = self.offered(arrays)
        found: dict[str, list[tuple[int, int]]] = {
            name: [] for name, is_there in zip(self.names, offered[:, 0].tolist(), strict=True) if is_there
        }
        for tried in self.by_size():
            numbers, scores = self.numbers[tried], self.scores(arrays, tried, scorer)[:, 0].tolist()
            for name, serves in zip(self.names, self.serving(arrays, tried, offered), strict=True):
                if name in found:
                    found[name] += [(numbers[at], scores[at]) for at in np.flatnonzero(serves).tolist()]
        return {name: hints_of(hints, is_restricted=is_restricted) for name, hints in found.items()}


def _sizes(zones: Sequence[int]) -> range:
    return range(1, len(zones) + 1)
