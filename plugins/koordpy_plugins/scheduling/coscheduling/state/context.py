"""The round in which the pods of one group of gangs are tried, one after the other.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/gang_context.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.gang.topology_spec import GangTopologySpec
from koordpy.cluster.network_topology.tree import Tree
from koordpy.lib.clock import Clock
from koordpy.scheduling.interface.cycle_state import StateKey
from koordpy.scheduling.interface.diagnosis import Suggestion

from .. import metrics
from .gang import Gang

GANG_GONE: Final = "gang is nil, may be already deleted"
ALL_ATTEMPTED: Final = "all pending pods is already been attempted"
SUCCEEDED: Final = "gang is already succeed"


@dataclass(slots=True)
class SchedulingContext:
    """The round of one group. `gangs` are the IDs of its gangs.

    `failed_message` is set once a member has found no node: the others then fail for the same reason.
    """

    first_pod: Pod
    gangs: frozenset[str]
    group_id: str
    started_at: float
    """Monotonic seconds."""
    attempted: set[str] = field(default_factory=set)
    """The keys of the pods that were tried, the first one among them."""
    trigger_pod: Pod | None = None
    """The pod that failed first."""
    failed_message: str = ""
    preemption_message: str = ""
    suggestion: Suggestion | None = None
    conditions_patched: bool = False
    topology_spec: GangTopologySpec | None = None
    topology_tree: Tree | None = None
    """The network as it was when the round began, if the group has requirements of it."""
    planned_nodes: Mapping[str, str] | None = None
    """The planned nodes by pod keys, once the group is planned by network topology."""
    job_pods: Sequence[Pod] | None = None
    """The pods of the job that the round is for; None where pods are tried one by one."""

    @classmethod
    def of(cls, gang: Gang, pod: Pod, clock: Clock, tree: Tree | None) -> "SchedulingContext":
        """Return a new round, which begins with a pod of a gang."""
        settings = gang.settings
        return cls(
            pod,
            frozenset(settings.group),
            settings.group_id,
            clock.monotonic(),
            {pod.metadata.key},
            topology_spec=settings.topology_spec,
            topology_tree=tree,
        )


CONTEXT: StateKey[SchedulingContext] = StateKey("Coscheduling/context")
"""The round to which an attempt belongs, beside kube-scheduler."""


class ContextHolder:
    """The round in progress: one at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.current: SchedulingContext | None = None

    def end(self, reason: str) -> None:
        """End the round, if there is one."""
        context, self.current = self.current, None
        if context is not None:
            seconds = self._clock.monotonic() - context.started_at
            size = metrics.job_size(len(context.attempted))
            metrics.CYCLE_SECONDS.labels(reason, size).observe(seconds)
