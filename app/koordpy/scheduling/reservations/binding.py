"""From reserved resources to a Reservation that is Available: Permit's wait, PreBind, the patch, Bind.

Plain PreBind plugins are not called for reserve pods: PreBindReservation replaces them, and its labels and
annotations are one patch of the Reservation before Bind writes the status. Source: Koordinator,
`RunPreBindPlugins` in `pkg/scheduler/frameworkext/framework_extender.go`.
"""

import msgspec

from koordpy.api.reservation import Reservation
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.cycle.marks import BEING_DELETED
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from .attempt import Attempt


class Binder:
    """Runs the second half of attempts. With `checks_scheduler` it checks their profile again."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        fence: Fence,
        *,
        checks_scheduler: bool,
    ) -> None:
        self._reservations = cluster.store(Reservation)
        self._client, self._fence = client, fence
        self._checks_scheduler = checks_scheduler

    async def bind(self, attempt: Attempt, placement: Placement) -> Status:
        """Complete a reserved attempt; return Success once the Reservation is bound to its node."""
        status = await placement.allowed()
        if not status.is_success:
            return status
        current = self._reservations.by_key(attempt.reservation.metadata.name)
        if current is None or current.metadata.uid != attempt.uid:
            return Status.failed(f'reservation "{attempt.reservation.metadata.name}" not found')
        status = self._check(current, placement.framework.profile_name)
        if not status.is_success:
            return status
        return await placement.write(self._write(attempt, placement, current))

    async def _write(self, attempt: Attempt, placement: Placement, current: Reservation) -> Status:
        status = await self._fence.write(attempt.term, _pre_bind_and_bind(placement, current))
        if status.is_success or await self._is_bound_anyway(attempt, status):
            return SUCCESS
        if self._fence.term == attempt.term:
            await placement.unmark()
        if status.is_skip:
            profile = placement.framework.profile_name
            return Status.failed(f"no Bind plugin of {profile} binds reservation {current.metadata.name}")
        return status

    def _check(self, current: Reservation, profile_name: str) -> Status:
        if not self._checks_scheduler:
            return SUCCESS
        if current.scheduler_name != profile_name:
            return Status.failed("schedulerName unmatched")
        return Status.failed(BEING_DELETED) if current.is_terminating else SUCCESS

    async def _is_bound_anyway(self, attempt: Attempt, status: Status) -> bool:
        """After a failed write, read the Reservation: the write may have taken effect."""
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


async def _pre_bind_and_bind(placement: Placement, current: Reservation) -> Status:
    """PreBindReservation, the patch of labels and annotations, Bind."""
    framework, state, binding = placement.framework, placement.state, placement.binding
    placed = msgspec.structs.replace(
        current, status=msgspec.structs.replace(current.status, node_name=placement.node_name)
    )
    status = await framework.run_pre_bind_reservation(state, ReservationInfo(placed), binding)
    if status.is_success:
        status = await placement.mark(current, annotations=True)
    if not status.is_success:
        return status
    return await framework.run_bind(state, placement.pod, binding)
