"""Reserve and unreserve nodes for Reservations, with the pods that they take over, and write the status.

Bind writes the status of the Reservation. Source: Koordinator,
`pkg/scheduler/plugins/reservation/plugin.go` (`Reserve`, `PreBind`, `Bind`, `Unreserve`).
"""

from collections.abc import Sequence

import msgspec

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import FAILED, Reservation
from koordpy.api.reservation_status import set_available
from koordpy.api.reserve_pod import reservation_name_of
from koordpy.api.scheme import DecodeError
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.reservation_writes import write_status

from ..attempt.prepared import Prepared
from ..attempt.reserve_pod_preparation import UNSUPPORTED
from ..state.cache import ReservationCache, UnknownReservation
from .users import ReservationUsers

NO_CLIENT = "the Reservation plugin has no client to write with"


class NotActive(ValueError):
    """A Reservation has ended before it was bound."""


class ReservationCommit:
    """Reserves and unreserves nodes for the Reservations of one profile."""

    def __init__(self, handle: Handle, cache: ReservationCache, users: ReservationUsers) -> None:
        self._handle, self._cache, self._users = handle, cache, users
        self._reservations = handle.cluster.store(Reservation)

    def take(self, prepared: Prepared, node_name: str, pods: Sequence[Pod]) -> Status:
        """Add a Reservation to a node, with the running pods that it takes over."""
        info = prepared.reservation
        if info is None or info.reservation is None:
            return Status.failed(prepared.problem)
        reservation = info.reservation
        self._cache.assume(
            msgspec.structs.replace(
                reservation,
                status=msgspec.structs.replace(reservation.status, node_name=node_name),
            )
        )
        for pod in pods:
            try:
                prepared.assumed = self._cache.assume_pod(info.uid, pod).clone()
            except UnknownReservation as error:
                return Status.failed(str(error))
        prepared.pre_allocated = pods
        return SUCCESS

    def give_back(self, prepared: Prepared | None, pod: Pod) -> None:
        """Remove a Reservation from its node; running pods whose annotation names it stay in it."""
        if prepared is None:
            self._cache.forget(pod.metadata.uid)
            return
        taken, prepared.pre_allocated, prepared.assumed = prepared.pre_allocated, (), None
        for running in taken:
            if not self._users.uses(running, pod.metadata.uid):
                self._cache.forget_pod(pod.metadata.uid, running.metadata.uid)
        self._cache.forget(pod.metadata.uid)

    async def annotate_running(self, prepared: Prepared) -> Status:
        """Put the annotation on the running pods that a Reservation takes over."""
        if not prepared.pre_allocated:
            return SUCCESS
        info = prepared.assumed
        if not prepared.is_pre_allocation or info is None:
            return Status.failed(UNSUPPORTED)
        if self._handle.client is None:
            return Status.failed(NO_CLIENT)
        for pod in prepared.pre_allocated:
            if self._users.live(pod) is None:
                return Status.failed(UNSUPPORTED)
            try:
                await self._users.write(pod, annotations.allocated_text(info.name, info.uid))
            except (ApiError, ConnectionFailed) as error:
                return Status.failed(error)
        return SUCCESS

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Write that a Reservation holds its resources on a node."""
        name = reservation_name_of(pod)
        reservation = self._reservations.get("", name)
        client = self._handle.client
        if reservation is None or reservation.metadata.uid != pod.metadata.uid:
            return Status.failed(f'reservation "{name}" not found')
        if client is None:
            return Status.failed(NO_CLIENT)

        def available(current: Reservation) -> Reservation:
            if current.status.phase == FAILED:
                raise NotActive("reservation is not active")
            return set_available(current, node_name, self._handle.clock.now())

        try:
            await write_status(client, reservation, available, rng=self._handle.rng)
        except (NotActive, DecodeError, QuantityError, NotFound, ApiError, ConnectionFailed) as error:
            return Status.failed(error)
        return SUCCESS
