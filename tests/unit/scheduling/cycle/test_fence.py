"""The fence on simulated time: which writes may start, until when, and which callers wait."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from prometheus_client import REGISTRY

from koordpy.cluster.errors import ConnectionFailed
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.scheduling.cycle.fence import Closed, Fence, Limits
from koordpy.scheduling.interface.status import SUCCESS, Status

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
WAITED = "koordpy_extender_fence_wait_seconds_sum"
LIMITS = Limits(begin=10.0, end=12.5, lease=15.0)


class Scene:
    """A fence with a Lease, and writes."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.clock = SimulatedClock(loop, START)
        self.fence = Fence(self.clock)
        self.fence.enable(LIMITS, lambda: "another process holds it")
        self.written: list[float] = []

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def win(self) -> int:
        """Acquire the Lease, and begin a term."""
        self.fence.confirm(self.now)
        self.fence.open()
        return self.fence.term

    async def work(self, seconds: float, status: Status = SUCCESS) -> Status:
        await asyncio.sleep(seconds)
        self.written.append(self.now)
        return status

    def write(self, term: int, seconds: float = 0.0, status: Status = SUCCESS) -> asyncio.Task[Status]:
        return asyncio.create_task(self.fence.write(term, self.work(seconds, status)))


def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def program(loop: SimulatedLoop) -> None:
        await scene(Scene(loop))

    simulated_time.run(program)


def test_without_a_lease_it_is_always_open() -> None:
    async def program(loop: SimulatedLoop) -> None:
        fence = Fence(SimulatedClock(loop, START))
        assert fence.term == await fence.entered() == 1

        async def work() -> Status:
            return SUCCESS

        for term in (1, 2):
            assert await fence.write(term, work()) is SUCCESS

    simulated_time.run(program)


def test_writes_start_while_the_last_renewal_is_recent_and_the_term_survives_a_late_one() -> None:
    async def scene(it: Scene) -> None:
        assert not it.fence.term
        term = it.win()
        await asyncio.sleep(9.9)
        assert (await it.write(term)).is_success
        await asyncio.sleep(0.2)
        assert not it.fence.term
        assert (await it.write(term)).message == (
            "the Lease under which this was decided is no longer held; try again"
        )
        it.fence.confirm(it.now - 1)
        assert (await it.write(term)).is_success
        assert len(it.written) == 2

    play(scene)


def test_an_allocation_of_one_term_is_not_written_in_another() -> None:
    async def scene(it: Scene) -> None:
        first = it.win()
        it.fence.shut()
        assert not (await it.write(first)).is_success
        second = it.win()
        assert second != first
        assert not (await it.write(first)).is_success
        assert (await it.write(second)).is_success

    play(scene)


def test_a_term_needs_a_renewal_and_to_be_opened() -> None:
    async def scene(it: Scene) -> None:
        it.fence.confirm(it.now)  # the Lease is held, but earlier writes are not observed yet
        assert not it.fence.term
        it.fence.open()
        first = it.fence.term
        it.fence.shut()
        it.fence.confirm(it.now)  # a renewal that was in flight
        assert not it.fence.term
        it.fence.open()
        assert it.fence.term > first > 0

    async def unconfirmed(it: Scene) -> None:
        it.fence.open()
        assert not it.fence.term

    play(scene)
    play(unconfirmed)


def test_a_write_is_cancelled_before_another_process_can_hold_the_lease() -> None:
    async def scene(it: Scene) -> None:
        term = it.win()
        await asyncio.sleep(5)
        status = await it.write(term, seconds=60)
        assert it.now == pytest.approx(12.5)
        assert isinstance(status.error, ConnectionFailed)
        assert str(status.error) == str(
            ConnectionFailed(
                "write", "", TimeoutError("cancelled, because the Lease was not renewed in time"), sent=True
            )
        )
        assert status.error.sent
        assert it.written == []

    play(scene)


def test_a_write_past_its_deadline_is_cancelled_at_once() -> None:
    async def scene(it: Scene) -> None:
        await asyncio.sleep(100)
        writing = it.write(it.win(), seconds=60)
        await asyncio.sleep(0)
        it.fence.confirm(it.now - LIMITS.end)
        assert not (await writing).is_success
        assert it.now == 100

    play(scene)


def test_renewals_give_writes_more_time() -> None:
    async def scene(it: Scene) -> None:
        term = it.win()
        writing = it.write(term, seconds=60)
        for _ in range(40):
            await asyncio.sleep(2)
            it.fence.confirm(it.now - 0.5)
        assert (await writing).is_success

    play(scene)


def test_a_task_that_is_cancelled_stays_cancelled() -> None:
    async def scene(it: Scene) -> None:
        writing = it.write(it.win(), seconds=60)
        await asyncio.sleep(1)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert it.fence.term

    play(scene)


def test_a_task_whose_write_was_cancelled_continues_and_can_be_cancelled_later() -> None:
    async def scene(it: Scene) -> None:
        term = it.win()

        async def caller() -> str:
            status = await it.fence.write(term, it.work(60))
            async with asyncio.timeout(5):
                await asyncio.sleep(1)
                return status.message

        assert "cancelled" in await asyncio.create_task(caller())

    play(scene)


def test_a_caller_that_was_refused_makes_the_next_term_awaited_for_a_while() -> None:
    async def scene(s: Scene) -> None:
        assert not s.fence.is_awaited
        s.fence.want()
        assert s.fence.is_awaited
        await asyncio.sleep(LIMITS.patience + 1)
        assert not s.fence.is_awaited

    play(scene)


def test_quiet_returns_at_once_if_everything_was_answered() -> None:
    async def scene(it: Scene) -> None:
        assert (await it.write(it.win(), seconds=1)).is_success
        it.fence.shut()
        await it.fence.quiet()
        assert it.now == 1

    play(scene)


def test_quiet_waits_for_writes_in_flight() -> None:
    async def scene(it: Scene) -> None:
        writing = it.write(it.win(), seconds=2)
        await asyncio.sleep(1)
        it.fence.shut()
        await it.fence.quiet()
        assert it.now == pytest.approx(2, abs=0.02)
        assert (await writing).is_success

    play(scene)


def test_quiet_cancels_slow_writes_and_gives_the_api_server_time_to_notice() -> None:
    async def scene(it: Scene) -> None:
        writing = it.write(it.win(), seconds=60)
        await asyncio.sleep(1)
        it.fence.shut()
        await it.fence.quiet()
        assert writing.done()
        assert it.now == pytest.approx(1 + 2.5 + 2.5, abs=0.02)

    play(scene)


def test_quiet_waits_after_an_inconclusive_answer() -> None:
    async def scene(it: Scene) -> None:
        lost = Status.failed(ConnectionFailed("POST", "/binding", TimeoutError(), sent=True))
        await it.write(it.win(), status=lost)
        await asyncio.sleep(1)
        it.fence.shut()
        await it.fence.quiet()
        assert it.now == pytest.approx(2.5)

    play(scene)


def test_a_waiting_caller_gets_the_next_term() -> None:
    async def scene(it: Scene) -> None:
        entering = [asyncio.create_task(it.fence.entered()) for _ in range(3)]
        await asyncio.sleep(1)
        assert it.fence.is_awaited
        term = it.win()
        assert await asyncio.gather(*entering) == [term] * 3
        assert not it.fence.is_awaited

    play(scene)


def test_a_caller_that_waits_in_vain_gets_the_reason() -> None:
    async def scene(it: Scene) -> None:
        with pytest.raises(Closed, match="another process holds it"):
            await it.fence.entered()
        assert it.now == LIMITS.patience

    play(scene)


def test_no_call_waits_for_a_caller_that_has_disconnected() -> None:
    async def scene(it: Scene) -> None:
        await asyncio.sleep(5)
        entering = asyncio.create_task(it.fence.entered())
        waited = REGISTRY.get_sample_value(WAITED) or 0.0
        with pytest.raises(Closed, match=r"^kube-scheduler disconnected meanwhile$"):
            await it.fence.entered(lambda: asyncio.sleep(3))
        assert it.now == 8
        assert REGISTRY.get_sample_value(WAITED) == pytest.approx(waited + 3)
        assert it.fence.is_awaited
        it.win()
        await entering
        assert not it.fence.is_awaited

    play(scene)


def test_no_caller_waits_after_the_last_term() -> None:
    async def scene(it: Scene) -> None:
        entering = asyncio.create_task(it.fence.entered())
        await asyncio.sleep(1)
        it.fence.end("koordpy is shutting down")
        for waiting in (entering, it.fence.entered()):
            with pytest.raises(Closed, match="shutting down"):
                await waiting
        assert it.now == 1

    play(scene)
