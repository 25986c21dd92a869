"""The entry points of installed distributions, read again only when distributions come or go.

A search of `importlib.metadata` opens the files of every distribution, which takes some 10 ms: too long to do
for each kind of plugin again and again.
"""

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from importlib.metadata import Distribution, EntryPoint


def entry_points(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group."""
    return _of_group(group, tuple((entry, _changed_at(entry)) for entry in sys.path))


def distribution_name(point: EntryPoint) -> str:
    """Return the name of the distribution that an entry point is of, empty if it is of none."""
    return "" if point.dist is None else _name_of(point.dist)


@lru_cache(maxsize=64)
def _of_group(group: str, path: tuple[tuple[str, int], ...]) -> Sequence[EntryPoint]:
    return tuple(metadata.entry_points(group=group))


@lru_cache(maxsize=64)
def _name_of(distribution: Distribution) -> str:
    return distribution.name


def _changed_at(entry: str) -> int:
    """Return when something was last installed into a folder of the path, or removed."""
    try:
        return os.stat(entry or ".").st_mtime_ns
    except OSError:
        return -1
