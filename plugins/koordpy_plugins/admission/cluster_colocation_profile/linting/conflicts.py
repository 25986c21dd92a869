"""Conflicting profiles: they select the same pods and write different values to the same path.

They are applied in the order of their names, so the later name wins. If the later one selects only some of
the pods of the earlier one, that is a usual default with exceptions, and only a note.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import msgspec

from koordpy.admission.lint import Finding, Severity
from koordpy.api.patch import equal
from koordpy.api.selector_overlap import implies

from .subject import Subject
from .trial import Example
from .writes import Write, suffixed, writes


class _Writer:
    """A profile with the value that it leaves at each path."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.at: dict[str, Write] = {}
        self.suffixes = suffixed(subject.spec)


def find_conflicts(subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Yield the values of their own and of each other that profiles, sorted by name, overwrite."""
    writers = []
    for subject in subjects:
        writer = _Writer(subject)
        yield from _own(writer)
        if not subject.matcher.problem:
            writers.append(writer)
    for earlier, later in _sharing(writers):
        pair = _Pair(earlier.subject, later.subject)
        if pair.who is None:
            continue
        yield from _overwritten(pair, earlier, later)
        yield from _suffixes(pair, earlier, later)


class _Pair:
    """Two profiles, by name; `who` describes the pods that both select, None if there can be none."""

    def __init__(self, earlier: Subject, later: Subject) -> None:
        self.earlier, self.later = earlier, later
        self.who = Example.of(earlier, later)

    @property
    def is_layered(self) -> bool:
        """Whether the later profile is an exception to the earlier one, with fewer pods."""
        earlier, later = self.earlier, self.later
        inside = implies(later.selector, earlier.selector) and implies(
            later.namespace_selector, earlier.namespace_selector
        )
        outside = implies(earlier.selector, later.selector) and implies(
            earlier.namespace_selector, later.namespace_selector
        )
        return inside and not outside


def _sharing(writers: Sequence[_Writer]) -> Iterator[tuple[_Writer, _Writer]]:
    """Yield the pairs of profiles that leave different values at a path, in the order of their names."""
    touching: dict[str, dict[bytes, list[int]]] = {}
    for number, writer in enumerate(writers):
        for place in {*writer.at, *writer.suffixes}:
            left = msgspec.json.encode(writer.at[place].value) if place in writer.at else b""
            value = left + writer.suffixes.get(place, "").encode()
            value += b"+%d" % number if place in writer.suffixes else b""  # suffixes add up, even equal ones
            touching.setdefault(place, {}).setdefault(value, []).append(number)
    pairs = {
        (min(first, second), max(first, second))
        for groups in touching.values()
        for one, other in combinations(groups.values(), 2)
        for first, second in product(one, other)
    }
    for first, second in sorted(pairs):
        yield writers[first], writers[second]


def _own(writer: _Writer) -> Iterator[Finding]:
    """Yield what a profile itself overwrites, and record its final values in the writer."""
    for write in writes(writer.subject.spec):
        before = writer.at.get(write.place)
        if before is not None and not equal(before.value, write.value):
            yield writer.subject.finding(
                Severity.WARNING,
                "overwrites-itself",
                before.field,
                before.value,
                f"{write.field} of the same profile overwrites it with {_shown(write.value)}",
            )
        writer.at[write.place] = write


def _overwritten(pair: _Pair, earlier: _Writer, later: _Writer) -> Iterator[Finding]:
    for place, write in earlier.at.items():
        other = later.at.get(place)
        if other is None or equal(write.value, other.value):
            continue
        layered = pair.is_layered
        winner = pair.later.name
        why = "its pods are a subset of these" if layered else "its name comes later"
        yield pair.earlier.finding(
            Severity.NOTE if layered else Severity.WARNING,
            "overridden" if layered else "conflict",
            write.field,
            write.value,
            f"profile {winner} sets {place} to {_shown(other.value)} ({other.field}) and wins, {why}; "
            f"both select {pair.who}",
        )


def _suffixes(pair: _Pair, earlier: _Writer, later: _Writer) -> Iterator[Finding]:
    for place, suffix in earlier.suffixes.items():
        field = place.replace("metadata.labels", "spec.labelSuffixes")
        if place in later.at:
            yield pair.earlier.finding(
                Severity.WARNING,
                "suffix-lost",
                field,
                suffix,
                f"profile {pair.later.name} then overwrites {place} ({later.at[place].field}) and the suffix "
                f"is lost; both select {pair.who}",
            )
        if place in later.suffixes:
            yield pair.earlier.finding(
                Severity.WARNING,
                "suffixes-add-up",
                field,
                suffix,
                f"profile {pair.later.name} appends {_shown(later.suffixes[place])} after it; both select "
                f"{pair.who}",
            )


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(value)
