"""After any changes of Reservations, pods and nodes, and any kill of koordpy, nothing is allocated twice.

A stock scheduler, koordpy and an API server that fails now and then, in this process and on simulated time.
After every step no node has less than its pods and Reservations request; in the end koordpy's state equals a
rebuild from the API objects, and everything that still waits does not fit.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data, settings
from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import AlreadyExists, ApiError, NotFound
from koordpy.cluster.informers import Informers
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import Fault
from koordpy.embedded.scheduler import Scheduler
from koordpy.http.routes.extender import endpoints
from koordpy.http.server.direct import Direct
from koordpy.lib import simulated_time
from koordpy.lib.http1 import Response
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.scheduling.profiles import config as scheduler_config
from koordpy.simulation.inprocess import EndpointCaller, ServerChannel
from koordpy_plugins.scheduling.reservation.state.cache import ReservationCache
from tests.audited import assert_clean
from tests.eventually import PATIENCE
from tests.integration.reservations.stage import both, profiles
from tests.processes import extender_of, serve_process

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NODES = ("n1", "n2", "n3")
CPUS = 8
APPS = ("a", "b")
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"

FAULTS = (
    Fault(status=409),
    Fault(status=429),
    Fault(status=500),
    Fault(status=504, after=True),
    Fault(delay=3.0),
)


class Reaches:
    """Calls the koordpy that is running."""

    def __init__(self, origin: str, endpoints: Callable[[], Mapping[str, Direct]]) -> None:
        self.origin, self._endpoints = origin, endpoints

    async def request(self, method: str, path: str, **options: Any) -> Response:
        return await EndpointCaller(self.origin, self._endpoints()).request(method, path, **options)

    async def close(self) -> None:
        """Nothing is open."""


class Chaos:
    """One cluster with random faults."""

    def __init__(self, loop: SimulatedLoop, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = SimulatedClock(loop, START)
        self.server = ApiServer(crds=[data.deploy("crds")], clock=self.clock, rng=random.Random(seed))
        self.channel = ServerChannel(self.server)
        self.client = Client(self.channel, rng=random.Random(seed))
        self._profiles = folder / "profiles.yaml"
        self._profiles.write_text(yaml.safe_dump(profiles(gcDurationSeconds=60)))
        self.service = self._service()
        common = {"urlPrefix": "http://koordpy/extender", "nodeCacheCapable": True}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}],
            "extenders": [
                {**common, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1},
                {**common, "bindVerb": "bind", "httpTimeout": "60s"},
            ],
        }
        self.scheduler = Scheduler(
            scheduler_config.read(document),
            self.client,
            clock=self.clock,
            rng=random.Random(seed),
            connect=lambda origin: Reaches(origin, self._endpoints),
        )
        self.names = 0

    def _service(self) -> Process:
        extender = {"port": 0, "schedulerConfig": str(self._profiles), "leaderElect": False}
        found = settings.load(None, {"parts": ["extender"], "extender": extender, "shutdownDelay": 0})
        return serve_process(
            found, listens=False, connection=self.channel, clock=self.clock, rng=random.Random(7)
        )

    def _endpoints(self) -> dict[str, Direct]:
        return dict(endpoints(extender_of(self.service)))

    # --- steps -----------------------------------------------------------------------------------

    def _name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    async def add_node(self, name: str) -> None:
        allocatable = {"cpu": str(CPUS), "memory": "32Gi", "pods": "110"}
        status = {"capacity": allocatable, "allocatable": allocatable}
        document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        with suppress(AlreadyExists):
            await self.client.create_raw(resource_of(Node), "", document)

    async def remove_node(self) -> None:
        name = self.rng.choice(NODES)
        with suppress(NotFound):
            await self.client.delete(Node, "", name)
        await asyncio.sleep(5 * self.rng.random())
        await self.add_node(name)

    async def add_pod(self) -> None:
        labels = {"app": self.rng.choice(APPS)} if self.rng.random() < 0.5 else {}
        requests = {"cpu": str(self.rng.randint(1, 4))}
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self._name("p"), "labels": labels},
            "spec": {"containers": [container]},
        }
        await self.client.create_raw(resource_of(Pod), "default", document)

    async def remove_pod(self) -> None:
        pods = await self.client.list_all(Pod, "default")
        if pods:
            name = self.rng.choice(pods).metadata.name
            await self.client.delete(Pod, "default", name, grace_period_seconds=0)

    async def reserve(self) -> None:
        requests = {"cpu": str(self.rng.randint(1, 6))}
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": self._name("r")},
            "spec": {
                "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}},
                "owners": [{"labelSelector": {"matchLabels": {"app": self.rng.choice(APPS)}}}],
                "ttl": self.rng.choice(("30s", "1h")),
                "allocateOnce": self.rng.random() < 0.5,
                "allocatePolicy": "Restricted",
            },
        }
        await self.client.create_raw(resource_of(Reservation), "", document)

    async def release(self) -> None:
        reservations = await self.client.list_all(Reservation)
        if reservations:
            with suppress(NotFound):
                await self.client.delete(Reservation, "", self.rng.choice(reservations).metadata.name)

    async def restart(self) -> None:
        stopped = extender_of(self.service)
        await self.service.stop()
        while any(attempt.binding_to for attempt in stopped.attempts):  # a listener would wait for that
            await asyncio.sleep(0.1)
        self.service = self._service()
        await self.service.start()

    async def run(self, steps: int) -> None:
        await self.server.load()
        for name in NODES:
            await self.add_node(name)
        await self.service.start()
        await self.scheduler.start()
        choices: tuple[tuple[Callable[[], Awaitable[None]], int], ...] = (
            (self.add_pod, 8),
            (self.reserve, 6),
            (self.remove_pod, 4),
            (self.release, 2),
            (self.remove_node, 1),
            (self.restart, 1),
        )
        actions, weights = zip(*choices, strict=True)
        self.server.faults = self._fault
        try:
            for _ in range(steps):
                [act] = self.rng.choices(actions, weights)
                with suppress(ApiError):
                    await act()
                await asyncio.sleep(3 * self.rng.random() ** 3)
                await self.assert_nothing_is_booked_twice()
                assert_clean(self.server)
            self.server.faults = None
            await asyncio.sleep(900)
            await self.assert_nothing_is_booked_twice()
            assert_clean(self.server)
            await self.assert_memory_equals_a_rebuild()
            await self.assert_nothing_waits_that_fits()
        finally:
            await self.scheduler.stop()
            await self.service.stop()

    def _fault(self, method: str, path: str) -> Fault | None:
        target = path.partition("?")[0]
        written = method in ("PATCH", "POST") and target.endswith(("/status", "/binding"))
        if written and "/nodes/" not in target and self.rng.random() < 0.2:
            return self.rng.choice(FAULTS)
        return None

    # --- invariants ------------------------------------------------------------------------------

    async def free(self) -> dict[str, int]:
        """Return the CPUs of each node that neither pods nor Reservations use."""
        self.server.faults, faults = None, self.server.faults
        pods = await self.client.list_all(Pod, "default")
        reservations = await self.client.list_all(Reservation)
        nodes = await self.client.list_all(Node)
        self.server.faults = faults
        left = {node.metadata.name: CPUS for node in nodes}
        for pod in pods:
            if pod.spec.node_name in left:
                left[pod.spec.node_name] -= cpus(pod)
        for reservation in reservations:
            if reservation.is_available and reservation.node_name in left:
                uid = reservation.metadata.uid
                users = [pod for pod in pods if uid in pod.metadata.annotations.get(ALLOCATED, "")]
                used = sum(cpus(pod) for pod in users if pod.spec.node_name == reservation.node_name)
                left[reservation.node_name] -= int(reservation.status.allocatable["cpu"]) - used
        return left

    async def assert_nothing_is_booked_twice(self) -> None:
        left = await self.free()
        assert all(cpu >= 0 for cpu in left.values()), left

    async def assert_memory_equals_a_rebuild(self) -> None:
        fresh = Cluster(self.clock)
        view = fresh.shared(ReservationCache)
        assert len(fresh.nodes) == 0
        async with Informers(fresh, self.client) as informers:
            await informers.wait_synced(PATIENCE)
            ours = self.service.cluster
            assert both(ours, ours.shared(ReservationCache)) == both(fresh, view)

    async def assert_nothing_waits_that_fits(self) -> None:
        left = await self.free()
        largest = max(left.values(), default=0)
        for reservation in await self.client.list_all(Reservation):
            if reservation.is_unassigned:
                template = reservation.spec.template
                assert template is not None
                wanted = int(template.spec.containers[0].resources.requests["cpu"])
                assert wanted > largest, f"reservation {reservation.metadata.name} fits: {left}"
        for pod in await self.client.list_all(Pod, "default"):
            if not pod.spec.node_name:
                assert cpus(pod) > largest, f"pod {pod.metadata.name} fits: {left}"


def cpus(pod: Pod) -> int:
    return int(pod.spec.containers[0].resources.requests["cpu"])


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_allocated_twice(seed: int, tmp_path: Path) -> None:
    simulated_time.run(lambda loop: Chaos(loop, tmp_path, seed).run(60))
