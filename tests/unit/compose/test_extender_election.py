"""Two processes of `koordpy serve`, one lease, on simulated time."""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from koordpy.api.core import Lease, Namespace
from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.leader import CLAIM
from koordpy.compose.extender_election import ExtenderElection
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.scheduling.cycle.fence import Closed, Fence
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.settings import SchedulerLeaseSettings
from koordpy.simulation.inprocess import ServerChannel
from tests.unit.scheduling.worlds import extender, node, world

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Process:
    """One candidate. `works` counts how often its part began, `at_work` whether it runs.

    With `allocates` its work must be fenced; then `catching_up` is the number of seconds that it needs to
    catch up.
    """

    def __init__(
        self,
        client: Client,
        clock: SimulatedClock,
        seed: int,
        *,
        alone: bool = False,
        allocates: bool = False,
    ) -> None:
        self.clock = clock
        self.extender = extender(world([node("n1")], []))
        self.extender.binds.fence = Fence(clock)
        self.works = 0
        self.at_work = False
        self.catching_up = 0.0
        lease = None if alone else SchedulerLeaseSettings()
        rng = random.Random(seed)
        self.election = ExtenderElection(self.extender, client, lease, clock=clock, rng=rng)
        self.election.add("work", self._work)
        if allocates:
            self.election.guard(self._catch_up)

    @property
    def fence(self) -> Fence:
        return self.extender.binds.fence

    async def _work(self) -> None:
        self.works += 1
        self.at_work = True
        try:
            await asyncio.Event().wait()
        finally:
            self.at_work = False

    async def _catch_up(self) -> None:
        await asyncio.sleep(self.catching_up)

    def is_asked(self) -> None:
        self.extender.binds.asked()

    async def may_bind(self) -> float:
        """Wait as a bind call does; return the seconds waited."""
        began = self.clock.monotonic()
        self.is_asked()
        if not self.fence.term:
            await self.fence.entered()
        return self.clock.monotonic() - began


async def _at_once() -> None:
    """Wait for nothing."""


def play(scene: Callable[[Process, Process], Awaitable[None]], *, allocates: bool = False) -> None:
    """Start the election of two processes, the first one a second before the other."""

    async def program(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop, START)
        server = ApiServer(clock=clock, controllers=False)
        await server.load()
        client = Client(ServerChannel(server))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
        await client.create_raw(resource_of(Namespace), "", namespace)
        first, second = (Process(client, clock, seed, allocates=allocates) for seed in (1, 2))
        first.election.begin(_at_once)
        await asyncio.sleep(1)
        second.election.begin(_at_once)
        try:
            await scene(first, second)
        finally:
            await first.election.stop()
            await second.election.stop()

    simulated_time.run(program)


def test_one_process_leads() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(300)
        assert (first.at_work, first.works) == (True, 1)
        assert (second.at_work, second.works) == (False, 0)
        assert first.election.is_leading
        assert not second.election.is_leading

    play(scene)


def test_another_takes_over_when_the_leader_stops() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        await first.election.stop()
        assert not first.at_work
        await asyncio.sleep(10)
        assert second.at_work

    play(scene)


def test_leadership_moves_to_the_process_that_is_called_and_stays_there() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        second.is_asked()
        await asyncio.sleep(4)
        assert not first.at_work
        assert second.at_work
        await asyncio.sleep(300)
        assert second.at_work
        assert second.works == 1

    play(scene)


def test_a_leader_that_is_called_keeps_leading() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        first.is_asked()
        await asyncio.sleep(60)
        assert (first.at_work, first.works) == (True, 1)

    play(scene)


def test_a_lease_that_was_claimed_and_never_acquired_is_acquired_again() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        second.is_asked()
        await asyncio.sleep(0.1)
        await second.election.stop()
        await asyncio.sleep(4)
        assert not first.at_work
        await asyncio.sleep(20)
        assert first.at_work
        await asyncio.sleep(60)
        assert first.works == 2

    play(scene)


def test_a_single_process_needs_no_lease() -> None:
    async def program(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop, START)
        server = ApiServer(clock=clock, controllers=False)
        await server.load()
        process = Process(Client(ServerChannel(server)), clock, 1, alone=True, allocates=True)
        assert await process.may_bind() == 0
        process.election.begin(_at_once)
        await asyncio.sleep(1)
        assert process.at_work
        assert await process.may_bind() == 0
        await process.election.stop()
        assert not process.at_work

    simulated_time.run(program)


# --- fenced work -------------------------------------------------------------------------------------


def test_binds_do_not_wait_without_fenced_work() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        assert await first.may_bind() == 0
        assert await second.may_bind() == 0

    play(scene)


def test_the_first_bind_of_a_cluster_waits_for_the_lease_alone() -> None:
    async def scene(first: Process, second: Process) -> None:
        assert await first.may_bind() == 0

    play(scene, allocates=True)


def test_a_bind_at_another_process_waits_until_the_leader_has_released_the_lease() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        assert first.fence.term
        assert await second.may_bind() < 4
        assert not first.fence.term
        assert not first.at_work
        await asyncio.sleep(0.1)
        assert second.at_work
        assert await second.may_bind() == 0

    play(scene, allocates=True)


def test_a_bind_waits_until_earlier_allocations_are_known() -> None:
    async def scene(first: Process, second: Process) -> None:
        second.catching_up = 5.0
        await asyncio.sleep(10)
        waited = await second.may_bind()
        assert 5 < waited < 9

    play(scene, allocates=True)


def test_a_process_that_catches_up_slowly_still_gets_its_turn() -> None:
    async def scene(first: Process, second: Process) -> None:
        first.catching_up = second.catching_up = 5.0
        await asyncio.sleep(10)
        waits = await asyncio.gather(*(process.may_bind() for process in (second, first) for _ in range(3)))
        assert max(waits) < 30

    play(scene, allocates=True)


def test_two_processes_that_are_both_called_take_turns() -> None:
    async def scene(first: Process, second: Process) -> None:
        bound = {first: 0, second: 0}

        async def bind_for_ever(process: Process) -> None:
            while True:
                await process.may_bind()
                assert not (first.fence.term and second.fence.term)
                bound[process] += 1
                await asyncio.sleep(0.1)

        asked = [asyncio.create_task(bind_for_ever(process)) for process in (first, second)]
        await asyncio.sleep(120)
        for task in asked:
            assert not task.done()
            task.cancel()
        assert min(bound.values()) > 200

    play(scene, allocates=True)


def test_a_holder_that_does_not_release_the_lease_is_named() -> None:
    async def program(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop, START)
        server = ApiServer(clock=clock, controllers=False)
        await server.load()
        client = Client(ServerChannel(server))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "koordinator-system"}}
        await client.create_raw(resource_of(Namespace), "", namespace)
        meta = ObjectMeta(name="koord-scheduler", namespace="koordinator-system")
        spec = Lease.Spec(holder_identity="koord-scheduler-0", lease_duration_seconds=3600)
        await client.create(Lease(metadata=meta, spec=spec))
        process = Process(client, clock, 1, allocates=True)
        process.election.begin(_at_once)
        with pytest.raises(Closed, match="koordinator-system/koord-scheduler is held by koord-scheduler-0"):
            await process.may_bind()
        assert clock.monotonic() == pytest.approx(30, abs=1)
        lease = await client.get(Lease, "koordinator-system", "koord-scheduler")
        assert lease.metadata.annotations[CLAIM].startswith(socket.gethostname())
        await process.election.stop()

    simulated_time.run(program)


def test_binds_report_a_lease_that_cannot_be_acquired() -> None:
    async def program(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop, START)
        server = ApiServer(clock=clock, controllers=False)
        await server.load()
        process = Process(Client(ServerChannel(server)), clock, 1, allocates=True)
        process.election.begin(_at_once)
        with pytest.raises(Closed, match=r'cannot be acquired: .* namespaces "koordinator-system" not found'):
            await process.may_bind()
        await process.election.stop()

    simulated_time.run(program)


def test_a_process_that_ends_during_a_handover_does_not_release_too_early() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        began, broken_off = first.clock.monotonic(), 0.0

        async def write() -> Status:
            nonlocal broken_off
            try:
                await asyncio.sleep(60)
            finally:
                broken_off = first.clock.monotonic()
            return SUCCESS

        writing = asyncio.create_task(first.fence.write(first.fence.term, write()))
        binding = asyncio.create_task(second.may_bind())
        while first.fence.term:
            await asyncio.sleep(0.1)
        await first.election.stop()
        assert (await writing).error is not None
        assert began < broken_off <= began + await binding - 2.5

    play(scene, allocates=True)


def test_a_process_that_ends_fails_waiting_binds() -> None:
    async def scene(first: Process, second: Process) -> None:
        await asyncio.sleep(10)
        second.catching_up = 1000.0
        waiting = asyncio.create_task(second.may_bind())
        await asyncio.sleep(1)
        await second.election.stop()
        with pytest.raises(Closed, match="shutting down"):
            await waiting

    play(scene, allocates=True)
