"""From reserved resources to a Reservation that is Available: Permit's wait, PreBind, the patch, Bind.

Plain PreBind plugins are not called for reserve pods: PreBindReservation takes their place, and what it wants
on the Reservation is one patch before Bind writes the status. Source: Koordinator, `RunPreBindPlugins` in
`pkg/scheduler/frameworkext/framework_extender.go`.
"""

import random

import msgspec

from koordpy.api.reservation import Reservation
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, TooManyRequests
from koordpy.cluster.retry import retried
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.interface.waiting_pods import WaitingPods

from .attempt import Attempt


class Binder:
    """Runs the second half of attempts. With `checks_scheduler` it looks whether they are still ours."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        waiting_pods: WaitingPods,
        fence: Fence,
        rng: random.Random,
        *,
        checks_scheduler: bool,
    ) -> None:
        self._reservations = cluster.store(Reservation)
        self._client, self._waiting_pods, self._fence, self._rng = client, waiting_pods, fence, rng
        self._checks_scheduler = checks_scheduler

    async def bind(self, attempt: Attempt) -> Status:
        """Bring a reserved attempt to its end; Success when the Reservation holds its node."""
        framework, pod = attempt.framework, attempt.pod
        if attempt.waits:
            status = await self._waiting_pods.wait(pod, attempt.node_name, attempt.waits)
            if not status.is_success:
                return status
        current = self._reservations.by_key(attempt.reservation.metadata.name)
        if current is None or current.metadata.uid != attempt.uid:
            return Status.failed(f'reservation "{attempt.reservation.metadata.name}" not found')
        status = self._check(current, framework.profile_name)
        if not status.is_success:
            return status
        status = await self._fence.write(attempt.term, self._write(attempt, current))
        if status.is_success or await self._is_bound_anyway(attempt, status):
            return SUCCESS
        if status.is_skip:
            return Status.failed(
                f"no Bind plugin of {framework.profile_name} binds reservation {current.metadata.name}"
            )
        return status

    async def _write(self, attempt: Attempt, current: Reservation) -> Status:
        """PreBind, the patch, Bind."""
        framework, state, binding = attempt.framework, attempt.state, Binding(attempt.pod, attempt.node_name)
        placed = msgspec.structs.replace(
            current, status=msgspec.structs.replace(current.status, node_name=attempt.node_name)
        )
        status = await framework.run_pre_bind_reservation(state, ReservationInfo(placed), binding)
        if status.is_success:
            status = await self._write_annotations(current, binding)
        if not status.is_success:
            return status
        return await framework.run_bind(state, attempt.pod, binding)

    def _check(self, current: Reservation, profile_name: str) -> Status:
        if not self._checks_scheduler:
            return SUCCESS
        if current.scheduler_name != profile_name:
            return Status.failed("schedulerName unmatched")
        return _not_terminating(current)

    async def _write_annotations(self, current: Reservation, binding: Binding) -> Status:
        if not binding.annotations:
            return SUCCESS
        meta = current.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": binding.annotations}}
        try:
            written = await retried(
                lambda: self._client.patch(Reservation, "", meta.name, patch),
                rng=self._rng,
                on=(Conflict, TooManyRequests, ConnectionFailed),
            )
        except (ApiError, ConnectionFailed) as error:
            return Status.failed(error)
        return _not_terminating(written)

    async def _is_bound_anyway(self, attempt: Attempt, status: Status) -> bool:
        """After a failed write, ask the API server: it may have been carried out unheard."""
        if not isinstance(status.error, ApiError | ConnectionFailed):
            return False
        try:
            live = await self._client.get(Reservation, "", attempt.reservation.metadata.name)
        except (ApiError, ConnectionFailed):
            return False
        return (
            live.metadata.uid == attempt.uid
            and live.is_available
            and live.status.node_name == attempt.node_name
        )


def _not_terminating(reservation: Reservation) -> Status:
    return Status.failed("pod is being deleted") if reservation.is_terminating else SUCCESS
