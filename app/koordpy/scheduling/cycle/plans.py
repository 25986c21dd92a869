"""Plans of FindOneNode for several pods, kept from the attempt that makes one for those of its other pods.

While a plan is valid, its pods are tried only on their planned nodes, and the plugin is not called again. A
plan reserves nothing: other pods may take the resources, and then the placement fails. It is dropped as a
whole

- when an attempt of one of its pods fails for any reason, or finds another node;
- when a planned pod is being deleted, ends, or is bound elsewhere, and when a planned node is deleted;
- when its node is not among the candidates of an attempt: the plugin is then called in the same attempt;
- when it is too old, or too many pods are planned.

Only an attempt that found a node keeps its plan: what-ifs and rejected attempts leave nothing behind, and a
filter call without a bind leaves a plan that expires.

The pods of a job (`PlansJobs`) do not come here: what FindOneNode plans for them is reserved at once
(`koordpy.scheduling.gangs`). Koordinator's plugins keep plans themselves.
"""

import logging
from collections.abc import Iterable

from koordpy.api.core import Node, Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import FindOneNode
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plan import PLAN, PLANNED_NODE, PlacementPlan

log = logging.getLogger(__name__)

KEPT_SECONDS = 300.0
"""As long as kube-scheduler keeps an unschedulable pod waiting: older plans are not worth keeping."""

MOST_PODS = 10_000
"""The most planned pods of all plans together."""


class _Kept:
    """A valid plan: the pods that are on no node yet, by UID, with their nodes."""

    __slots__ = ("nodes", "since")

    def __init__(self, nodes: dict[str, str], since: float) -> None:
        self.nodes, self.since = nodes, since


class Plans:
    """The plans of a process, of all its profiles.

    If no profile has a FindOneNode plugin, nothing is followed and every method returns at once.
    """

    def __init__(
        self,
        frameworks: Iterable[Framework],
        handle: Handle,
        *,
        seconds: float = KEPT_SECONDS,
        most_pods: int = MOST_PODS,
    ) -> None:
        self._seconds, self._most = seconds, most_pods
        self._clock, self._nodes = handle.clock, handle.nodes
        self._of: dict[str, _Kept] = {}
        self._kept: dict[_Kept, None] = {}
        """Plans, the oldest first."""
        self._used = any(framework.enabled.having(FindOneNode) for framework in frameworks)
        if self._used:
            self._pods = handle.cluster.store(Pod)
            handle.on(Pod, update=self._pod_updated, delete=lambda pod: self.failed(pod))
            handle.on(Node, delete=self._node_deleted)

    def __len__(self) -> int:
        """The number of planned pods."""
        return len(self._of)

    def node_of(self, pod: Pod) -> str:
        """Return the node that is planned for a pod; empty if there is none."""
        kept = self._of.get(pod.metadata.uid)
        return "" if kept is None else kept.nodes[pod.metadata.uid]

    # --- attempts --------------------------------------------------------------------------------

    def begin(self, state: CycleState, pod: Pod, nodes: NodeSet) -> None:
        """Set the planned node of an attempt's pod; call it before PreFilter."""
        if not self._of:
            return
        self._forget_old()
        kept = self._of.get(pod.metadata.uid)
        if kept is None:
            return
        node_name = kept.nodes[pod.metadata.uid]
        if nodes.index_of(node_name) is not None:
            state.write(PLANNED_NODE, node_name)
        else:
            self._drop(kept, f"node {node_name} of pod {pod.metadata.key} is no candidate")

    def found(self, state: CycleState, pod: Pod) -> None:
        """Keep the plan of an attempt that has found a node, if it made one."""
        if not self._used:
            return
        plan = state.read(PLAN)
        if plan is not None:
            self._keep(plan)
        elif self._of and state.read(PLANNED_NODE) is None:
            self._drop_of(pod, "found a node beside the plan")

    def failed(self, pod: Pod) -> None:
        """Drop the plan of a pod whose attempt has failed, or that is gone."""
        if self._of:
            self._drop_of(pod, "was not placed")

    # --- storage ---------------------------------------------------------------------------------

    def _keep(self, plan: PlacementPlan) -> None:
        nodes: dict[str, str] = {}
        for planned in plan.pods:
            pod = planned.pod
            self._drop_of(pod, "is in a new plan")
            if self._nodes.placed_on(pod.metadata.uid) is None:
                nodes[pod.metadata.uid] = planned.node_name
        if not nodes or not self._can_hold(plan):
            return
        if len(nodes) > self._most:
            log.warning("a plan for %d pods is not kept: at most %d are", len(nodes), self._most)
            return
        self._forget_old()
        while len(self._of) + len(nodes) > self._most:
            self._drop(next(iter(self._kept)), "too many pods are planned")
        kept = _Kept(nodes, self._clock.monotonic())
        self._kept[kept] = None
        self._of.update(dict.fromkeys(nodes, kept))

    def _can_hold(self, plan: PlacementPlan) -> bool:
        """Return whether all pods and nodes of a plan exist. A pod that no watch has shown yet does."""
        for planned in plan.pods:
            meta = planned.pod.metadata
            live, row = self._pods.by_key(meta.key), self._nodes.row_of(planned.node_name)
            if row is None or self._nodes.node(row) is None:
                log.debug("a plan is not kept: there is no node %s", planned.node_name)
                return False
            if live is not None and (live.metadata.uid != meta.uid or _is_at_its_end(live)):
                log.debug("a plan is not kept: pod %s is at its end", meta.key)
                return False
        return True

    def _forget_old(self) -> None:
        latest = self._clock.monotonic() - self._seconds
        while self._kept and (oldest := next(iter(self._kept))).since < latest:
            self._drop(oldest, "it is too old")

    def _drop_of(self, pod: Pod, why: str) -> None:
        kept = self._of.get(pod.metadata.uid)
        if kept is not None:
            self._drop(kept, f"pod {pod.metadata.key} {why}")

    def _drop(self, kept: _Kept, why: str) -> None:
        del self._kept[kept]
        for uid in kept.nodes:
            del self._of[uid]
        log.debug("a plan for %d more pods is dropped: %s", len(kept.nodes), why)

    # --- cluster events --------------------------------------------------------------------------

    def _pod_updated(self, _: Pod, pod: Pod) -> None:
        uid = pod.metadata.uid
        kept = self._of.get(uid)
        if kept is None:
            return
        if _is_at_its_end(pod):
            self._drop_of(pod, "is at its end")
        elif pod.spec.node_name == kept.nodes[uid]:
            del kept.nodes[uid], self._of[uid]
            if not kept.nodes:
                del self._kept[kept]
        elif pod.spec.node_name:
            self._drop_of(pod, f"was bound to {pod.spec.node_name}")

    def _node_deleted(self, node: Node) -> None:
        for kept in [each for each in self._kept if node.metadata.name in each.nodes.values()]:
            self._drop(kept, f"node {node.metadata.name} is gone")


def _is_at_its_end(pod: Pod) -> bool:
    return pod.is_terminal or pod.metadata.deletion_timestamp is not None
