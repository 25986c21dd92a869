"""One pod on its way to one node: what is allocated for it step by step, and the rollback.

The steps are kube-scheduler's and Koordinator's, in their order: a reservation is nominated, ResizePod, the
pod is assumed on its node, Reserve, Permit and its wait, PreBind, the write, PostBind. The caller chooses the
node, supplies the write and handles failures.

There is one rollback: `roll_back`. It undoes exactly what was done, once, and may be called at any time:
after any step, from outside while the pod waits in Permit, repeatedly, after a cancellation. A placement that
was rolled back takes no further step, however late Permit's answer arrives. Used as a context manager, a
placement rolls back on exit unless the pod is bound.

A failure undoes what kube-scheduler and Koordinator undo (Kubernetes `pkg/scheduler/schedule_one.go`,
Koordinator `pkg/scheduler/frameworkext/framework_extender_factory.go`):

| fails | Unreserve | forget |
|---|---|---|
| nomination of a reservation | no | no |
| ResizePod (its plugins may have allocated something already) | yes | no |
| assume | no | no |
| Reserve, Permit, the wait, PreBind, the write | yes | yes |

No step before Permit's answer awaits anything, so nothing can interleave; several placements of one plan are
reserved in order and rolled back in reverse.
"""

from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Self

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.interface.waiting_pods import WaitingPod

from .marks import Marked, Marks

ROLLED_BACK = "the pod's placement was rolled back"
"""The default reason why a placement takes no further step."""


class Placement:
    """A pod, its chosen node, and what has been allocated for it so far.

    Each step returns Success or the failure; after a failure only `roll_back` may follow.
    """

    __slots__ = (
        "_assumed",
        "_bound",
        "_marks",
        "_nominated",
        "_reserved",
        "_unreserve",
        "_waiting",
        "_writing",
        "binding",
        "ended",
        "framework",
        "node_name",
        "pod",
        "state",
    )

    def __init__(self, framework: Framework, state: CycleState, pod: Pod, node_name: str) -> None:
        self.framework, self.state = framework, state
        self.pod = pod
        """The pod as ResizePod left it."""
        self.node_name = node_name
        self.binding = Binding(pod, node_name)
        """What will be written; PreBind adds to it."""
        self.ended = ""
        """Why the placement was rolled back; empty if it was not."""
        self._nominated = False
        self._unreserve = False
        """Whether plugins may have allocated something."""
        self._assumed = False
        self._reserved = False
        self._waiting: WaitingPod | None = None
        self._writing = False
        self._marks: Marks | None = None
        self._bound = False

    def __repr__(self) -> str:
        return f"Placement({self.pod.metadata.key} on {self.node_name})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._bound:
            self.roll_back()

    @property
    def is_waiting(self) -> bool:
        """Whether the pod waits in Permit."""
        return self._waiting is not None

    @property
    def was_reserved(self) -> bool:
        """Whether Reserve has succeeded; it may be reverted by now."""
        return self._reserved

    @property
    def waits(self) -> Mapping[str, float]:
        """The longest wait in seconds, by Permit plugin that makes the pod wait."""
        return {} if self._waiting is None else self._waiting.timeouts

    @property
    def is_bound(self) -> bool:
        """Whether the write has succeeded."""
        return self._bound

    # --- allocate --------------------------------------------------------------------------------

    def reserve(self) -> Status:
        """Nominate a reservation, resize the pod, assume it on its node and run Reserve.

        A rejection by one of the first two is an Error, as in Koordinator: the pod is retried soon.
        """
        if self.ended:
            return Status.failed(self.ended)
        framework, uid = self.framework, self.pod.metadata.uid
        handle = framework.handle
        known = handle.nodes.placed_on(uid)
        if known is not None:
            # The pod belongs to another placement, or is bound: what plugins hold for it must stay.
            return Status.failed(
                f"pod {self.pod.metadata.key} cannot be assumed on {self.node_name}: it is on {known}"
            )
        self._nominated = True
        status = framework.nominate_reservation(self.state, self.pod, self.node_name)
        if not status.is_success:
            return _as_error(status)
        pod, status = framework.run_resize_pod(self.state, self.pod, self.node_name)
        if not status.is_success:
            self._unreserve = True
            return _as_error(status)
        self.pod = self.binding.pod = pod
        if not is_reserve_pod(pod):  # the Reservation plugin counts these on their node, in Reserve
            try:
                handle.nodes.assume(pod, self.node_name)
            except ValueError as error:
                return Status.failed(error)
        self._assumed = True
        handle.nominator.delete(uid)
        self._unreserve = True
        status = framework.run_reserve(self.state, pod, self.node_name)
        self._reserved = status.is_success
        return status

    def permit(self) -> Status:
        """Run Permit: return Success, Wait or a failure. After Wait, `allowed` returns the final answer.

        The pod is registered as waiting before this returns, so that no answer can come too early.
        """
        if self.ended:
            return Status.failed(self.ended)
        status, waits = self.framework.run_permit(self.state, self.pod, self.node_name)
        if status.code is Code.WAIT:
            self._waiting = self.framework.handle.waiting_pods.add(self.pod, self.node_name, waits)
        return status

    async def allowed(self) -> Status:
        """Wait for the plugins that made the pod wait; return Success at once if none did."""
        waiting = self._waiting
        if waiting is not None and not self.ended:
            status = await waiting.outcome()
            self._stop_waiting()
            if not self.ended:
                return status
        return Status.failed(self.ended) if self.ended else SUCCESS

    # --- writing ---------------------------------------------------------------------------------

    async def pre_bind(self) -> Status:
        """Run PreBind, which adds to `binding` what will be written."""
        if self.ended:
            return Status.failed(self.ended)
        return await self.framework.run_pre_bind(self.state, self.pod, self.binding)

    async def write(self, work: Coroutine[Any, Any, Status]) -> Status:
        """Run the write that binds the pod; if it succeeds the pod is bound and keeps its allocations.

        Nothing is rolled back while the write is in flight, because its outcome is unknown.
        """
        if self.ended:
            work.close()
            return Status.failed(self.ended)
        self._writing = True
        try:
            status = await work
        finally:
            self._writing = False
        self._bound = status.is_success
        return status

    async def bind(self) -> Status:
        """Set the labels that PreBind wants and remove what it drops, then run the Bind plugins.

        Skip when none binds the pod.

        Call this, `mark` and `unmark` only within `write`.
        """
        if self.binding.labels or self.binding.dropped:  # most pods have none
            status = await self.mark(self.pod)
            if not status.is_success:
                return status
        return await self.framework.run_bind(self.state, self.pod, self.binding)

    async def mark(self, target: Marked, *, annotations: bool = False) -> Status:
        """Set what PreBind wants on the pod, or on the Reservation that it stands for, before it is bound.

        With `annotations`, set these too: for a binding write that does not carry them.
        """
        handle, binding = self.framework.handle, self.binding
        also: dict[str, str | None] = {}
        also.update((name, None) for name in binding.dropped if name in target.metadata.annotations)
        if annotations:
            also.update(binding.annotations)
        if self._marks is not None or not (binding.labels or also):
            return SUCCESS
        self._marks = Marks(target, binding.labels, also, handle.client, handle.rng)
        return await self._marks.set()

    async def unmark(self) -> None:
        """Revert what `mark` set, after the binding write has failed."""
        marks, self._marks = self._marks, None
        if marks is not None:
            await marks.take_back()

    def post_bind(self) -> None:
        """Run the PostBind plugins for a bound pod."""
        self.framework.run_post_bind(self.state, self.pod, self.node_name)

    # --- roll back -------------------------------------------------------------------------------

    def roll_back(self, why: str = ROLLED_BACK) -> bool:
        """Release everything allocated so far; return whether nothing is held now.

        This has no effect on a bound pod, or while the write is in flight: if that fails, its caller rolls
        back. Plugins and handlers that raise are logged and do not stop the others.
        """
        if self._bound or self._writing:
            return False
        if self.ended:
            return True
        self.ended = why
        framework, handle = self.framework, self.framework.handle
        if self._waiting is not None:
            self._waiting.reject("", why)
            self._stop_waiting()
        if self._unreserve:
            framework.run_unreserve(self.state, self.pod, self.node_name)
        if self._assumed:
            handle.forget_pod(self.pod, self.node_name)
            handle.nominator.resume(self.pod)
        if self._nominated:
            framework.delete_nominated_reservation(self.pod)
        return True

    def _stop_waiting(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.framework.handle.waiting_pods.remove(waiting)


def _as_error(status: Status) -> Status:
    return Status(Code.ERROR, status.reasons, status.plugin, error=status.error)
