"""Reserve and unreserve reservations for pods, and record the reservation that a pod uses.

Reserve counts a pod in its reservation at once; PreBind puts the annotation that names it on the pod, in the
same write that binds it. Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (`Reserve`,
`PreBind`, `Unreserve`).
"""

import logging

from koordpy.api import extension
from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..attempt.prepared import Prepared
from ..state.cache import ReservationCache, UnknownReservation
from .users import ReservationUsers

log = logging.getLogger(__name__)


class PodCommit:
    """Reserves and unreserves reservations for the pods of one profile."""

    def __init__(self, handle: Handle, cache: ReservationCache, users: ReservationUsers) -> None:
        self._handle, self._cache, self._users = handle, cache, users

    def take(self, prepared: Prepared, pod: Pod, info: ReservationInfo) -> Status:
        """Add a pod to a reservation."""
        try:
            prepared.assumed = self._cache.assume_pod(info.uid, pod).clone()
        except UnknownReservation as error:
            return Status.failed(str(error))
        return SUCCESS

    def annotate(self, prepared: Prepared, binding: Binding) -> None:
        """Name the reservation that the pod uses in the binding."""
        if prepared.assumed is not None:
            binding.annotations[extension.ANNOTATION_RESERVATION_ALLOCATED] = annotations.allocated_text(
                prepared.assumed.name, prepared.assumed.uid
            )
            prepared.annotated = True

    def give_back(self, prepared: Prepared, pod: Pod) -> None:
        """Remove a pod from its reservation, unless it was bound after all."""
        info, prepared.assumed = prepared.assumed, None
        if info is None or self._users.uses(pod, info.uid):
            return
        self._cache.forget_pod(info.uid, pod.metadata.uid)
        if prepared.annotated:
            prepared.annotated = False
            self._remove_annotation(pod, info.uid)

    def forget(self, pod: Pod) -> None:
        """Remove a pod that was not bound."""
        uid = self._cache.reservation_of(pod.metadata.uid)
        if uid and not self._users.uses(pod, uid):
            self._cache.forget_pod(uid, pod.metadata.uid)

    def _remove_annotation(self, pod: Pod, uid: str) -> None:
        """Clear the annotation of a pod that was not bound, if the API server has it."""
        live = self._users.live(pod)
        if live is None or live.spec.node_name or self._handle.client is None:
            return
        used = annotations.allocated(live.metadata.annotations)
        if used is not None and used.uid == uid:
            self._handle.spawn(self._clear(live))

    async def _clear(self, pod: Pod) -> None:
        try:
            await self._users.write(pod, None)
        except (ApiError, ConnectionFailed) as error:
            log.warning("pod %s: its reservation cannot be cleared: %s", pod.metadata.key, error)
