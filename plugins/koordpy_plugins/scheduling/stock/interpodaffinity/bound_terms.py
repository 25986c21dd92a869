"""What the pods on the nodes want of other pods.

Pods with equal terms are kept together, with the rows they are on. A pod to be placed is tried only against
terms that name one of its labels, and the few that name no label at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.label_selector import NOTHING
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet, NodeTable

from .terms import PodTerms, Term, key_of, read, read_key

Pick = Callable[[PodTerms], Sequence[Term]]
"""Which of a pod's terms an index is about."""


class Wish(NamedTuple):
    """A term that means the pod to be placed, and where the pods are that have it."""

    term: Term
    rows: Int64
    """(k,) rows of the node table, each once."""
    pods: Int64
    """(k,) how many such pods are there."""


class Holders:
    """The pods with the same terms: how many are on which row."""

    __slots__ = ("_arrays", "rows", "terms")

    def __init__(self, terms: PodTerms) -> None:
        self.terms = terms
        self.rows: dict[int, int] = {}
        self._arrays: tuple[Int64, Int64] | None = None

    def add(self, row: int, number: int) -> None:
        """Count pods that come to a row, or leave it."""
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
    """Terms of one sort, to be found by the labels of the pod that they may mean."""

    def __init__(self, pick: Pick) -> None:
        self._pick = pick
        self._by_label: dict[tuple[str, str] | None, dict[tuple[int, int], tuple[Term, Holders]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_label)

    def add(self, holders: Holders) -> None:
        """Take in the terms of pods that have come."""
        for place, term in enumerate(self._pick(holders.terms)):
            if term.selector != NOTHING:
                self._by_label.setdefault(term.label, {})[id(holders), place] = term, holders

    def remove(self, holders: Holders) -> None:
        """Forget the terms of pods of which none is left."""
        for place, term in enumerate(self._pick(holders.terms)):
            bucket = self._by_label.get(term.label)
            if bucket is not None:
                bucket.pop((id(holders), place), None)
                if not bucket:
                    del self._by_label[term.label]

    def mean(self, pod: Pod, of_namespace: Mapping[str, str]) -> bool:
        """Return whether any of the terms means a pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return bool(self._by_label) and any(
            term.matches(namespace, labels, of_namespace)
            for label in (None, *labels.items())
            for term, _ in self._by_label.get(label, {}).values()
        )

    def wishes(self, pod: Pod, of_namespace: Mapping[str, str], nodes: NodeSet) -> Iterator[Wish]:
        """Yield the terms that mean a pod, with the pods as the nodes' overlay shows them."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        shown = nodes.overlay.pods if nodes.overlay is not None else {}
        hidden = np.fromiter(shown, np.int64, len(shown))
        for label in (None, *labels.items()):
            for term, holders in self._by_label.get(label, {}).values():
                if term.matches(namespace, labels, of_namespace):
                    rows, pods = holders.arrays
                    if len(hidden):
                        kept = ~np.isin(rows, hidden)
                        rows, pods = rows[kept], pods[kept]
                    yield Wish(term, rows, pods)
        for term, counts in self._shown(shown).items():
            if term.matches(namespace, labels, of_namespace):
                yield Wish(term, *_arrays(counts))

    def _shown(self, pods: Mapping[int, Iterable[Pod]]) -> dict[Term, dict[int, int]]:
        """Count the terms of pods by row."""
        found: dict[Term, dict[int, int]] = {}
        for row, others in pods.items():
            for other in others:
                for term in self._pick(read(other)):
                    counts = found.setdefault(term, {})
                    counts[row] = counts.get(row, 0) + 1
        return found


class BoundTerms:
    """The terms of all pods placed in a node table, assumed ones included.

    `scored` says what counts for scores.
    """

    def __init__(self, table: NodeTable, scored: Pick) -> None:
        self._holders: dict[bytes, Holders] = {}
        self.required_anti = TermIndex(lambda terms: terms.required_anti)
        self.scored = TermIndex(scored)
        table.on_pods(self._place, self._displace)

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
