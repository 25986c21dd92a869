"""Migrations on an API server of this process, whose worker can be killed at any request.

Scheduler, kubelets and workload controllers are acted out: Reservations get a node, evicted pods end and are
replaced, and the successors use the Reservations. Time is simulated.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from koordpy import data
from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.pod_migration_job import (
    ANNOTATION_PASSED_ARBITRATION,
    ANNOTATION_SOFT_EVICTION,
    PodMigrationJob,
)
from koordpy.api.reservation import SUCCEEDED, Reservation
from koordpy.api.reservation_status import set_available
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import JSON
from koordpy.cluster.errors import NotFound
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.embedded.apiserver.controllers import DisruptionController
from koordpy.embedded.apiserver.wire import Cut, Request
from koordpy.lib.http1 import ConnectionLost, Response
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.lib.token_bucket import TokenBucket
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.migrationcontroller.cleanup import Cleanup
from koordpy_plugins.descheduling.migrationcontroller.evictions import PodEvictions, Policy
from koordpy_plugins.descheduling.migrationcontroller.execution import JobExecution
from koordpy_plugins.descheduling.migrationcontroller.reconciler import Reconciler
from tests.audited import assert_clean

Document = dict[str, Any]

START = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uo", "controller": True}
WRITES = ("POST", "PUT", "PATCH", "DELETE")


class Wire(ServerChannel):
    """The channel of one worker. It counts evictions, and dies at a write if that is wanted."""

    def __init__(self, server: ApiServer, evictions: Counter[str]) -> None:
        super().__init__(server)
        self.evictions = evictions
        self.writes: list[str] = []
        self.dies_at, self.dies_after = 0, False
        self.dead = asyncio.Event()
        self.troubles: Callable[[str, str], Fault | None] = lambda method, path: None
        """What goes wrong with a write."""
        self._server = server
        self._fault: Fault | None = None
        self._handle = self._troubled

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = JSON,
        timeout: float = 30.0,
        gzip: bool = False,
    ) -> Response:
        """Answer a request; the dead get no answers."""
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()
        if method in WRITES:
            self.writes.append(f"{method} {path.partition('?')[0]}")
            if len(self.writes) == self.dies_at:
                self.dead.set()
                if not self.dies_after:
                    await asyncio.get_running_loop().create_future()
        self._fault = fault = self.troubles(method, path) if method in WRITES else None
        done = False
        try:
            response = await super().request(method, path, body=body, content_type=content_type)
            done = fault.after if fault is not None else response.status < 400
        except Cut:
            done = fault is not None and fault.after
            raise ConnectionLost("the connection was cut", answered=False) from None
        finally:
            if done and path.partition("?")[0].endswith("/eviction"):
                self.evictions[msgspec.json.decode(body)["deleteOptions"]["preconditions"]["uid"]] += 1
            if done and method == "PATCH" and ANNOTATION_SOFT_EVICTION.encode() in body:
                self.evictions[msgspec.json.decode(body)["metadata"]["uid"]] += 1
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()
        return response

    def _troubled(self, request: Request) -> Any:
        fault = self._fault
        self._server.faults = None if fault is None else lambda method, path: fault
        try:
            return self._server.handle(request)
        finally:
            self._server.faults = None


def has_passed(job: PodMigrationJob) -> bool:
    """Return whether a job says that it has passed arbitration, of which this process has none."""
    return job.metadata.annotations.get(ANNOTATION_PASSED_ARBITRATION) == "true"


class NoLimit:
    """An object limiter that limits nothing."""

    def exceeded(self, pod: Pod) -> bool:
        return False

    def track(self, pod: Pod) -> None:
        """Count nothing."""


class Worker:
    """One process that carries out jobs."""

    def __init__(self, world: "World", may_start: Callable[[PodMigrationJob], bool] = has_passed) -> None:
        self.wire = Wire(world.server, world.evictions)
        self.client = Client(self.wire, rng=random.Random(1))
        clock = world.clock
        self.cluster = Cluster(clock)
        evictions = PodEvictions(
            self.client, None, clock, default=world.policy, rate=TokenBucket(1000, 1000, clock)
        )
        reconciler = Reconciler(
            self.cluster,
            self.client,
            None,
            clock,
            evictor=evictions,
            limiter=NoLimit(),
            identity="ns/lease",
        )
        cleanup = Cleanup(self.cluster, self.client, clock, reconciler)
        self.controller = JobExecution(
            self.cluster, clock, reconciler, cleanup, workers=2, may_start=may_start
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with Informers(self.cluster, self.client) as informers:
            await informers.wait_synced()
            await self.controller.run()


class World:
    """The cluster around the workers."""

    def __init__(self, loop: SimulatedLoop, policy: Policy = Policy.EVICTION) -> None:
        self.clock, self.policy = SimulatedClock(loop, START), policy
        crds = [data.deploy("crds")]
        self.server = ApiServer(crds=crds, clock=self.clock, rng=random.Random(1))
        self._budgets = DisruptionController(self.server.catalog, self.clock)
        self.client = Client(ServerChannel(self.server), rng=random.Random(1))
        self.evictions: Counter[str] = Counter()
        """Accepted evictions by the UID of the pod."""
        self.uids: dict[str, str] = {}
        """The UIDs of the first pods by name."""
        self._number = 0

    async def begin(self, pods: int, *, mode: str = "ReservationFirst", ttl: str = "5m") -> None:
        """Create running pods on the node n1, and a job for each."""
        await self.server.load()
        for index in range(pods):
            created = await self.run_pod(f"web-{index}", "n1")
            self.uids[created["metadata"]["name"]] = created["metadata"]["uid"]
            job = {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "PodMigrationJob",
                "metadata": {
                    "name": f"job-{index}",
                    "annotations": {
                        ANNOTATION_PASSED_ARBITRATION: "true",
                        "koordinator.sh/job-created-by": "ns/lease",
                    },
                },
                "spec": {
                    "mode": mode,
                    "ttl": ttl,
                    "podRef": {"namespace": "default", "name": f"web-{index}"},
                },
            }
            await self.client.create_raw(resource_of(PodMigrationJob), "", job)

    async def run_pod(self, name: str, node: str) -> Document:
        """Create a running, ready pod."""
        document: Document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [OWNER]},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
        }
        created = await self.client.create_raw(resource_of(Pod), "default", document)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch_status(Pod, "default", name, {"status": status})
        return created

    async def act(self) -> None:
        """Do what scheduler, kubelets and workload controllers have to do now."""
        for reservation in await self.client.list_all(Reservation):
            if not reservation.node_name:
                available = set_available(reservation, "n2", self.clock.now())
                status = msgspec.to_builtins(available.status)
                await self._write(reservation.metadata.name, status)
        for pod in await self.client.list_all(Pod):
            if pod.metadata.deletion_timestamp is None and not self._asked(pod):
                continue
            await self.client.delete(Pod, "default", pod.metadata.name, grace_period_seconds=0)
            self._number += 1
            await self._use(pod.metadata.name, await self.run_pod(f"next-{self._number}", "n2"))

    def _asked(self, pod: Pod) -> bool:
        """Return whether a pod was asked to leave some seconds ago."""
        text = pod.metadata.annotations.get(ANNOTATION_SOFT_EVICTION)
        if text is None:
            return False
        return self.clock.now() >= parse_time(json.loads(text)["timestamp"]) + timedelta(seconds=5)

    async def _use(self, old: str, pod: Document) -> None:
        """Let a successor use the Reservation of the job that evicted its predecessor."""
        for job in await self.jobs():
            options = job.spec.reservation_options
            if (
                job.pod_key == f"default/{old}"
                and options is not None
                and options.reservation_ref is not None
            ):
                meta = pod["metadata"]
                owner = {"namespace": "default", "name": meta["name"], "uid": meta["uid"]}
                await self._write(
                    options.reservation_ref.name, {"phase": SUCCEEDED, "currentOwners": [owner]}
                )

    async def _write(self, name: str, status: Document) -> None:
        with suppress(NotFound):
            await self.client.patch_status(Reservation, "", name, {"status": status})

    async def jobs(self) -> list[PodMigrationJob]:
        """Return all jobs."""
        return await self.client.list_all(PodMigrationJob)

    async def ended(self) -> bool:
        """Return whether all jobs have ended and no Reservation is left."""
        jobs = await self.jobs()
        return not any(job.is_unfinished for job in jobs) and not await self.client.list_all(Reservation)

    async def live(self, worker: Worker, seconds: float) -> bool:
        """Let a worker work until everything has ended (return True), it dies, or the time is over."""
        task, budgets = asyncio.create_task(worker.run()), asyncio.create_task(self._budgets.run())
        end = self.clock.monotonic() + seconds
        try:
            while self.clock.monotonic() < end and not worker.wire.dead.is_set():
                await asyncio.sleep(0.5)
                await self.act()
                if task.done():
                    task.result()
                if await self.ended():
                    break
            assert_clean(self.server)
            return await self.ended()
        finally:
            task.cancel()
            budgets.cancel()
            await asyncio.gather(task, budgets, return_exceptions=True)
