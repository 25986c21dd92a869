"""Two replicas of koordpy, and kube-schedulers that call one and then the other: nothing is allocated twice.

On simulated time, with requests that arrive late, answers that get lost, watches that lag, Leases that
cannot be renewed, replicas that are killed, and two kube-schedulers at once for some seconds whenever one
takes over.
The same without the fence allocates twice, which shows that the test detects it.
`KOORDPY_FAILOVERS=200` tries more histories than `make test`.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koordpy import settings
from koordpy.api.core import Namespace, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.connection import JSON
from koordpy.cluster.errors import ApiError
from koordpy.compose.extender_election import ExtenderElection
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.embedded.scheduler import Scheduler
from koordpy.http.routes.extender import endpoints
from koordpy.lib import simulated_time
from koordpy.lib.http1 import ConnectionLost, Response
from koordpy.lib.simulated_time import SimulatedLoop
from koordpy.simulation.inprocess import EndpointCaller
from tests.audited import assert_clean
from tests.faults.test_reservation_chaos import ALLOCATED, Chaos, cpus
from tests.faults.weather import Weather
from tests.processes import extender_of, serve_process

HISTORIES = int(os.environ.get("KOORDPY_FAILOVERS", "8"))
STEPS = 40

NOTICED = 2.0
"""Seconds after which an API server has noticed that a client has disconnected."""


class Wire(Weather):
    """One replica's transport to the API server. A request may arrive although its sender has given up."""

    def __init__(self, server: ApiServer, rng: random.Random) -> None:
        super().__init__(server, lambda *_: None)
        self._rng = rng
        self._under_way: set[asyncio.Future[Response]] = set()
        self.leases_fail = False
        self.is_dead = False

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
        """Answer one request, sooner or later, or not."""
        if self.is_dead or (self.leases_fail and "/leases" in path):
            await asyncio.sleep(3.0)
            raise ConnectionLost("nobody answers", answered=False)
        arriving = asyncio.ensure_future(self._arrive(method, path, body, content_type))
        self._under_way.add(arriving)
        arriving.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(arriving)
        except asyncio.CancelledError:
            if arriving.cancelled():
                raise ConnectionLost("the connection was cut", answered=False) from None
            self._leave(arriving)
            raise

    async def _arrive(self, method: str, path: str, body: bytes, content_type: str) -> Response:
        if method != "GET" and self._rng.random() < 0.5:
            longest = 20.0 if "/leases" not in path and self._rng.random() < 0.3 else 0.5
            await asyncio.sleep(longest * self._rng.random())
        return await super().request(method, path, body=body, content_type=content_type)

    @staticmethod
    def _leave(arriving: asyncio.Future[Response]) -> None:
        asyncio.get_running_loop().call_later(NOTICED, arriving.cancel)

    def die(self) -> None:
        """Drop everything from now on, as for a killed process."""
        self.is_dead = True
        for arriving in self._under_way:
            self._leave(arriving)


class Reaches:
    """Calls one replica, which continues a call after the caller has died."""

    def __init__(self, origin: str, service: Process) -> None:
        self.origin = origin
        self._caller = EndpointCaller(origin, endpoints(extender_of(service)))

    async def request(self, method: str, path: str, **options: Any) -> Response:
        return await asyncio.shield(asyncio.ensure_future(self._caller.request(method, path, **options)))

    async def close(self) -> None:
        """Nothing is open."""


class Failover(Chaos):
    """A cluster with two replicas, of which `asked` is called."""

    def __init__(self, loop: SimulatedLoop, folder: Path, seed: int) -> None:
        self.wires: dict[Process, Wire] = {}
        self.ending: set[asyncio.Future[Any]] = set()
        super().__init__(loop, folder, seed)
        self.replicas = [self.service, self._service()]

    def _service(self) -> Process:
        extender = {"port": 0, "schedulerConfig": str(self._profiles)}
        found = settings.load(None, {"parts": ["extender"], "extender": extender, "shutdownDelay": 0})
        seed = self.rng.random()
        wire = Wire(self.server, random.Random(seed))
        service = serve_process(
            found, listens=False, connection=wire, clock=self.clock, rng=random.Random(seed)
        )
        self.wires[service] = wire
        return service

    async def _begin_to_ask(self, service: Process) -> None:
        document = self.scheduler.config
        self.service = service
        self.scheduler = Scheduler(
            document,
            self.client,
            clock=self.clock,
            rng=random.Random(self.rng.random()),
            connect=lambda origin: Reaches(origin, service),
        )
        await self.scheduler.start()

    def _later(self, work: Awaitable[Any], seconds: float) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await work

        ending = asyncio.ensure_future(wait())
        self.ending.add(ending)
        ending.add_done_callback(self.ending.discard)

    # --- steps -----------------------------------------------------------------------------------

    async def fail_over(self) -> None:
        """Let another kube-scheduler take over that calls another replica, while pods compete."""
        former = self.scheduler
        [other] = [replica for replica in self.replicas if replica is not self.service]
        if self.rng.random() < 0.5:
            await self.hamper(other, "pods", "reservations")
        await self._begin_to_ask(other)
        self._later(former.stop(), 6 * self.rng.random())
        for _ in range(3):
            await self.add_pod()
            await self.reserve()
            await asyncio.sleep(self.rng.random() ** 2)

    async def kill(self) -> None:
        """Kill a replica with its kube-scheduler, and start another one."""
        dead = self.rng.choice(self.replicas)
        self.wires[dead].die()
        self._later(dead.stop(), 0)
        fresh = self._service()
        self.replicas[self.replicas.index(dead)] = fresh
        await asyncio.sleep(5 * self.rng.random())
        await fresh.start()
        if dead is self.service:
            await self.scheduler.stop()
            await self._begin_to_ask(self.rng.choice(self.replicas))

    async def hamper(self, replica: Process | None = None, *kinds: str) -> None:
        """Make watches lag or the Lease unreachable for some time."""
        wire = self.wires[replica or self.rng.choice(self.replicas)]
        for kind in kinds or [self.rng.choice(["pods", "reservations", "leases"])]:
            if kind == "leases":
                wire.leases_fail = True
            else:
                wire.hold(kind)

        async def end() -> None:
            wire.leases_fail = False
            wire.clear_up()

        self._later(end(), 20 * self.rng.random() ** 2)

    async def run(self, steps: int) -> None:
        await self.server.load()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
        await self.client.create_raw(resource_of(Namespace), "", namespace)
        for name in ("n1", "n2", "n3"):
            await self.add_node(name)
        for replica in self.replicas:
            await replica.start()
        await self._begin_to_ask(self.replicas[0])
        choices: tuple[tuple[Callable[[], Awaitable[None]], int], ...] = (
            (self.add_pod, 4),
            (self.reserve, 4),
            (self.remove_pod, 6),
            (self.release, 5),
            (self.fail_over, 3),
            (self.hamper, 4),
            (self.kill, 1),
        )
        actions, weights = zip(*choices, strict=True)
        self.server.faults = self._fault
        try:
            for _ in range(steps):
                [act] = self.rng.choices(actions, weights)
                with suppress(ApiError):
                    await act()
                for _ in range(4):
                    await asyncio.sleep(2 * self.rng.random() ** 2)
                    await self.assert_nothing_is_booked_twice()
            self.server.faults = None
            for wire in self.wires.values():
                wire.leases_fail = False
                wire.clear_up()
            await asyncio.sleep(900)
            await self.assert_nothing_is_booked_twice()
            await self.assert_nothing_waits_that_fits()
            assert_clean(self.server)
        finally:
            self.server.faults = None
            await asyncio.gather(*self.ending)
            await self.scheduler.stop()
            await asyncio.gather(*(replica.stop() for replica in self.replicas))

    def _fault(self, method: str, path: str) -> Fault | None:
        target = path.partition("?")[0]
        written = method in ("PATCH", "POST") and target.endswith(("/status", "/binding", "/leases"))
        if written and "/nodes/" not in target and self.rng.random() < 0.1:
            return self.rng.choice((Fault(status=409), Fault(status=500), Fault(cut=True, after=True)))
        return None

    # --- invariants ------------------------------------------------------------------------------

    async def free(self) -> dict[str, int]:
        """Return the free CPUs of each node; the rest of a reservation used by one owner is free."""
        left = await super().free()
        for reservation, owners in await self._owners():
            if reservation.is_available and reservation.spec.allocate_once and owners:
                rest = int(reservation.status.allocatable["cpu"]) - sum(map(cpus, owners))
                left[reservation.node_name] += rest
        return left

    async def _owners(self) -> list[tuple[Reservation, list[Pod]]]:
        """Return the Reservations, each with the pods on nodes that use it."""
        faults, self.server.faults = self.server.faults, None
        pods = [pod for pod in await self.client.list_all(Pod, "default") if pod.spec.node_name]
        reservations = await self.client.list_all(Reservation)
        self.server.faults = faults
        users = [(pod, pod.metadata.annotations.get(ALLOCATED, "")) for pod in pods]
        return [(each, [pod for pod, used in users if each.metadata.uid in used]) for each in reservations]

    async def assert_nothing_is_booked_twice(self) -> None:
        """No node has less than its pods and Reservations request, no Reservation less than its owners."""
        await super().assert_nothing_is_booked_twice()
        for reservation, owners in await self._owners():
            if reservation.is_available:
                assert sum(map(cpus, owners)) <= int(reservation.status.allocatable["cpu"])
            if reservation.spec.allocate_once:
                assert len(owners) <= 1


def play(folder: Path, seed: int) -> None:
    simulated_time.run(lambda loop: Failover(loop, folder, seed).run(STEPS))


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_is_allocated_twice_when_another_replica_is_called(seed: int, tmp_path: Path) -> None:
    play(tmp_path, seed)


def test_without_the_fence_something_is_allocated_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play_some() -> None:
        for seed in range(HISTORIES):
            play(tmp_path, seed)

    monkeypatch.setattr(ExtenderElection, "guard", lambda *_: None)
    with pytest.raises(AssertionError, match=r": -\d|<= 1"):
        play_some()
