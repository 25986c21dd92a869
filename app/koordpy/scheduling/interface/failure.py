"""A failed attempt as seen by plugins, and what happens to the pod's nomination.

Source: Koordinator, `pkg/scheduler/frameworkext` (`errorhandler_dispatcher.go`,
`nominating_info_takeover.go`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from koordpy.api.core import Pod

from .cycle_state import CycleState
from .outcome import FilterOutcome, PostFilterResult
from .status import Code, Status

JOB_PREEMPTION_SUCCESS = "JobPreemptionSuccessPlugin"
"""Rejects a waiting pod whose job preempted: the pod is nominated to the node on which it waited."""

JOB_PREEMPTION_FAILURE = "JobPreemptionFailurePlugin"
"""Rejects a waiting pod whose job cannot preempt: the pod loses its nomination."""

JOB_REJECT = "JobRejectPlugin"
"""Rejects a waiting pod because its job is incomplete: its nomination stays as it is."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known of a failed attempt. `nomination` None leaves the pod's nomination as it is."""

    pod: Pod
    status: Status
    nomination: PostFilterResult | None = None
    node_name: str = ""
    """The node that had been chosen when the attempt failed."""
    state: CycleState | None = None
    outcome: FilterOutcome | None = None
    """Set when nodes were filtered and none fits."""
    refused_by: frozenset[str] = frozenset()
    """For a pod of a job that does not fit, the plugins that are the reason; others have had no part."""

    @property
    def plugins(self) -> frozenset[str]:
        """The names of the plugins that had a part in the failure."""
        seen = self.outcome.plugins if self.outcome is not None else ()
        return self.refused_by.union((self.status.plugin,), seen)

    @property
    def keeps_no_node(self) -> bool:
        """Whether the pod has no nomination after this."""
        if self.nomination is not None and self.nomination.override:
            return not self.nomination.nominated_node_name
        return self.nomination is None or not self.pod.status.nominated_node_name


FailureHandler = Callable[[Failure], bool]
"""Called when an attempt failed; returning true claims the failure, and later handlers are not called."""


def taken_over(
    status: Status, nomination: PostFilterResult | None, node_name: str
) -> PostFilterResult | None:
    """Return the nomination that a failed attempt ends with.

    A plugin that rejects the waiting pods of a job knows their nominations better than the scheduler;
    `node_name` is where the pod waited. Koordinator compares two different names of the rejecting plugin, of
    which the second is empty since Kubernetes 1.33; here it is one.
    """
    if status.code is not Code.UNSCHEDULABLE:
        return nomination
    decided = {
        JOB_PREEMPTION_SUCCESS: PostFilterResult(node_name, override=True),
        JOB_REJECT: PostFilterResult(),
        JOB_PREEMPTION_FAILURE: PostFilterResult(override=True),
    }
    return decided.get(status.plugin, nomination)
