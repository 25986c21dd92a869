"""Annotations that cannot be read, or have negative amounts: part of what their owners hold is unknown."""

from collections.abc import Iterator
from typing import Final

from ..finding import Counts, Finding, Owner, Severity
from ..node_books import NodeBooks

NAME: Final = "annotations"
_LONGEST: Final = 300


def check(books: NodeBooks, counts: Counts) -> Iterator[Finding]:
    """Yield the holders of a node whose annotations cannot be read."""
    for holder in books.unread:
        for problem in holder.unreadable:
            yield Finding(
                check=NAME,
                severity=Severity.WARNING,
                node=books.name,
                what="allocation",
                problem=f"cannot be read: {problem}"[:_LONGEST],
                owners=[Owner(kind=holder.kind, name=holder.name)],
            )
    counts.add(NAME, "holders", len(books.pods) + len(books.reservations))
