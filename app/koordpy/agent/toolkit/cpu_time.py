"""CPU time of a cgroup, and usage from two readings of it."""

from koordpy.agent.interface.cgroups import Cgroups
from koordpy.agent.toolkit import stat_text
from koordpy.agent.toolkit.kept_file import KeptFile

EXPIRED_INTERVALS = 20
"""After so many intervals without a reading, the next one counts as the first again."""


class CPUTime:
    """The CPU time that a cgroup has used so far."""

    __slots__ = ("_at", "_file", "_total", "_unified")

    def __init__(self, cgroups: Cgroups, directory: str) -> None:
        self._unified = cgroups.unified
        self._file = KeptFile(cgroups.path("cpuacct.usage", directory))
        self._total = -1
        self._at = 0.0

    def read(self) -> int:
        """Return nanoseconds. Raises OSError or ValueError."""
        text = self._file.read()
        return stat_text.number(text, b"usage_usec ") * 1000 if self._unified else int(text)

    def usage(self, at: float, expiry: float) -> float | None:
        """Return the cores used since the last call; `at` and `expiry` are seconds on the same clock.

        None for the first reading, one that is more than `expiry` after the last, and after the counter went
        back. Raises OSError or ValueError.
        """
        text = self._file.read()
        total = stat_text.number(text, b"usage_usec ") * 1000 if self._unified else int(text)
        last, since = self._total, at - self._at
        self._total, self._at = total, at
        if last < 0 or total < last or not 0 < since <= expiry:
            return None
        return (total - last) / (since * 1e9)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
