"""Pods that are placed together, all that are needed or none: the members of a gang, say.

Beside kube-scheduler a job is planned whole: at the first filter call for one of its pods, all of them go
through whole cycles, one after the other, and what they take (room on nodes, quotas, reservations, devices)
is reserved until their bind calls. Each later filter call of a planned pod is answered with its node. If not
enough of them fit, nothing is kept, and all are rejected with one reason.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass

from koordpy.api.core import Pod

from .cycle_state import StateKey
from .status import Status

MOVED: StateKey[bool] = StateKey("koordpy.dev/moved")
"""In Unreserve: the pod is placed on another node at once, so the other pods of its job keep their nodes."""


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that are placed together.

    `pods` are those without a node yet, in the order of placement, the pod of the attempt among them; not
    those that wait in Permit. `suffices` returns whether the job can proceed if the pods with these UIDs find
    nodes. What was planned is released if the pods do not all ask to be bound within `seconds`.
    """

    id: str
    pods: tuple[Pod, ...]
    suffices: Callable[[Collection[str]], bool]
    seconds: float

    def __post_init__(self) -> None:
        if not self.pods:
            raise ValueError(f"job {self.id}: expected pods")
        if len({pod.metadata.uid for pod in self.pods}) < len(self.pods):
            raise ValueError(f"job {self.id}: a pod is in it twice")


class PlansJobs:
    """Knows which pods are placed together. Runs where PreFilter is enabled; the first plugin decides."""

    def may_plan(self, pod: Pod) -> bool:
        """Return whether a pod may be in a job at all, decided by the pod alone: asked for every pod."""
        return True

    def job_of(self, pod: Pod) -> Job | None:
        """Return the job that a pod is to be planned with now, None if it is scheduled by itself.

        Called before PreFilter, when the pod is in no valid plan. Nothing may be changed: what-ifs call it
        too.
        """
        raise NotImplementedError

    def sign_member(self, pod: Pod) -> Hashable | None:
        """Sign a pod of a job, as `SignPlugin.sign_pod` does for all pods.

        To pods with the same signature, of one job or several, this plugin gives the same answers in Filter
        and Score while they are planned. None, the default, means that it does not know: every pod is
        evaluated alone.
        """
        return None

    def planning(self, job: Job) -> None:
        """Note that the cycles of a job's pods begin; one of the following methods says how they ended."""

    def job_planned(self, job: Job, nodes: Mapping[str, str]) -> None:
        """Note that a job is planned: the nodes by the UIDs of the pods that have one."""

    def job_refused(self, job: Job, status: Status) -> None:
        """Note that a job does not fit; the status is what all its pods are told."""

    def job_examined(self, job: Job) -> None:
        """Note that a job was planned only to see whether it fits: nothing comes of it."""
