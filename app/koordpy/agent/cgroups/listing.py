"""The folders below a folder, listed anew only where something changed.

A folder has as many links as it has folders, and two more; cgroup file systems keep that number, but no time
of change. A folder that went while another one came would not be seen, so that a listing is used only for a
few seconds. File systems that do not count (some have one link for every folder) are listed each time.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

LONGEST_SECONDS: Final = 10.0
"""How long a listing is used before it is made anew."""

_LEAST_LINKS: Final = 2

_Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _Listing:
    stamps: list[tuple[str, _Stamp]]
    """By the path below the top, which is "."."""
    found: tuple[tuple[str, int], ...]
    made_at: float

    def is_current(self, top: str, now: float) -> bool:
        if now - self.made_at >= LONGEST_SECONDS:
            return False
        try:
            folder = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return all(_stamp(path, folder) == stamp for path, stamp in self.stamps)
        except OSError:
            return False
        finally:
            os.close(folder)


class Listings:
    """The folders below some folders, by depth."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[tuple[str, str, int], _Listing] = {}

    def below(self, top: str, name: str, depth: int) -> tuple[tuple[str, int], ...]:
        """Return the folder `top` as `name`, and those below it, pre-order and lexical, with their depth.

        Links are not followed. What ends meanwhile is left out. Raises OSError for a folder that cannot be
        listed; FileNotFoundError or NotADirectoryError if `top` is none.
        """
        key = (top, name, depth)
        known, now = self._known.get(key), self._monotonic()
        if known is not None and known.is_current(top, now):
            return known.found
        self._known.pop(key, None)
        if not stat.S_ISDIR(os.stat(top).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "no folder", top)
        stamps: list[tuple[str, _Stamp]] = []
        found = ((name, 0), *_walk(top, ".", name, 1, depth, stamps))
        if stamps and all(stamp[1] >= _LEAST_LINKS for _, stamp in stamps):
            self._known[key] = _Listing(stamps, found, now)
        return found

    def collect(self) -> None:
        """Forget what is not used any more."""
        oldest = self._monotonic() - LONGEST_SECONDS
        self._known = {key: known for key, known in self._known.items() if known.made_at > oldest}


def _walk(
    folder: str, below_top: str, name: str, level: int, depth: int, stamps: list[tuple[str, _Stamp]]
) -> Iterator[tuple[str, int]]:
    if level > depth:
        return
    try:
        stamp = _stamp(folder)  # before listing, so that a later change is noticed
        with os.scandir(folder) as entries:
            children = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        if level == 1 or os.path.isdir(folder):
            raise
        return
    stamps.append((below_top, stamp))
    for child in children:
        below = f"{name}/{child}" if name else child
        yield below, level
        yield from _walk(f"{folder}/{child}", f"{below_top}/{child}", below, level + 1, depth, stamps)


def _stamp(folder: str, top: int | None = None) -> _Stamp:
    """Return what changes with the folders in a folder; `top` is where its path begins."""
    found = os.stat(folder, dir_fd=top)
    return found.st_ino, found.st_nlink, found.st_mtime_ns
