"""The reservation controller: maintains the status of placed Reservations, and deletes ended ones.

Koordinator runs it in the leading scheduler. Keys are `<name>/<uid>`; a reconciliation uses the present
stores only, so the triggering event does not matter. Source: Koordinator,
`pkg/scheduler/plugins/reservation/controller`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_annotations import allocated
from koordpy.api.reservation_status import needs_expiration, set_expired
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, NotFound
from koordpy.cluster.retry import retried
from koordpy.controllers.queue import WorkQueue
from koordpy.controllers.reconcile import ReconcileError, reconcile_forever
from koordpy.lib import duration
from koordpy.scheduling.interface.gates import CLEAN_EXPIRED_RESERVATION_ALLOCATED
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.toolkit.reservation_writes import write_status

from ..args import ReservationArgs
from . import garbage, metrics
from .status import next_sync, with_owners

log = logging.getLogger(__name__)

NAME = "reservationController"


class ReservationController:
    """Runs in the leader; every process follows its objects."""

    name = NAME

    def __init__(self, handle: Handle, args: ReservationArgs) -> None:
        self._handle, self._args = handle, args
        self._clock = handle.clock
        self._reservations = handle.cluster.store(Reservation)
        self._pods, self._nodes = handle.cluster.store(Pod), handle.cluster.store(Node)
        self._pods_by_reservation = self._pods.index(_reservation_uid)
        self._by_node = self._reservations.index(_node_name)
        self.queue = WorkQueue(NAME, self._clock)

    @property
    def _client(self) -> Client:
        if self._handle.client is None:
            raise ReconcileError("there is no API server to write to")
        return self._handle.client

    async def run(self) -> None:
        """Run until cancelled, starting with every Reservation."""
        self.queue = WorkQueue(NAME, self._clock)
        reservations = self._reservations.subscribe(self._add, self._updated, self._add)
        pods = self._pods.subscribe(self._pod_seen, self._pod_updated, self._pod_seen)
        nodes = self._nodes.subscribe(on_delete=self._node_gone, replay=False)
        args = self._args
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(reconcile_forever(self.queue, self.sync, workers=args.controller_workers))
                tasks.create_task(_every(args.resync_interval_seconds, self._resync))
                if not args.disable_garbage_collection:
                    tasks.create_task(_every(args.gc_interval_seconds, self.collect_garbage))
        finally:
            self._reservations.unsubscribe(reservations)
            self._pods.unsubscribe(pods)
            self._nodes.unsubscribe(nodes)
            metrics.forget()

    # --- which keys are worked on -----------------------------------------------------------------

    def _add(self, reservation: Reservation) -> None:
        self.queue.add(key_of(reservation))

    def _updated(self, old: Reservation, new: Reservation) -> None:
        if (
            old.metadata.generation != new.metadata.generation
            or old.status.phase != new.status.phase
            or old.status.node_name != new.status.node_name
        ):
            self._add(new)

    def _pod_seen(self, pod: Pod) -> None:
        found = allocated(pod.metadata.annotations)
        if pod.spec.node_name and found is not None and found.name:
            self.queue.add(f"{found.name}/{found.uid}")

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        self._pod_seen(new)
        if _reservation_uid(old) != _reservation_uid(new) or not new.spec.node_name:
            self._pod_seen(old)

    def _node_gone(self, node: Node) -> None:
        for reservation in self._by_node.get(node.metadata.name):
            self._add(reservation)

    # --- one Reservation -------------------------------------------------------------------------

    async def sync(self, key: str) -> float | None:
        """Reconcile one Reservation; return the seconds until the next time, None for never."""
        name, _, uid = key.rpartition("/")
        reservation = self._reservations.by_key(name)
        if reservation is None or reservation.metadata.uid != uid:
            await self._release(uid)
            return None
        if reservation.is_terminated or not reservation.status.node_name:
            return None
        try:
            written = await write_status(self._client, reservation, self._brought_up, rng=self._handle.rng)
        except NotFound:
            return None
        if written is not reservation:
            metrics.record_resources(written)
        return next_sync(written, self._clock.now())

    def _brought_up(self, reservation: Reservation) -> Reservation:
        node_name, now = reservation.status.node_name, self._clock.now()
        if reservation.is_terminated or not node_name:
            return reservation
        if needs_expiration(reservation, now) or not self._node_exists(node_name):
            return set_expired(reservation, now)
        owners = [
            pod
            for pod in self._pods_by_reservation.get(reservation.metadata.uid)
            if pod.spec.node_name == node_name
        ]
        return with_owners(reservation, owners, now)

    def _node_exists(self, name: str) -> bool:
        return self._nodes.get("", name) is not None

    async def _release(self, uid: str) -> None:
        """Remove the annotation from the pods of a deleted Reservation, if the gate is enabled."""
        if not self._handle.gates.enabled(CLEAN_EXPIRED_RESERVATION_ALLOCATED):
            return
        failed = []
        for pod in self._pods_by_reservation.get(uid):
            try:
                await retried(partial(self._release_pod, pod), rng=self._handle.rng)
            except (NotFound, Conflict):
                continue  # gone, or another pod by now
            except (ApiError, ConnectionFailed) as error:
                failed.append(str(error))
        if failed:
            raise ReconcileError("; ".join(failed))

    async def _release_pod(self, pod: Pod) -> None:
        meta = pod.metadata
        annotations = {extension.ANNOTATION_RESERVATION_ALLOCATED: None}
        patch = {"metadata": {"uid": meta.uid, "annotations": annotations}}
        await self._client.patch(Pod, meta.namespace, meta.name, patch)

    # --- now and then ----------------------------------------------------------------------------

    async def collect_garbage(self) -> None:
        """Delete the Reservations that ended long ago."""
        kept = duration.of_seconds(self._args.gc_duration_seconds)
        for reservation in list(garbage.of(self._reservations, self._clock.now(), kept, self._node_exists)):
            meta = reservation.metadata
            try:
                await self._client.delete(Reservation, "", meta.name, uid=meta.uid)
            except (NotFound, Conflict):
                continue
            except (ApiError, ConnectionFailed) as error:
                log.warning("cannot delete reservation %s, which has ended: %s", meta.name, error)

    async def _resync(self) -> None:
        metrics.record_all(self._reservations)


def key_of(reservation: Reservation) -> str:
    """Return the work queue's key of a Reservation."""
    return f"{reservation.metadata.name}/{reservation.metadata.uid}"


def _reservation_uid(pod: Pod) -> tuple[str, ...]:
    found = allocated(pod.metadata.annotations)
    return () if found is None else (found.uid,)


def _node_name(reservation: Reservation) -> tuple[str]:
    return (reservation.status.node_name,)


async def _every(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await work()
        await asyncio.sleep(seconds)
