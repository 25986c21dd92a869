"""What to suggest for a name that is not known: the nearest known one, or a list if it is short."""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Final

_SIMILAR: Final = 0.7
"""The least similarity, from 0 to 1, of a name that is suggested."""

_SHORTEST_PART: Final = 4
"""Characters that a name must have to be suggested because it contains the other, or is part of it."""

_MOST_LISTED: Final = 8
"""A list of more names hides what is wrong."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, None if no name is similar enough. Case is ignored."""
    given = name.casefold()
    best, found = 0.0, None
    for candidate in sorted(known):
        score = _similarity(given, candidate.casefold())
        if score > best:
            best, found = score, candidate
    return found if best >= _SIMILAR else None


def suggestion(name: str, known: Iterable[str], elsewhere: str = "") -> str:
    """Return the end of a message about an unknown name: `did you mean X?`, or `expected one of A, B`.

    Where no name is near and there are too many to list, it is `elsewhere`, which says where they are listed;
    without that, their number.
    """
    names = sorted(set(known))
    if (near := nearest(name, names)) is not None:
        return f"did you mean {near}?"
    if not names:
        return "there are none"
    if len(names) > _MOST_LISTED:
        return elsewhere or f"expected one of {len(names)} other names"
    return f"expected {'one of ' if len(names) > 1 else ''}{', '.join(names)}"


def _similarity(given: str, candidate: str) -> float:
    if given == candidate:
        return 2.0  # it differs in case only
    prefix, _, _ = candidate.rpartition(".")
    if prefix and given.startswith(f"{prefix}."):  # what all names of a group share says nothing
        given, candidate = given[len(prefix) :], candidate[len(prefix) :]
    short, long = sorted((given, candidate), key=len)
    ratio = SequenceMatcher(None, given, candidate, autojunk=False).ratio()
    if len(short) >= _SHORTEST_PART and short in long:
        return max(ratio, _SIMILAR)
    return ratio
