"""Two processes of `koordpy serve`, one lease, on simulated time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from koordpy.api.core import Namespace, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.leading import MODEST_SECONDS, Lead
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.settings import SchedulerLeaseSettings
from koordpy.simulation.inprocess import ServerChannel
from tests.unit.scheduling.worlds import extender, node, pod, world

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Process:
    """One candidate. `works` counts how often its part began, `at_work` whether it runs."""

    def __init__(self, client: Client, clock: SimulatedClock, seed: int, *, alone: bool = False) -> None:
        self.cluster = world([node("n1")], [pod("p"), pod("q")])
        self.extender = extender(self.cluster)
        self.works = 0
        self.at_work = False
        lease = None if alone else SchedulerLeaseSettings()
        parts = {"part": self._work}
        rng = random.Random(seed)
        self.lead = Lead(parts, self.extender, client, lease, clock=clock, rng=rng)

    async def _work(self) -> None:
        self.works += 1
        self.at_work = True
        try:
            await asyncio.Event().wait()
        finally:
            self.at_work = False

    def sees_bound(self, name: str) -> None:
        self.cluster.store(Pod).apply(pod(name, node_name="n1"))

    def is_asked_to_bind(self, name: str) -> None:
        self.extender.binds.asked.note(f"uid-{name}")


async def _at_once() -> None:
    """Wait for nothing."""


def play(scene: Callable[[Process, Process], Awaitable[None]]) -> None:
    async def program(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop, START)
        server = ApiServer(clock=clock, controllers=False)
        await server.load()
        client = Client(ServerChannel(server))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
        await client.create_raw(resource_of(Namespace), "", namespace)
        first, second = Process(client, clock, 1), Process(client, clock, 2)
        first.lead.begin(_at_once)
        await asyncio.sleep(1)
        second.lead.begin(_at_once)
        try:
            await scene(first, second)
        finally:
            await first.lead.stop()
            await second.lead.stop()

    simulated_time.run(program)


def test_one_process_leads() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(300)
        assert (first.at_work, first.works) == (True, 1)
        assert (second.at_work, second.works) == (False, 0)
        assert first.lead.is_leading
        assert not second.lead.is_leading

    play(scene)


def test_another_takes_over_when_the_leader_stops() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        await first.lead.stop()
        assert not first.at_work
        await asyncio.sleep(10)
        assert second.at_work

    play(scene)


def test_the_lead_goes_to_the_process_that_is_asked() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        second.is_asked_to_bind("p")
        first.sees_bound("p")
        second.sees_bound("p")
        await asyncio.sleep(0.1)
        assert not first.at_work
        await asyncio.sleep(10)
        assert second.at_work
        await asyncio.sleep(300)
        assert second.at_work
        assert second.works == 1

    play(scene)


def test_a_leader_that_is_asked_itself_stays() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        first.is_asked_to_bind("p")
        first.sees_bound("p")
        await asyncio.sleep(60)
        assert (first.at_work, first.works) == (True, 1)

    play(scene)


def test_who_is_asked_again_stands_at_once() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        await second.lead.stop()
        first.sees_bound("p")
        await asyncio.sleep(1)
        assert not first.at_work
        first.is_asked_to_bind("q")
        await asyncio.sleep(5)
        assert first.at_work

    play(scene)


def test_a_lease_that_nobody_wants_is_taken_after_a_while() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        await second.lead.stop()
        first.sees_bound("p")
        await asyncio.sleep(MODEST_SECONDS + 5)
        assert first.at_work

    play(scene)


def test_who_is_alone_needs_no_lease() -> None:
    async def program(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop, START)
        server = ApiServer(clock=clock, controllers=False)
        await server.load()
        process = Process(Client(ServerChannel(server)), clock, 1, alone=True)
        process.lead.begin(_at_once)
        await asyncio.sleep(1)
        process.sees_bound("p")
        await asyncio.sleep(1)
        assert process.at_work
        await process.lead.stop()
        assert not process.at_work

    simulated_time.run(program)
