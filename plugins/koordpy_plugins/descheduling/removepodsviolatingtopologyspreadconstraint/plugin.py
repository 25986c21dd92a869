"""RemovePodsViolatingTopologySpreadConstraint: evict pods from domains that have too many of them.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint`.
"""

import logging
from collections.abc import Sequence

from koordpy.api.core import Node, Pod
from koordpy.api.label_selector import SelectorError
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit.evictability import is_terminating
from koordpy.descheduling.toolkit.label_index import LabelIndex
from koordpy.descheduling.toolkit.node_fit_snapshot import Candidates, NodeFitSnapshot
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns, selects

from . import constraint as constraints
from .args import RemovePodsViolatingTopologySpreadConstraintArgs
from .constraint import Constraint
from .domains import EligibleNodes, Spread

log = logging.getLogger(__name__)


class RemovePodsViolatingTopologySpreadConstraint(UpstreamPlugin):
    """Balance by topology spread constraints."""

    name = "RemovePodsViolatingTopologySpreadConstraint"
    args: RemovePodsViolatingTopologySpreadConstraintArgs

    def __init__(self, args: RemovePodsViolatingTopologySpreadConstraintArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._selects = selects(args.namespaces, args.label_selector)
        self._allowed = frozenset(args.constraints or ())
        self._must_fit = args.topology_balance_node_fit is not False
        self._round: Round | None = None
        """The present run."""

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Find the pods that have to leave for each constraint, then evict them."""
        try:
            self._round = await self._begin(nodes)
            leaving: dict[str, tuple[Pod, str]] = {}
            pace = self.pace()
            for namespace in self._round.pods.namespaces:
                for constraint in self._round.constraints(namespace):
                    await pace.keep()
                    spread = self._round.spread(namespace, constraint)
                    if spread.is_balanced:
                        continue
                    reason = (
                        f"the pods of its topology spread constraint by {constraint.topology_key} differ by "
                        f"{spread.skew}, maxSkew is {constraint.max_skew}"
                    )
                    moves = spread.moves(
                        self.handle.evictor.filter, self._round.candidates, must_fit=self._must_fit
                    )
                    for pod in moves.leaving:
                        leaving.setdefault(pod.metadata.key, (pod, reason))
                    self.handle.evictor.skipped(
                        moves.stuck, "it fits no other node of a domain below the average"
                    )
            for pod, reason in leaving.values():
                if self.handle.evictor.filter(pod):
                    await self.evict(pod, reason)
        finally:
            self._round = None
        return SUCCESS

    async def _begin(self, nodes: Sequence[Node]) -> "Round":
        """Read the pods of the namespaces that have any constraint."""
        selected: list[Pod] = []
        pace = self.pace()
        async for node in in_turns(nodes, pace):
            active = self.handle.pods.active_on(node.metadata.name)
            selected += [pod for pod in active if self._selects(pod)]
        constrained = {pod.metadata.namespace for pod in selected if self._constraints_of(pod)}
        kept = []
        for pod in selected:
            await pace.keep()
            if pod.metadata.namespace in constrained and self.handle.evictor.filter(pod):
                kept.append(pod)
        return Round(nodes, kept, self._allowed, NodeFitSnapshot(self.handle.pods))

    def _constraints_of(self, pod: Pod) -> bool:
        return any(item.when_unsatisfiable in self._allowed for item in pod.spec.topology_spread_constraints)

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node whose domain would then have too many pods of a constraint of the pod."""
        if not self._selects(pod) or not self._constraints_of(pod):
            return None
        current = self._round
        if current is None:
            nodes = self.handle.nodes()
            active = (other for item in nodes for other in self.handle.pods.active_on(item.metadata.name))
            kept = [other for other in active if self._selects(other) and self.handle.evictor.filter(other)]
            current = Round(nodes, kept, self._allowed, NodeFitSnapshot(self.handle.pods))
        return current.objection(pod, node, pods)


class Round:
    """One run: its nodes, the evictable pods on them, and what is computed once for many constraints."""

    def __init__(
        self, nodes: Sequence[Node], pods: Sequence[Pod], allowed: frozenset[str], fit: NodeFitSnapshot
    ) -> None:
        self.pods = LabelIndex(pods)
        self._nodes = nodes
        self._labels = {node.metadata.name: node.metadata.labels for node in nodes}
        self._allowed = allowed
        self._fit = fit
        self._eligible: dict[bytes, EligibleNodes] = {}
        self._candidates: dict[tuple[str, ...], Candidates] = {}
        self._spreads: dict[tuple[str, bytes], Spread] = {}

    def constraints(self, namespace: str) -> list[Constraint]:
        """Return the constraints of a namespace's pods, each once; invalid ones are logged."""
        found: dict[bytes, Constraint | None] = {}
        for pod in self.pods.of_namespace(namespace):
            self._read(pod, found)
        return [constraint for constraint in found.values() if constraint is not None]

    def _read(self, pod: Pod, found: dict[bytes, Constraint | None]) -> None:
        for item in pod.spec.topology_spread_constraints:
            if item.when_unsatisfiable not in self._allowed:
                continue
            key = constraints.key_of(item, pod)
            if key[0] not in found:
                found[key[0]] = None
                try:
                    found[key[0]] = constraints.read(item, pod, key)
                except SelectorError as error:
                    log.error("pod %s: a topology spread constraint is invalid: %s", pod.metadata.key, error)

    def spread(self, namespace: str, constraint: Constraint) -> Spread:
        """Return a constraint's pods by domain."""
        eligible = self._eligible.get(constraint.nodes_key)
        if eligible is None:
            eligible = self._eligible[constraint.nodes_key] = EligibleNodes(self._nodes, constraint.nodes)
        pods = (pod for pod in self.pods.selected(namespace, constraint.selector) if not is_terminating(pod))
        return Spread(constraint, eligible, pods, lambda pod: self._domain(pod, constraint.topology_key))

    def _domain(self, pod: Pod, topology_key: str) -> str | None:
        return self._labels.get(pod.spec.node_name, {}).get(topology_key)

    def candidates(self, nodes: Sequence[Node]) -> Candidates:
        """Return the nodes to which pods could go; equal lists share what is known of them."""
        names = tuple(node.metadata.name for node in nodes)
        known = self._candidates.get(names)
        if known is None:
            known = self._candidates[names] = Candidates(self._fit, nodes)
        return known

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Return which constraint of a pod would not be met with it, and these pods, on a node."""
        found: dict[bytes, Constraint | None] = {}
        self._read(pod, found)
        for constraint in filter(None, found.values()):
            value = node.metadata.labels.get(constraint.topology_key)
            if value is None:
                continue
            skew = self._skew_with(constraint, pod, node, value, pods)
            if skew > constraint.max_skew:
                return (
                    f"the pods of the topology spread constraint by {constraint.topology_key} would differ "
                    f"by {skew}, maxSkew is {constraint.max_skew}"
                )
        return None

    def _skew_with(
        self, constraint: Constraint, pod: Pod, node: Node, value: str, pods: Sequence[Pod]
    ) -> int:
        """By how much the domain of a node would exceed the smallest one."""
        namespace = pod.metadata.namespace
        spread = self._spreads.get((namespace, constraint.key))
        if spread is None:
            spread = self._spreads[namespace, constraint.key] = self.spread(namespace, constraint)
        there = {
            other.metadata.key
            for other in pods
            if other.metadata.namespace == namespace
            and not is_terminating(other)
            and constraint.selector.matches(other.metadata.labels)
        }
        if constraint.selector.matches(pod.metadata.labels):
            there.add(pod.metadata.key)
        name = node.metadata.name
        sizes = {
            domain: count
            for domain, members in spread.pods.items()
            if (
                count := sum(
                    other.spec.node_name != name and other.metadata.key not in there for other in members
                )
            )
        }
        sizes[value] = sizes.get(value, 0) + len(there)
        return sizes[value] - spread.smallest(sizes)
