"""The target of a pod: the first underutilized node that it fits and that stays within its thresholds.

Thousands of nodes are checked for each of thousands of pods, so float64 columns first exclude the nodes that
are too full for a pod, with a margin wider than any rounding error; the rest are decided exactly. Nodes are
checked in order, a block at a time: most pods fit one of the first.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordpy.api import node_affinity
from koordpy.api.core import Pod
from koordpy.descheduling.toolkit.node_fit import NodeFit
from koordpy.lib.counting import counted

from .classification import is_over
from .totals import Amounts
from .usage import NodeUsage

MARGIN = 1e-9

BLOCK = 256

MOST_EXPLAINED = 50
"""Nodes whose reasons against a pod are counted."""

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


class Targets:
    """Underutilized nodes in order. Only `place` may change their usages meanwhile."""

    def __init__(self, nodes: Sequence[NodeUsage], prod: bool, fit: NodeFit, block: int = BLOCK) -> None:
        self._nodes, self._prod, self._fit, self._block = nodes, prod, fit, block
        self._names = sorted({name for node in nodes for name in node.live(prod)[1]})
        self._headroom: Float = np.full((len(self._names), len(nodes)), np.inf)
        for row in range(len(nodes)):
            self._refresh(row)
        self._left: dict[str, Float] = {}
        self._admitting: dict[tuple[object, bytes], Bool] = {}

    def place(self, pod: Pod, used: Amounts) -> bool:
        """Add a pod's usage to the first node that it fits, for later pods; False if it fits none."""
        for row in self._candidates(pod, used):
            target = self._nodes[row]
            usage, high = target.live(self._prod)
            added = {name: usage[name] + used.get(name, 0) for name in high if name in usage}
            if not is_over(added, high) and self._fit.fits(pod, target.node):
                usage.update(added)
                self._refresh(row)
                return True
        return False

    def reason_against(self, pod: Pod, used: Amounts) -> str:
        """Return why a pod fits none of the nodes: how many of the first ones refuse it, by reason."""
        reasons: Counter[str] = Counter()
        for target in self._nodes[:MOST_EXPLAINED]:
            usage, high = target.live(self._prod)
            over = sorted(
                name for name in high if name in usage and usage[name] + used.get(name, 0) > high[name]
            )
            reasons.update(self._fit.reasons_against(pod, target.node))
            reasons.update(
                f"above the high threshold of {name} with it and earlier candidates" for name in over
            )
        told = ", ".join(f"{nodes} {reason}" for reason, nodes in reasons.most_common())
        checked = len(self._nodes[:MOST_EXPLAINED])
        of = "" if checked == len(self._nodes) else f" (of the first {checked})"
        return f"it fits none of {counted(len(self._nodes), 'underutilized node')}{of}: {told}"

    def _candidates(self, pod: Pod, used: Amounts) -> Iterator[int]:
        """The rows that a pod may fit, in order; a superset of those that it fits."""
        columns = [(self._headroom[at], used.get(name, 0)) for at, name in enumerate(self._names)]
        columns += [(self._left_of(name), amount) for name, amount in self._fit.requests_of(pod).items()]
        needs = [(column, _at_least(amount)) for column, amount in columns]
        admitting = self._admits(pod)
        for start in range(0, len(self._nodes), self._block):
            block = slice(start, start + self._block)
            possible = admitting[block]
            for column, amount in needs:
                possible = possible & (column[block] >= amount)
            yield from (start + np.flatnonzero(possible)).tolist()

    def _admits(self, pod: Pod) -> Bool:
        """(nodes,) bool, whether labels, taints and cordons allow the pod; equal within a workload."""
        key = node_affinity.required(pod.spec), msgspec.msgpack.encode(pod.spec.tolerations)
        known = self._admitting.get(key)
        if known is None:
            known = np.array([self._fit.admits(pod, target.node) for target in self._nodes], np.bool_)
            self._admitting[key] = known
        return known

    def _left_of(self, resource: str) -> Float:
        """(nodes,) the unrequested amount of a resource."""
        known = self._left.get(resource)
        if known is None:
            known = np.array([float(self._fit.left(target.node, resource)) for target in self._nodes])
            self._left[resource] = known
        return known

    def _refresh(self, row: int) -> None:
        usage, high = self._nodes[row].live(self._prod)
        for at, name in enumerate(self._names):
            if name in usage and name in high:
                self._headroom[at, row] = float(high[name] - usage[name])


def _at_least(amount: int) -> float:
    return amount - abs(amount) * MARGIN
