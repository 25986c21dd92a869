"""The affinity terms of the pods on the nodes.

Pods with equal terms are grouped, with their rows. A pod to be scheduled is compared only with terms that
name one of its labels, and the few that name no label.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.label_selector import NOTHING
from koordpy.cluster.columns import Int64
from koordpy.cluster.overlay import VisiblePods

from .terms import PodTerms, Term, key_of, read, read_key

Pick = Callable[[PodTerms], Sequence[Term]]
"""The kind of a pod's terms in an index."""


class PodSource(Protocol):
    """Pods on rows of the node table: those of the table, or its hidden ones."""

    def on_pods(
        self, place: Callable[[int, Pod], None], displace: Callable[[int, Pod], None]
    ) -> Callable[[], None]:
        """Call handlers when a pod is added to a row and when it is removed."""
        ...


class MatchedTerm(NamedTuple):
    """A term that matches the pod to be scheduled, and the nodes of the pods that have it."""

    term: Term
    rows: Int64
    """(k,) rows of the node table, each once."""
    pods: Int64
    """(k,) the number of such pods; negative for pods that are hidden from an attempt."""


class Holders:
    """The pods with the same terms: their number by row."""

    __slots__ = ("_arrays", "rows", "terms")

    def __init__(self, terms: PodTerms) -> None:
        self.terms = terms
        self.rows: dict[int, int] = {}
        self._arrays: tuple[Int64, Int64] | None = None

    def add(self, row: int, number: int) -> None:
        """Add pods to a row, or remove them."""
        count = self.rows.get(row, 0) + number
        if count:
            self.rows[row] = count
        else:
            del self.rows[row]
        self._arrays = None

    @property
    def arrays(self) -> tuple[Int64, Int64]:
        """(k,) the rows, (k,) the numbers of pods."""
        if self._arrays is None:
            self._arrays = _arrays(self.rows)
        return self._arrays


def _arrays(counts: Mapping[int, int]) -> tuple[Int64, Int64]:
    """Return keys and values."""
    return np.fromiter(counts, np.int64, len(counts)), np.fromiter(counts.values(), np.int64, len(counts))


class TermIndex:
    """Terms of one kind, indexed by the labels of the pods that they may match."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick
        self._by_label: dict[tuple[str, str] | None, dict[tuple[int, int], tuple[Term, Holders]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_label)

    def add(self, holders: Holders) -> None:
        """Add the terms of pods."""
        for place, term in enumerate(self._pick(holders.terms)):
            if term.selector != NOTHING:
                self._by_label.setdefault(term.label, {})[id(holders), place] = term, holders

    def remove(self, holders: Holders) -> None:
        """Remove the terms that no pod has any more."""
        for place, term in enumerate(self._pick(holders.terms)):
            bucket = self._by_label.get(term.label)
            if bucket is not None:
                bucket.pop((id(holders), place), None)
                if not bucket:
                    del self._by_label[term.label]

    def match(self, pod: Pod, of_namespace: Mapping[str, str]) -> bool:
        """Return whether any of the terms matches a pod; `of_namespace` are the labels of its namespace."""
        return any(True for _ in self._matching(pod, of_namespace))

    def _matching(self, pod: Pod, of_namespace: Mapping[str, str]) -> Iterator[tuple[Term, Holders]]:
        if not self._by_label:
            return
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        for label in (None, *labels.items()):
            for term, holders in self._by_label.get(label, {}).values():
                if term.matches(namespace, labels, of_namespace):
                    yield term, holders

    def matched(self, pod: Pod, of_namespace: Mapping[str, str]) -> Iterator[MatchedTerm]:
        """Yield the terms that match a pod."""
        for term, holders in self._matching(pod, of_namespace):
            yield MatchedTerm(term, *holders.arrays)

    def moved(self, pod: Pod, of_namespace: Mapping[str, str], visible: VisiblePods) -> Iterator[MatchedTerm]:
        """Yield the matching terms of pods that an attempt moves or hides."""
        found: dict[Term, dict[int, int]] = {}
        for row, other, sign in visible.moves():
            for term in self._pick(read(other)):
                counts = found.setdefault(term, {})
                counts[row] = counts.get(row, 0) + sign
        for term, counts in found.items():
            if term.matches(pod.metadata.namespace, pod.metadata.labels, of_namespace):
                yield MatchedTerm(term, *_arrays(counts))


class BoundTerms:
    """The terms of all pods of a source.

    `scored` picks what counts for scores.
    """

    def __init__(self, source: PodSource, scored: Pick) -> None:
        self._holders: dict[bytes, Holders] = {}
        self.required_anti = TermIndex(lambda terms: terms.required_anti)
        self.scored = TermIndex(scored)
        source.on_pods(self._place, self._displace)

    def _place(self, row: int, pod: Pod) -> None:
        key = key_of(pod)
        if key is None:
            return
        holders = self._holders.get(key)
        if holders is None:
            holders = self._holders[key] = Holders(read_key(key))
            self.required_anti.add(holders)
            self.scored.add(holders)
        holders.add(row, 1)

    def _displace(self, row: int, pod: Pod) -> None:
        key = key_of(pod)
        if key is None:
            return
        holders = self._holders[key]
        holders.add(row, -1)
        if not holders.rows:
            del self._holders[key]
            self.required_anti.remove(holders)
            self.scored.remove(holders)
