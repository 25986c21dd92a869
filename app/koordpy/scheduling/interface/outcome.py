"""The results of the filter and score phases of one attempt, kept as arrays until texts are needed."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet

from .fit_error import fit_error
from .status import SUCCESS, Code, Status, Verdict

_NOT_LOOKED_AT = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


@dataclass(slots=True)
class PreFilterOutcome:
    """The result of PreFilter: the only node names to filter (None: any), or why to stop."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    rejectors: Sequence[str] = ()
    """The plugins that restricted the node names."""

    @property
    def absent_status(self) -> Status:
        """The status of nodes outside `node_names`."""
        return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.rejectors))}]")


@dataclass(slots=True)
class Refusals:
    """The nodes that one plugin rejected: `indexes` (k,) into the NodeSet, and its verdict on all nodes
    tested.

    `asked` (m,) are the indexes that the verdict covers, None if it covers the whole set.
    """

    plugin: str
    indexes: Int64
    verdict: Verdict
    asked: Int64 | None = None

    def status(self, index: int) -> Status:
        """Return the status that the plugin gave to a node of `indexes`."""
        position = index if self.asked is None else int(np.searchsorted(self.asked, index))
        return self.verdict.status(position).by(self.plugin)

    def grouped(self) -> Iterator[tuple[Status, Int64]]:
        """Yield each distinct status with the indexes of the nodes that have it."""
        at = self.indexes if self.asked is None else np.searchsorted(self.asked, self.indexes)
        codes = self.verdict.codes
        if codes is None or not len(at):
            return
        keys = np.zeros(len(at), np.int64) if self.verdict.keys is None else self.verdict.keys[at]
        pairs = keys * 8 + codes[at]
        first = int(pairs[0])
        if (pairs == first).all():
            groups = [(first, self.indexes)]
        else:
            groups = [(int(pair), self.indexes[pairs == pair]) for pair in np.unique(pairs)]
        for pair, members in groups:
            key, code = divmod(pair, 8)
            yield Status(Code(code), self.verdict.reasons_of(key), self.plugin), members


@dataclass(slots=True)
class FilterOutcome:
    """Which of the candidate nodes a pod can go to, and why not to the others.

    With `prefilter` not a Success no node was filtered. Nodes outside `nodes` were left out by a PreFilter
    plugin and are in `absent`.
    """

    nodes: NodeSet
    """The nodes that were filtered."""
    feasible: NDArray[np.bool_]
    """(n,)"""
    refusals: list[Refusals] = field(default_factory=list)
    prefilter: Status = SUCCESS
    absent: Sequence[str] = ()
    absent_status: Status = SUCCESS
    error: Status | None = None
    """An Error on some node: the whole attempt fails."""

    @property
    def kept(self) -> NodeSet:
        """The feasible nodes."""
        return self.nodes if self.feasible.all() else self.nodes.subset(self.feasible)

    @property
    def plugins(self) -> Iterator[str]:
        """The names of the plugins that rejected the pod, or nodes."""
        yield self.prefilter.plugin
        for refusals in self.refusals:
            yield refusals.plugin

    def status(self, index: int) -> Status:
        """Return the status of one node by its index in `nodes`."""
        if not self.feasible[index]:
            for refusals in self.refusals:
                at = int(np.searchsorted(refusals.indexes, index))
                if at < len(refusals.indexes) and refusals.indexes[at] == index:
                    return refusals.status(index)
        return SUCCESS

    def failed(self) -> Iterator[tuple[Status, list[str]]]:
        """Yield each distinct status with the names of the nodes that were rejected with it."""
        names = self.nodes.names
        for refusals in self.refusals:
            for status, indexes in refusals.grouped():
                yield status, [names[i] for i in indexes.tolist()]
        if self.absent:
            yield self.absent_status, list(self.absent)

    def status_of(self, name: str) -> Status:
        """Return the status of a node by its name; one that was not filtered is unresolvable."""
        if not self.prefilter.is_success:
            return self.prefilter
        index = self.nodes.index_of(name)
        if index is not None:
            return self.status(index)
        return self.absent_status if name in self.absent else _NOT_LOOKED_AT

    def refused_with(self, code: Code) -> list[str]:
        """Return the names of the nodes that were rejected with a code."""
        if not self.prefilter.is_success:
            return list(self.nodes.names) if self.prefilter.code is code else []
        return [name for status, names in self.failed() if status.code is code for name in names]

    def message(self, post_filter: str = "") -> str:
        """Return kube-scheduler's message why no node was found; `post_filter` is PostFilter's message."""
        counts: Counter[str] = Counter()
        for status, names in self.failed():
            for reason in status.reasons:
                counts[reason] += len(names)
        total = len(self.nodes) + len(self.absent)
        return fit_error(total, counts, pre_filter=self.prefilter.message, post_filter=post_filter)


@dataclass(slots=True)
class Scores:
    """Normalised and weighted scores: one (n,) int64 array per plugin, and their sum."""

    nodes: NodeSet
    by_plugin: Mapping[str, Int64]
    total: Int64
    """(n,)"""
    _top: tuple[int, list[int]] = field(default=(0, []), repr=False, compare=False)
    """The best nodes that were asked for last, and their number: identical pods share their scores."""

    def top(self, count: int) -> Sequence[int]:
        """Return the indexes of the best nodes, best first; equal totals keep their order."""
        if self._top[0] != count:
            self._top = count, self._find_top(count)
        return self._top[1]

    def _find_top(self, count: int) -> list[int]:
        if count >= len(self.total):
            found = np.argsort(-self.total, kind="stable")
        else:
            chosen = np.argpartition(-self.total, count)[:count]
            found = chosen[np.lexsort((chosen, -self.total[chosen]))]
        indexes: list[int] = found.tolist()
        return indexes


@dataclass(slots=True)
class PostFilterResult:
    """What PostFilter does with the pod's nomination."""

    nominated_node_name: str = ""
    override: bool = False
    """False: leave the pod's nomination as it is; True: set it to `nominated_node_name`, also when empty."""
