"""What planned jobs hold until their pods are bound.

A plan is released as a whole

- when one of its pods is deleted, preempted, ends, or is bound elsewhere, and when a planned node is gone;
- when the attempt of one of its pods fails after all, or its bind;
- when its pods have not all asked to be bound in time;
- when the Lease under which it was made is lost.

The placement of a pod that is being bound is the bind call's; if it fails, the others are released. Not so if
only the binding could not be written: then others of the job are bound or being bound, and the job must not
stay like that because something else takes the place of the last pod. Its node is held until kube-scheduler
tries the pod again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import encode
from koordpy.lib.byte_budget import ByteBudget
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.ranking import Offered, SomeNodes
from koordpy.scheduling.framework.metrics import HELD_PODS, PLANS_ENDED, counter
from koordpy.scheduling.interface import Job
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status

from .planner import Planned

log = logging.getLogger(__name__)

MOST_PODS = 10_000
"""The pods of the largest job that is planned: nothing else happens meanwhile, for about 0.3 ms a pod."""

MAX_BYTES = 256 << 20
"""The budget of plans."""

PLACEMENT_BYTES = 10 << 10
"""What is kept for a pod besides the pod, by estimate."""

RETRIED_WITHIN = 60.0
"""For how many seconds the node of a pod whose binding could not be written is held; kube-scheduler tries a
pod again after ten at most, and then it waits for its turn."""


@dataclass(eq=False, slots=True)
class HeldPlan:
    """A plan, the placements of its pods that are not being bound yet, by UID, and the pods that are."""

    job: Job
    placements: dict[str, Placement]
    is_pinned: bool
    term: int
    until: float
    """Monotonic seconds."""
    sizes: dict[str, int]
    """Bytes of the placements, by the UIDs of the pods."""
    binding: set[str] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class HeldPlans:
    """The plans of a process."""

    def __init__(
        self, handle: Handle, fence: Fence, place: Callable[[Pod, Offered], Placement | Status]
    ) -> None:
        self._clock, self._fence, self._place = handle.clock, fence, place
        self._nodes, self._pods = handle.nodes, handle.cluster.store(Pod)
        self._budget = ByteBudget("held plans", MAX_BYTES)
        self._plans: dict[str, HeldPlan] = {}
        """By the UID of each pod that is held or being bound."""
        handle.on(Pod, update=self._pod_updated, delete=self._pod_deleted)
        handle.on(Node, delete=self._node_deleted)
        handle.waiting_pods.on_preempt(self._preempted)

    def __len__(self) -> int:
        """The number of pods that are held."""
        return sum(len(plan.placements) for plan in self)

    def __iter__(self) -> Iterator[HeldPlan]:
        return iter(dict.fromkeys(self._plans.values()))

    def room_for(self, job: Job) -> Status:
        """Return why a job cannot be planned, because it is large or much is held for others; or Success."""
        if len(job.pods) > MOST_PODS:
            return Status.unresolvable(
                f"{len(job.pods)} pods of {job.id} wait for a node, and at most {MOST_PODS} can be planned "
                "together"
            )
        size = sum(map(_size, job.pods))
        if size > self._budget.limit:
            return Status.unresolvable(
                f"the {len(job.pods)} pods of {job.id} take {size >> 20} MiB of memory, of which plans may "
                f"take {self._budget.limit >> 20} MiB"
            )
        if self._budget.held + size > self._budget.limit:
            return Status.failed(
                f"{job.id} is planned when more of the {len(self)} pods are bound that are planned already: "
                f"together they would take more than {self._budget.limit >> 20} MiB of memory"
            )
        return SUCCESS

    def hold(self, planned: Planned) -> HeldPlan:
        """Hold what was planned, whether or not there is room for it."""
        job = planned.job
        sizes = {uid: _size(placement.pod) for uid, placement in planned.placements.items()}
        self._budget.add(sum(sizes.values()), len(sizes))
        plan = HeldPlan(
            job,
            dict(planned.placements),
            planned.is_pinned,
            self._fence.term,
            self._clock.monotonic() + job.seconds,
            sizes,
        )
        plan.timer = asyncio.get_running_loop().call_later(job.seconds, self._time_out, plan)
        self._plans.update(dict.fromkeys(plan.placements, plan))
        HELD_PODS.inc(len(plan.placements))
        return plan

    def of(self, uid: str) -> HeldPlan | None:
        """Return the plan that holds a node for a pod."""
        plan = self._plans.get(uid)
        if plan is None or uid not in plan.placements:
            return None
        if plan.term != self._fence.term:
            self.release(plan, "lease_lost", "the Lease under which it was made is no longer held")
            return None
        return plan

    def take(self, uid: str, node_name: str) -> Placement | None:
        """Hand over the placement of a pod that is to be bound to a node; None if there is none.

        `bound`, `release_of` or `hold_again` must follow.
        """
        plan = self.of(uid)
        if plan is None:
            return None
        placement = plan.placements[uid]
        if placement.node_name != node_name:
            why = f"is to be bound to {node_name} instead of {placement.node_name}"
            self.release_of(placement.pod, "contradicted", why)
            return None
        plan.binding.add(uid)
        self._withdraw(plan, uid)
        if not plan.placements:
            self._end(plan, "bound")
        return placement

    def bound(self, uid: str) -> None:
        """Note that the bind of a pod has ended, and concerns the others no more."""
        plan = self._plans.get(uid)
        if plan is not None and uid in plan.binding:
            plan.binding.discard(uid)
            del self._plans[uid]

    def replace(self, plan: HeldPlan, uid: str, placement: Placement) -> None:
        """Hold another placement for a pod of a plan; the old one must have been rolled back."""
        plan.placements[uid] = placement

    def moved_nowhere(self, plan: HeldPlan, pod: Pod) -> None:
        """Release the rest of a plan: one of its pods lost its node and fits on none that is offered."""
        self._withdraw(plan, pod.metadata.uid)
        del self._plans[pod.metadata.uid]
        self.release(plan, "contradicted", f"pod {pod.metadata.key} fits on no node that is offered")

    def release(self, plan: HeldPlan, reason: str, why: str) -> None:
        """Roll back everything that a plan still holds; `reason` is a label of the metric."""
        for uid in plan.binding:
            self._plans.pop(uid, None)
        plan.binding.clear()
        if plan.timer is None:
            return
        log.info("plan of %s is released, %d pods held: %s", plan.job.id, len(plan.placements), why)
        placements = dict(plan.placements)
        for uid in placements:
            self._withdraw(plan, uid)
            del self._plans[uid]
        self._end(plan, reason)
        for placement in reversed(placements.values()):
            placement.roll_back(why)
        for placement in placements.values():
            placement.framework.handle.gave_back(placement.pod)

    def release_of(self, pod: Pod, reason: str, why: str) -> None:
        """Release the plan of a pod, if there is one."""
        plan = self._plans.get(pod.metadata.uid)
        if plan is not None:
            self.release(plan, reason, f"pod {pod.metadata.key} {why}")

    def released(self, uid: str, why: str) -> None:
        """Release the plan of a pod that is gone, by its UID."""
        plan = self._plans.get(uid)
        if plan is not None:
            self.release(plan, "pod_gone", why)

    def hold_again(self, pod: Pod, node_name: str) -> None:
        """Hold the node of a pod whose binding could not be written; what it had must be released before."""
        plan = self._plans.get(pod.metadata.uid)
        if plan is None or pod.metadata.uid not in plan.binding:
            return
        self.bound(pod.metadata.uid)
        live = self._pods.by_key(pod.metadata.key)
        if live is None or live.metadata.uid != pod.metadata.uid or live.spec.node_name:
            return
        nodes, _ = self._nodes.select([node_name])
        if plan.term != self._fence.term or live.metadata.deletion_timestamp is not None or not len(nodes):
            return
        placement = self._place(live, SomeNodes(nodes))
        if isinstance(placement, Placement):
            job = Job(plan.job.id, (live,), bool, min(plan.job.seconds, RETRIED_WITHIN))
            self.hold(Planned(job, {live.metadata.uid: placement}, is_pinned=False))

    def close(self, why: str) -> None:
        """Release all plans."""
        for plan in self:
            self.release(plan, "shutdown", why)

    def _time_out(self, plan: HeldPlan) -> None:
        waiting = ", ".join(sorted(each.pod.metadata.key for each in plan.placements.values())[:3])
        self.release(
            plan,
            "timeout",
            f"not all pods asked to be bound within {plan.job.seconds:g} s, such as {waiting}",
        )

    def _withdraw(self, plan: HeldPlan, uid: str) -> None:
        del plan.placements[uid]
        self._budget.remove(plan.sizes.pop(uid))
        HELD_PODS.dec()

    def _end(self, plan: HeldPlan, reason: str) -> None:
        if plan.timer is not None:
            plan.timer.cancel()
            plan.timer = None
        counter(PLANS_ENDED, reason).inc()

    # --- cluster events --------------------------------------------------------------------------

    def _pod_updated(self, _: Pod, pod: Pod) -> None:
        plan = self._plans.get(pod.metadata.uid)
        if plan is None:
            return
        if pod.is_terminal or pod.metadata.deletion_timestamp is not None:
            self.release_of(pod, "pod_gone", "is at its end")
        elif pod.spec.node_name and pod.metadata.uid in plan.placements:
            self.release_of(pod, "contradicted", f"was bound to {pod.spec.node_name}")

    def _preempted(self, uid: str) -> bool:
        plan = self._plans.get(uid)
        if plan is None or uid not in plan.placements:
            return False
        self.release_of(plan.placements[uid].pod, "preempted", "was preempted")
        return True

    def _pod_deleted(self, pod: Pod) -> None:
        self.release_of(pod, "pod_gone", "was deleted")

    def _node_deleted(self, node: Node) -> None:
        name = node.metadata.name
        for plan in self:
            if any(placement.node_name == name for placement in plan.placements.values()):
                self.release(plan, "node_gone", f"node {name} is gone")


def _size(pod: Pod) -> int:
    """Return the bytes that the placement of a pod may keep in memory, by estimate."""
    return PLACEMENT_BYTES + len(encode(pod))
