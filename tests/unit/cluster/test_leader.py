"""Leader election against a server that holds one Lease; time passes only when a candidate sleeps."""

import asyncio
import json
import os
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY

from koordpy.api.core import Lease
from koordpy.api.meta import ObjectMeta, format_micro_time
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.leader import CLAIM, LeaderElector, identity
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib import simulated_time
from koordpy.lib.clock import FakeClock
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.simulation.inprocess import ServerChannel
from tests.servers.collection import status
from tests.servers.raw import Exchange, RawServer

START = datetime(2026, 1, 1, tzinfo=UTC)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class LeaseServer(RawServer):
    """Holds a Lease. Refuses writes while `broken`, answers none once it is `silent`, all after `delay`."""

    def __init__(self) -> None:
        super().__init__(self._serve)
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken = self.silent = False
        self.delay = 0.0
        self.on_read: Callable[[], None] = lambda: None
        """Called after each answer to a GET: the action of another candidate at that moment."""

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        return self.lease["spec"]

    @property
    def claimant(self) -> str | None:
        assert self.lease is not None
        return self.lease["metadata"]["annotations"].get(CLAIM)

    def write(self, annotations: dict[str, str | None] | None = None, **spec: Any) -> None:
        self.version += 1
        old = self.lease["spec"] if self.lease else {}
        marks = self.lease["metadata"]["annotations"] if self.lease else {}
        marks = {key: mark for key, mark in (marks | (annotations or {})).items() if mark is not None}
        version = str(self.version)
        self.lease = {
            "metadata": {"name": "l", "namespace": "ns", "resourceVersion": version, "annotations": marks},
            "spec": {**old, **spec},
        }

    async def _serve(self, exchange: Exchange) -> None:
        request = exchange.request
        document = json.loads(request.body) if request.body else {}
        if request.target.partition("?")[0] != (LEASES if request.method == "POST" else f"{LEASES}/l"):
            await exchange.reply(400, status(400, "BadRequest"))
            return
        if self.silent and request.method != "GET":
            await asyncio.Event().wait()
        await asyncio.sleep(self.delay)
        if self.broken and request.method != "GET":
            await exchange.reply(500, status(500, "InternalError"))
            return
        if request.method == "POST":
            if self.lease is not None:
                await exchange.reply(409, status(409, "AlreadyExists"))
                return
            assert (document["metadata"]["name"], document["metadata"]["namespace"]) == ("l", "ns")
            self.write(**document["spec"])
        elif self.lease is None:
            await exchange.reply(404, status(404, "NotFound"))
            return
        elif request.method == "PATCH":
            metadata = document["metadata"]
            if metadata.get("resourceVersion", str(self.version)) != str(self.version):
                await exchange.reply(409, status(409, "Conflict"))
                return
            self.write(metadata.get("annotations"), **document.get("spec", {}))
        answer = json.dumps(self.lease).encode()
        if request.method == "GET":
            self.on_read()
        await exchange.reply(200, answer)


class Candidate:
    """An elector with its own clock, whose sleeps move that clock and let others run."""

    def __init__(self, server: LeaseServer, identity: str, skew: float = 0.0, **options: Any) -> None:
        self.clock = FakeClock(START)
        self.clock.advance(skew)
        self.slept: list[float] = []
        self.client = Client(Connection.to(Access(server.url)), attempts=1)
        self.leaders: list[str] = []
        self.claims = False
        self.held: list[float] = []
        self.elector = LeaderElector(
            self.client,
            "ns",
            "l",
            identity,
            clock=self.clock,
            rng=random.Random(1),
            sleep=self.sleep,
            on_new_leader=self.leaders.append,
            on_held=self.held.append,
            claims=lambda: self.claims,
            **options,
        )
        self.led = asyncio.Event()
        self.stopped = False
        self.cancelled = False

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)
        await asyncio.sleep(0.001)

    async def lead(self) -> None:
        self.led.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def stop(self) -> None:
        self.stopped = True

    async def run(self) -> None:
        await self.elector.run(self.lead, self.stop)


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for candidate in candidates:
            await candidate.client.close()


async def test_first_candidate_creates_the_lease_and_leads() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            assert me.elector.is_leader
            assert _gauge() == 1
            assert server.spec["holderIdentity"] == "me"
            assert server.spec["leaseDurationSeconds"] == 15
            assert server.spec["acquireTime"] == format_micro_time(START)
            assert server.spec.get("leaseTransitions", 0) == 0
        assert me.leaders == ["me"]
        assert _gauge() == 0


def _gauge() -> float | None:
    return REGISTRY.get_sample_value("koordpy_leader", {"lease": "ns/l"})


async def test_leader_renews_and_keeps_the_time_it_acquired() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            acquired = server.spec["acquireTime"]
            while server.version < 5:
                await asyncio.sleep(0.001)
            assert server.spec["acquireTime"] == acquired
            assert server.spec["renewTime"] > acquired


async def test_lease_is_released_on_exit_after_the_work_has_stopped() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            while len(me.held) < 4:
                await asyncio.sleep(0)
        assert me.cancelled
        assert me.stopped
        assert server.spec["holderIdentity"] == ""
        assert server.spec["leaseDurationSeconds"] == 1
        assert server.spec["acquireTime"] == format_micro_time(me.clock.now())
        assert server.spec["renewTime"] == format_micro_time(me.clock.now())
        assert not me.elector.is_leader


async def test_a_release_that_is_not_answered_is_given_up() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me", lease_duration=1, renew_deadline=0.3, retry_period=0.1)
        async with running(me) as (task,):
            await me.led.wait()
            server.silent = True
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert me.stopped


async def test_candidates_wait_between_one_and_two_periods_and_a_fifth_between_tries() -> None:
    async with LeaseServer() as server:
        server.write(holderIdentity="other", leaseDurationSeconds=3600)
        me = Candidate(server, "me")
        async with running(me):
            while len(me.slept) < 50:
                await asyncio.sleep(0.001)
        assert all(2 <= seconds < 4.4 for seconds in me.slept)
        assert min(me.slept) < 2.5
        assert max(me.slept) > 3.9


def test_no_two_candidates_have_the_same_identity() -> None:
    start = f"{socket.gethostname()}_{os.getpid()}_"
    assert all(identity().startswith(start) for _ in range(3))
    assert len({identity() for _ in range(100)}) == 100
    assert len(identity()) == len(start) + 8


async def test_lease_is_kept_on_exit_without_release_on_exit() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me", release_on_exit=False)
        async with running(me):
            await me.led.wait()
        assert server.spec["holderIdentity"] == "me"


async def test_lease_of_another_is_taken_only_after_it_stood_still_for_its_duration() -> None:
    async with LeaseServer() as server:
        server.write(
            holderIdentity="other",
            leaseDurationSeconds=15,
            leaseTransitions=3,
            renewTime="2020",
        )
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            waited = sum(me.slept)
            assert waited >= 15, "an old renewTime means nothing: the other's clock may be wrong"
            assert server.spec["leaseTransitions"] == 4
        assert me.leaders == ["other", "me"]


@pytest.mark.parametrize(("duration", "waited"), [(2, 2.0), (None, 0.0)])
async def test_lease_is_over_when_its_duration_has_passed(duration: int | None, waited: float) -> None:
    async with LeaseServer() as server:
        server.write({CLAIM: "me"}, holderIdentity="other", leaseDurationSeconds=duration)
        me = Candidate(server, "me")
        me.claims = True  # a try every half a second
        assert me.elector.problem == ""
        async with running(me):
            await me.led.wait()
            assert sum(me.slept) == waited


async def test_lease_that_is_renewed_is_never_taken() -> None:
    async with LeaseServer() as server:
        server.write(holderIdentity="other", leaseDurationSeconds=15)
        me = Candidate(server, "me")
        async with running(me):
            for i in range(60):
                server.write(renewTime=f"t{i}")
                slept = len(me.slept)
                while len(me.slept) <= slept:
                    await asyncio.sleep(0.001)
            assert not me.led.is_set()
            assert server.claimant is None
        assert server.spec["holderIdentity"] == "other"


async def test_released_lease_is_taken_at_the_next_try() -> None:
    async with LeaseServer() as server:
        server.write(holderIdentity="", leaseDurationSeconds=1, leaseTransitions=1)
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            assert me.slept == []
            assert server.spec["leaseTransitions"] == 2


async def test_leader_that_cannot_renew_stops_at_the_renew_deadline() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me) as (task,):
            while len(me.held) < 5:
                await asyncio.sleep(0)
            server.broken = True
            renewed = len(me.held)
            await task
        assert len(me.held) == renewed
        assert me.cancelled
        assert me.stopped
        assert me.clock.monotonic() - me.held[-1] == 10
        assert "InternalError" in me.elector.problem


async def test_leader_stops_when_its_renewals_are_not_answered() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me", lease_duration=1, renew_deadline=0.3, retry_period=0.1)
        async with running(me) as (task,):
            await me.led.wait()
            server.silent = True
            await task
        assert me.cancelled
        assert me.elector.problem == "no answer in time"


def test_leader_whose_api_server_hangs_stops_before_the_lease_is_another_ones() -> None:
    """On simulated time: the wait of the last renewal is also within the deadline."""
    held: list[float] = []
    stopped: list[float] = []

    async def program(loop: SimulatedLoop) -> None:
        clock = SimulatedClock(loop, START)
        server = ApiServer(clock=clock)
        await server.load()
        client = Client(ServerChannel(server), attempts=1)
        expiring = Lease.Spec(holder_identity="other", lease_duration_seconds=3)
        await client.create(Lease(metadata=ObjectMeta(name="l", namespace="default"), spec=expiring))
        elector = LeaderElector(client, "default", "l", "me", clock=clock, on_held=held.append)

        async def lead() -> None:
            await asyncio.sleep(60)
            broken_at, never = loop.time(), asyncio.Event()

            def fault(method: str, path: str) -> Fault | None:
                if method == "GET":
                    return None
                return Fault(status=500) if loop.time() < broken_at + 5 else Fault(held=never)

            server.faults = fault
            await never.wait()

        await elector.run(lead, lambda: stopped.append(loop.time()))

    simulated_time.run(program)
    assert held[0] >= 3
    assert stopped == [pytest.approx(held[-1] + 2 + 10)]


async def test_leader_continues_with_one_request_per_renewal() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            server.delay = 0.02
            requests = len(server.requests)
            while me.clock.monotonic() < 60:
                await asyncio.sleep(0.001)
            assert me.elector.is_leader
            assert me.elector.problem == ""
            assert {request.method for request in server.requests[requests:]} == {"PATCH"}


async def test_lease_is_kept_until_the_work_has_ended() -> None:
    holders: list[str] = []

    async with LeaseServer() as server:
        me = Candidate(server, "me")

        async def lead() -> None:
            me.led.set()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(10):
                    await asyncio.sleep(0.002)
                    holders.append(server.spec["holderIdentity"])

        leading = asyncio.create_task(me.elector.run(lead))
        await me.led.wait()
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await me.client.close()
        assert holders == ["me"] * 10
        assert server.spec["holderIdentity"] == ""


async def test_an_elector_can_lead_with_minimal_arguments() -> None:
    async with LeaseServer() as server:
        client = Client(Connection.to(Access(server.url)), attempts=1)
        led: list[str] = []

        async def lead() -> None:
            led.append(server.spec["holderIdentity"])

        await LeaderElector(client, "ns", "l", "me").run(lead)
        await client.close()
        assert led == ["me"]
        assert server.spec["holderIdentity"] == ""


async def test_leader_survives_a_short_outage() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            server.broken = True
            slept = len(me.slept)
            while len(me.slept) < slept + 3:
                await asyncio.sleep(0)
            server.broken = False
            version = server.version
            while server.version < version + 3:
                await asyncio.sleep(0.001)
            assert me.elector.is_leader
            assert not me.cancelled


async def test_leader_whose_lease_was_taken_stops() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me) as (task,):
            await me.led.wait()
            server.write(holderIdentity="usurper", leaseDurationSeconds=3600)
            await task
        assert me.cancelled
        assert server.spec["holderIdentity"] == "usurper"


async def test_of_many_candidates_with_skewed_clocks_one_leads() -> None:
    async with LeaseServer() as server:
        all_ = [Candidate(server, f"c{i}", skew=i * 100_000.0) for i in range(5)]
        async with running(*all_):
            for candidate in all_[1:]:
                while len(candidate.slept) < 3 and not candidate.led.is_set():
                    await asyncio.sleep(0.001)
            assert sum(candidate.led.is_set() for candidate in all_) == 1


async def test_what_the_work_raises_is_raised_and_the_lease_released() -> None:
    async def fail() -> None:
        raise RuntimeError("work failed")

    async with LeaseServer() as server:
        me = Candidate(server, "me")
        with pytest.raises(RuntimeError, match="work failed"):
            await me.elector.run(fail)
        assert server.spec["holderIdentity"] == ""
        await me.client.close()


async def test_the_leader_knows_since_when_it_certainly_held_the_lease() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me):
            while len(me.held) < 3:
                await asyncio.sleep(0.001)
            assert me.held[:3] == [0.0, 0.0, 2.0]  # a lease that was just won is renewed at once


async def test_a_claim_is_written_to_the_lease_and_checked_often() -> None:
    async with LeaseServer() as server:
        server.write(holderIdentity="other", leaseDurationSeconds=3600)
        me = Candidate(server, "me")
        async with running(me):
            me.claims = True
            me.elector.claim()
            while server.claimant != "me":
                await asyncio.sleep(0.001)
            slept = len(me.slept)
            while len(me.slept) < slept + 3:
                await asyncio.sleep(0.001)
            assert me.slept[-1] == 0.5
            server.write(holderIdentity="", leaseDurationSeconds=1)
            await me.led.wait()
            assert server.claimant is None


async def test_a_claim_concurrent_with_a_renewal_is_still_written() -> None:
    async with LeaseServer() as server:
        server.write(holderIdentity="other", leaseDurationSeconds=15)
        server.on_read = lambda: server.write(renewTime=f"t{server.version}")
        me = Candidate(server, "me")
        me.claims = True
        async with running(me):
            while server.claimant != "me":
                await asyncio.sleep(0.001)
            server.on_read = lambda: None
            since = sum(me.slept)
            await me.led.wait()
            assert sum(me.slept) - since >= 15 - 0.5


async def test_the_leader_sees_a_claim_and_keeps_the_lease_until_it_ends() -> None:
    async with LeaseServer() as server:
        me = Candidate(server, "me")
        async with running(me):
            await me.led.wait()
            server.write({CLAIM: "other"})
            while me.elector.claimant != "other":
                await asyncio.sleep(0.001)
            assert me.elector.is_leader
            assert server.spec["holderIdentity"] == "me"


@pytest.mark.parametrize(("claims", "patience"), [(False, 15), (True, 2)])
async def test_a_free_lease_is_reserved_for_the_claimant_for_a_while(claims: bool, patience: float) -> None:
    async with LeaseServer() as server:
        server.write({CLAIM: "other"}, holderIdentity="", leaseDurationSeconds=1)
        me = Candidate(server, "me")
        me.claims = claims
        async with running(me):
            await me.led.wait()
            assert patience <= sum(me.slept) < patience + (0.5 if claims else 5)
            assert server.claimant is None


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"lease_duration": 10.0}, "leaseDuration 10s must be above renewDeadline 10s"),
        ({"lease_duration": 10.9, "renew_deadline": 10.5}, "leaseDuration 10.9s must be above"),
        ({"renew_deadline": 2.4}, "renewDeadline 2.4s must be above 1.2 times retryPeriod 2s"),
        (
            {"retry_period": 0.0},
            "^leaseDuration must be 1s or more, retryPeriod positive, identity not empty$",
        ),
    ],
)
async def test_times_that_could_give_two_leaders_are_refused(times: dict[str, float], message: str) -> None:
    async with LeaseServer() as server:
        with pytest.raises(ValueError, match=message):
            Candidate(server, "me", **times)
