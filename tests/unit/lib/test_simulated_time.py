"""Simulated time: timers fire in order, waits take no time, and stalls are errors."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop, Stalled, run

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_year_of_sleep_is_over_at_once():
    async def sleep(loop: SimulatedLoop) -> float:
        await asyncio.sleep(365 * 86400)
        return loop.time()

    assert run(sleep) == pytest.approx(365 * 86400)


def test_sleepers_wake_in_the_order_of_their_times():
    woken: list[tuple[int, float]] = []

    async def sleeper(loop: SimulatedLoop, seconds: int) -> None:
        await asyncio.sleep(seconds)
        woken.append((seconds, round(loop.time(), 3)))

    async def all_of_them(loop: SimulatedLoop) -> None:
        await asyncio.gather(*(sleeper(loop, seconds) for seconds in (30, 7, 90_000_000, 7, 1)))

    run(all_of_them)
    assert woken == [(1, 1), (7, 7), (7, 7), (30, 30), (90_000_000, 90_000_000)]


def test_timeouts_are_simulated_too():
    async def wait(loop: SimulatedLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(300):
                await asyncio.Event().wait()
        return loop.time()

    assert run(wait) == pytest.approx(300)


def test_the_clock_follows_the_loop():
    async def look(loop: SimulatedLoop) -> tuple[datetime, float]:
        clock = SimulatedClock(loop, START)
        await asyncio.sleep(90)
        return clock.now(), clock.monotonic()

    now, elapsed = run(look)
    assert now - START == timedelta(seconds=90)
    assert elapsed == pytest.approx(90)


def test_what_is_given_to_a_thread_takes_no_time():
    def work(number: int) -> int:
        if number < 0:
            raise ValueError("negative")
        return number + 1

    async def program(loop: SimulatedLoop) -> tuple[int, float]:
        ticking = asyncio.create_task(asyncio.sleep(60))
        found = await asyncio.to_thread(work, 6)
        with pytest.raises(ValueError, match="negative"):
            await asyncio.to_thread(work, -1)
        assert not ticking.done()
        return found, loop.time()

    assert run(program) == (7, 0.0)


def test_waiting_for_nothing_is_an_error():
    async def wait(_: SimulatedLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match="a task still waits"):
        run(wait)


def test_a_clock_without_a_time_zone_is_refused():
    async def make(loop: SimulatedLoop) -> None:
        SimulatedClock(loop, datetime(2026, 1, 1))

    with pytest.raises(ValueError, match="aware"):
        run(make)


def test_tasks_that_wait_for_a_time_see_it_when_their_timers_fire_early() -> None:
    async def program(loop: SimulatedLoop) -> None:
        due = 300.1
        await asyncio.sleep(300.09999999999997)

        async def wait(ticks: int) -> None:
            for _ in range(ticks):
                await asyncio.sleep(0)
            rounds = 0
            while loop.time() < due:
                rounds += 1
                assert rounds < 100
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(due):
                        await asyncio.Event().wait()

        await asyncio.gather(*(wait(ticks) for ticks in range(4)))

    run(program)
