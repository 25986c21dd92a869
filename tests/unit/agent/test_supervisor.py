"""Units that raise, hang, block or leak are noticed and started again; the others run on."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from koordpy.agent.engine.footprint import Limits, look
from koordpy.agent.engine.supervisor import Supervisor
from koordpy.agent.engine.unit import FAILURES, Unit
from koordpy.agent.engine.watchdog import Watchdog
from koordpy.lib.clock import SystemClock
from tests.eventually import PATIENCE


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def soon(_: float) -> None:
    """A sleep that others' turns end."""
    await asyncio.sleep(0.001)


class Supervised:
    """A supervisor with units, whose waits are short."""

    def __init__(self, *units: Unit, **options: object) -> None:
        self.supervisor = Supervisor(sleep=soon, **options)  # type: ignore[arg-type]
        self.units = units

    async def __aenter__(self) -> Supervisor:
        self.tasks = [asyncio.create_task(self.supervisor.run())]
        await asyncio.sleep(0)  # the task factory is in place
        self.tasks += [asyncio.create_task(self.supervisor.keep(unit)) for unit in self.units]
        return self.supervisor

    async def __aexit__(self, *_: object) -> None:
        running, *kept = self.tasks
        for tasks in (kept, [running]):  # while it runs, the supervisor knows the tasks that its units start
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def unit(run: Callable[[], Awaitable[None]], name: str = "qos/It", **options: object) -> Unit:
    return Unit(name, run, clock=SystemClock(), **options)  # type: ignore[arg-type]


def failures(name: str, reason: str) -> float:
    return float(FAILURES.labels(name, reason)._value.get())


async def test_a_unit_that_raises_is_counted_and_started_again() -> None:
    runs = 0

    async def stumble() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise RuntimeError("stumbled")
        await it.sleep(0)
        await asyncio.Event().wait()

    it = unit(stumble, "qos/Raiser")
    async with Supervised(it):
        await until(lambda: it.rounds == 1)
        assert (it.failures, it.restarts, it.not_ready()) == (2, 2, None)
    assert failures("qos/Raiser", "raised") == 2


def test_a_failure_makes_a_unit_not_ready_until_a_round_succeeds() -> None:
    async def run() -> None:
        pass

    it = unit(run, "qos/Patient")
    it.failed("raised", "raised: RuntimeError: stumbled")
    assert it.not_ready() == "raised: RuntimeError: stumbled"
    it.end_round()
    assert it.not_ready() is None


async def test_a_unit_that_returns_or_cancels_itself_is_started_again() -> None:
    ends = 0

    async def end() -> None:
        nonlocal ends
        ends += 1
        if ends % 2:
            raise asyncio.CancelledError

    it = unit(end, "qos/Ender")
    async with Supervised(it):
        await until(lambda: it.restarts >= 4)
    assert failures("qos/Ender", "ended") >= 4


async def test_a_round_that_never_ends_is_cancelled_from_the_second_round_on() -> None:
    runs = 0

    async def hang() -> None:
        nonlocal runs
        runs += 1
        await it.sleep(0)
        await asyncio.Event().wait()

    it = unit(hang, "qos/Hanger", round_timeout=0.01, sleep=soon)
    async with Supervised(it):
        await until(lambda: runs >= 3)
    assert failures("qos/Hanger", "hung") >= 2


async def test_a_unit_that_waits_for_events_has_no_rounds_that_could_be_too_long() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    it = unit(wait, "qos/Waiter", round_timeout=0.0)
    async with Supervised(it) as supervisor:
        await until(lambda: it.main is not None)
        for _ in range(10):
            supervisor.check()
            await asyncio.sleep(0.001)
        assert (it.failures, it.restarts) == (0, 0)


async def test_tasks_without_end_are_a_leak_and_end_with_the_run() -> None:
    left: list[asyncio.Task[bool]] = []

    async def leak() -> None:
        while True:
            left.append(asyncio.create_task(asyncio.Event().wait()))
            await asyncio.sleep(0)

    it = unit(leak, "qos/Leaker")
    async with Supervised(it, most_tasks=20):
        await until(lambda: it.restarts >= 2)
    assert failures("qos/Leaker", "leaked") >= 2
    assert all(task.done() for task in left)


async def test_the_unit_that_leaves_files_open_is_named_when_there_are_too_many() -> None:
    files = []

    async def leak() -> None:
        while True:
            files.append(open("/dev/null"))  # noqa: ASYNC230, SIM115
            await it.sleep(0)

    async def work() -> None:
        while True:
            await other.sleep(0)

    it, other = unit(leak, "qos/Opener", sleep=soon), unit(work, "qos/Closer", sleep=soon)
    try:
        async with Supervised(it, other, limits=Limits(files=0)) as supervisor:
            await until(lambda: it.left.files > 0)
            supervisor.check_footprint(look(supervisor.limits))
            await until(lambda: it.restarts >= 1)
    finally:
        for each in files:
            each.close()
    assert failures("qos/Opener", "leaked") >= 1
    assert other.failures == 0


async def test_a_unit_that_ignores_its_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordpy.agent.engine.supervisor._STOP_SECONDS", 0.01)
    released = asyncio.Event()
    runs = 0

    async def ignore() -> None:
        nonlocal runs
        runs += 1
        await it.sleep(0)
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    it = unit(ignore, "qos/Ignorer", round_timeout=0.01, sleep=soon)
    async with Supervised(it):
        await until(lambda: runs >= 2)
        released.set()
    assert failures("qos/Ignorer", "hung") >= 1


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)
@pytest.mark.parametrize("kind", ["computes", "waits"])
async def test_code_that_blocks_the_event_loop_is_interrupted_and_named(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = 0

    async def block() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            end = time.monotonic() + PATIENCE
            while kind == "computes" and time.monotonic() < end:
                pass
            time.sleep(PATIENCE)  # noqa: ASYNC251
        await it.sleep(0)
        await asyncio.Event().wait()

    it = unit(block, f"qos/Blocker-{kind}", sleep=soon)
    watchdog = Watchdog(warn_seconds=0.2, interrupt_seconds=0.4, check_seconds=0.05)
    began = time.monotonic()
    async with Supervised(it, watchdog=watchdog):
        await until(lambda: it.rounds == 1)
    assert time.monotonic() - began < PATIENCE
    assert failures(it.name, "blocked") == 1
    assert f"blocked for 0 s by {it.name}" in caplog.text


async def test_a_blocked_loop_without_a_plugin_is_logged_and_not_interrupted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog = Watchdog(warn_seconds=0.05, interrupt_seconds=0.1, check_seconds=0.02)
    async with Supervised(watchdog=watchdog):
        await asyncio.sleep(0.01)
        end = time.monotonic() + PATIENCE
        while "by no plugin" not in caplog.text and time.monotonic() < end:
            time.sleep(0.01)  # noqa: ASYNC251
    assert "by no plugin" in caplog.text
