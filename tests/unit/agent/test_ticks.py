import asyncio
from collections.abc import Callable
from typing import Any

from koordpy.agent.engine.ticks import SECONDS, Ticks


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time is set, and whose timers end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.timers: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        self.timers.append((when, callback, args))
        return None

    async def pass_time(self) -> None:
        """Let the next timer end, and run what waits for it."""
        self.timers.sort(key=lambda timer: timer[0])
        self.now, callback, args = self.timers.pop(0)
        callback(*args)
        for _ in range(5):
            await asyncio.sleep(0)


def run(test: Callable[[Loop, Ticks], Any]) -> None:
    loop = Loop()
    try:
        loop.run_until_complete(test(loop, Ticks()))
    finally:
        loop.close()


async def started(coroutine: Any) -> "asyncio.Task[Any]":
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    return task


def test_sleeps_that_end_at_one_tick_are_one_timer_and_wake_in_order():
    async def test(loop: Loop, ticks: Ticks) -> None:
        woken = []

        async def sleep(name: str) -> None:
            await ticks.sleep(1)
            woken.append(name)

        for name, at in (("a", 100.0), ("b", 100.01), ("c", 100.2)):
            loop.now = at
            await started(sleep(name))
        assert [when for when, _, _ in loop.timers] == [101.0]
        await loop.pass_time()
        assert woken == ["a", "b", "c"]

    run(test)


def test_rounds_that_take_time_do_not_drift():
    async def test(loop: Loop, ticks: Ticks) -> None:
        began = []

        async def rounds() -> None:
            while True:
                began.append(loop.now)
                loop.now += 0.1
                await ticks.sleep(2)

        task = await started(rounds())
        for _ in range(4):
            await loop.pass_time()
        assert began == [100.0, 102.0, 104.0, 106.0, 108.0]
        task.cancel()

    run(test)


def test_a_sleep_ends_at_most_half_a_tick_from_its_time():
    async def test(loop: Loop, ticks: Ticks) -> None:
        for offset in range(10):
            loop.now = 100 + offset / 10
            task = await started(ticks.sleep(1))
            (when, _, _) = loop.timers.pop()
            assert abs(when - (loop.now + 1)) <= SECONDS / 2 + 1e-9
            assert when % SECONDS == 0
            task.cancel()
            ticks = Ticks()

    run(test)


def test_who_is_cancelled_does_not_wake_and_the_others_do():
    async def test(loop: Loop, ticks: Ticks) -> None:
        gone, left = await started(ticks.sleep(3)), await started(ticks.sleep(3))
        gone.cancel()
        await loop.pass_time()
        assert gone.cancelled()
        assert left.done()
        assert left.result() is None

    run(test)


async def test_short_sleeps_are_not_made_longer():
    loop = asyncio.get_running_loop()
    ticks = Ticks()
    await ticks.sleep(0)
    await asyncio.wait_for(ticks.sleep(0.001), 60)
    assert not ticks._sleeping
    assert loop.is_running()
