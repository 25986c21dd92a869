"""A plugin that plans the pods of a job together, as Coscheduling does."""

from typing import ClassVar

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Filter,
    FindOneNode,
    PlacementPlan,
    PlannedPod,
    Plugin,
    PreFilter,
    Reserve,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

JOB = "example.com/job"


class Planner(Plugin, PreFilter, FindOneNode, Filter, Reserve):
    """Plans a separate node for each pending pod of a job, by name; `order` is the order of the nodes."""

    name = "Planner"
    order: ClassVar[tuple[str, ...]] = ("a", "b", "c")
    planned_for: ClassVar[list[str]] = []
    """The pods for which the plugin was called."""
    allows: ClassVar[frozenset[str] | None] = None
    """What PreFilter leaves."""
    refuses: ClassVar[set[str]] = set()
    """Pods that fit nowhere."""
    fails: ClassVar[set[str]] = set()
    """Pods that cannot be reserved."""

    @classmethod
    def reset(cls) -> None:
        cls.order, cls.allows = ("a", "b", "c"), None
        for each in (cls.planned_for, cls.refuses, cls.fails):
            each.clear()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        return self.allows, SUCCESS

    def find_one_node(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[str | PlacementPlan, Status]:
        job = pod.metadata.labels.get(JOB)
        if job is None:
            return "", Status.skip()
        self.planned_for.append(pod.metadata.name)
        pods = [
            each
            for each in sorted(self.handle.cluster.store(Pod), key=lambda each: each.metadata.name)
            if each.metadata.labels.get(JOB) == job and not each.spec.node_name
        ]
        return PlacementPlan(list(map(PlannedPod, pods, self.order))), SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unschedulable("refused") if pod.metadata.name in self.refuses else SUCCESS

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.unschedulable("taken") if pod.metadata.name in self.fails else SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass
