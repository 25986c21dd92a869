"""Which reservation a pod that is not bound yet will use on which node, kept between attempts.

A pod that waits for victims to go must find its reservation again. Source: Koordinator,
`pkg/scheduler/plugins/reservation/nominator.go`.
"""

from collections.abc import Collection

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.cluster.store import Store
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .cache import ReservationCache


class Nominations:
    """Reservations by pod and node."""

    def __init__(self, cache: ReservationCache, pods: Store[Pod], reservations: Store[Reservation]) -> None:
        self._cache, self._pods, self._reservations = cache, pods, reservations
        self._of: dict[str, dict[str, str]] = {}
        pods.subscribe(
            on_add=self._observe,
            on_update=lambda _, pod: self._observe(pod),
            on_delete=self.discard,
            replay=False,
        )

    def add(self, pod: Pod, node_name: str, info: ReservationInfo) -> bool:
        """Nominate; return whether that is possible: the pod is not bound, the Reservation on its node."""
        live = self._pods.get(pod.metadata.namespace, pod.metadata.name)
        if live is not None and live.metadata.uid == pod.metadata.uid and live.spec.node_name:
            return False
        reservation = self._reservations.get("", info.name)
        if reservation is None or reservation.metadata.uid != info.uid or not reservation.is_active:
            return False
        self._of.setdefault(pod.metadata.uid, {})[node_name] = info.uid
        return True

    def get(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        """Return what a pod is nominated to on a node, as it is now."""
        uid = self._of.get(pod.metadata.uid, {}).get(node_name)
        return None if uid is None else self._cache.infos.get(uid)

    def has(self, pod: Pod) -> bool:
        """Return whether a pod is nominated to anything."""
        return pod.metadata.uid in self._of

    def nodes_of(self, pod: Pod) -> Collection[str]:
        """Return the names of the nodes on which a pod is nominated to anything."""
        return self._of.get(pod.metadata.uid, {}).keys()

    def stands(self, info: ReservationInfo) -> bool:
        """Return whether a reservation is still there."""
        return self._cache.infos.get(info.uid) is info

    def discard(self, pod: Pod) -> None:
        """Forget the nominations of a pod."""
        self._of.pop(pod.metadata.uid, None)

    def _observe(self, pod: Pod) -> None:
        if self._of and (pod.spec.node_name or pod.is_terminal):
            self.discard(pod)
