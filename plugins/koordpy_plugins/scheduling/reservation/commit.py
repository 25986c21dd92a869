"""Taking reservations for pods, and writing down who has what.

Reserve counts a pod in its reservation at once; PreBind puts the annotation that says so on the pod, in the
same write that binds it. Of a Reservation, Bind writes the status. Source: Koordinator,
`pkg/scheduler/plugins/reservation/plugin.go` (`Reserve`, `PreBind`, `Bind`, `Unreserve`).
"""

import logging
from collections.abc import Sequence

import msgspec

from koordpy.api import extension
from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import FAILED, Reservation
from koordpy.api.reservation_status import set_available
from koordpy.api.reserve_pod import reservation_name_of
from koordpy.api.scheme import DecodeError
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.retry import retried
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.reservation_writes import write_status

from .cache import ReservationCache, UnknownReservation
from .preparation import UNSUPPORTED
from .prepared import Prepared

log = logging.getLogger(__name__)

NO_CLIENT = "the Reservation plugin has no client to write with"


class NotActive(ValueError):
    """A Reservation has ended before it was bound."""


class Commit:
    """Takes and gives back, for one profile."""

    def __init__(self, handle: Handle, cache: ReservationCache) -> None:
        self._handle, self._cache = handle, cache
        self._reservations = handle.cluster.store(Reservation)
        self._pods = handle.cluster.store(Pod)

    # --- pods ------------------------------------------------------------------------------------

    def take(self, prepared: Prepared, pod: Pod, info: ReservationInfo) -> Status:
        """Count a pod in a reservation."""
        try:
            prepared.assumed = self._cache.assume_pod(info.uid, pod).clone()
        except UnknownReservation as error:
            return Status.failed(str(error))
        return SUCCESS

    def annotate(self, prepared: Prepared, binding: Binding) -> None:
        """Say in the binding which reservation the pod uses."""
        if prepared.assumed is not None:
            binding.annotations[extension.ANNOTATION_RESERVATION_ALLOCATED] = annotations.allocated_text(
                prepared.assumed.name, prepared.assumed.uid
            )
            prepared.annotated = True

    def give_back(self, prepared: Prepared, pod: Pod, node_name: str) -> None:
        """Take a pod out of its reservation again, unless it was bound all the same."""
        info, prepared.assumed = prepared.assumed, None
        if info is None or self._uses(pod, info.uid, node_name):
            return
        self._cache.forget_pod(info.uid, pod.metadata.uid)
        if prepared.annotated:
            prepared.annotated = False
            self._remove_annotation(pod, info.uid)

    def forget(self, pod: Pod, node_name: str) -> None:
        """Stop counting a pod that came to nothing."""
        uid = self._cache.reservation_of(pod.metadata.uid)
        if uid and not self._uses(pod, uid, node_name):
            self._cache.forget_pod(uid, pod.metadata.uid)

    def _uses(self, pod: Pod, uid: str, node_name: str) -> bool:
        """Return whether a pod is known to be on a node and in a reservation."""
        live = self._live(pod)
        if live is None or live.spec.node_name != node_name:
            return False
        used = annotations.allocated(live.metadata.annotations)
        return used is not None and used.uid == uid

    def _live(self, pod: Pod) -> Pod | None:
        live = self._pods.get(pod.metadata.namespace, pod.metadata.name)
        return live if live is not None and live.metadata.uid == pod.metadata.uid else None

    def _remove_annotation(self, pod: Pod, uid: str) -> None:
        """Clear the annotation of a pod that was not bound, if it has it: the API server knows best."""
        live = self._live(pod)
        if live is None or live.spec.node_name or self._handle.client is None:
            return
        used = annotations.allocated(live.metadata.annotations)
        if used is not None and used.uid == uid:
            self._handle.spawn(self._cleared(live))

    async def _cleared(self, pod: Pod) -> None:
        try:
            await self._write_annotation(pod, None)
        except (ApiError, ConnectionFailed) as error:
            log.warning("pod %s: its reservation cannot be cleared: %s", pod.metadata.key, error)

    async def _write_annotation(self, pod: Pod, text: str | None) -> None:
        client, meta = self._handle.client, pod.metadata
        assert client is not None
        patch = {
            "metadata": {
                "uid": meta.uid,
                "annotations": {extension.ANNOTATION_RESERVATION_ALLOCATED: text},
            }
        }
        await retried(lambda: client.patch(Pod, meta.namespace, meta.name, patch), rng=self._handle.rng)

    # --- Reservations ----------------------------------------------------------------------------

    def take_node(self, prepared: Prepared, node_name: str, pods: Sequence[Pod]) -> Status:
        """Count a Reservation on a node, with the running pods that it takes over."""
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

    def give_node_back(self, prepared: Prepared | None, pod: Pod, node_name: str) -> None:
        """Take a Reservation off its node; running pods that are marked as its own stay so."""
        if prepared is None:
            self._cache.forget(pod.metadata.uid)
            return
        taken, prepared.pre_allocated, prepared.assumed = prepared.pre_allocated, (), None
        for running in taken:
            if not self._uses(running, pod.metadata.uid, node_name):
                self._cache.forget_pod(pod.metadata.uid, running.metadata.uid)
        self._cache.forget(pod.metadata.uid)

    async def mark_running(self, prepared: Prepared) -> Status:
        """Put the annotation on the running pods that a Reservation takes over."""
        if not prepared.pre_allocated:
            return SUCCESS
        info = prepared.assumed
        if not prepared.is_pre_allocation or info is None:
            return Status.failed(UNSUPPORTED)
        if self._handle.client is None:
            return Status.failed(NO_CLIENT)
        for pod in prepared.pre_allocated:
            if self._live(pod) is None:
                return Status.failed(UNSUPPORTED)
            try:
                await self._write_annotation(pod, annotations.allocated_text(info.name, info.uid))
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
