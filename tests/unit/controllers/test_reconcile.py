import asyncio
import random
from datetime import UTC, datetime

import pytest

from koordpy.cluster.errors import Conflict, NotFound, TooManyRequests
from koordpy.controllers.queue import WorkQueue
from koordpy.controllers.reconcile import ReconcileError, reconcile_forever, reconcile_once, retried
from koordpy.lib.clock import FakeClock, SystemClock
from tests.eventually import PATIENCE


def refusal(type_: type[Exception]) -> Exception:
    return type_("PATCH", "/x", 409, "Reason", "message", {}, None)


async def test_a_failed_key_is_tried_again_later_and_a_good_one_forgotten() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    queue = WorkQueue("q", clock)

    async def fails(_: str) -> None:
        raise ReconcileError("not now")

    async def works(_: str) -> float:
        return 30.0

    await reconcile_once(queue, "a", fails)
    assert queue.failures("a") == 1
    assert queue.pop() is None
    clock.advance(0.005)
    assert queue.pop() == "a"
    await reconcile_once(queue, "a", works)
    queue.done("a")
    assert queue.failures("a") == 0
    clock.advance(29.9)
    assert queue.pop() is None
    clock.advance(0.1)
    assert queue.pop() == "a"


async def test_an_expected_failure_is_one_line_and_a_bug_shows_where(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = WorkQueue("q", SystemClock())

    async def raises(key: str) -> None:
        raise ReconcileError("not now") if key == "expected" else ZeroDivisionError("bug")

    await reconcile_once(queue, "expected", raises)
    await reconcile_once(queue, "bug", raises)
    assert [bool(record.exc_info) for record in caplog.records] == [False, True]
    assert caplog.messages[0] == "q: reconcile of expected failed: not now"


async def test_keys_are_worked_on_by_several_at_a_time_but_never_the_same() -> None:
    queue = WorkQueue("q", SystemClock())
    at_work: list[str] = []
    most = 0
    seen: set[str] = set()

    async def reconcile(key: str) -> None:
        nonlocal most
        assert key not in at_work
        at_work.append(key)
        most = max(most, len(at_work))
        queue.add(key) if key not in seen else None
        seen.add(key)
        await asyncio.sleep(0)
        at_work.remove(key)

    for key in "abcdef":
        queue.add(key)
    running = asyncio.create_task(reconcile_forever(queue, reconcile, workers=3))
    async with asyncio.timeout(PATIENCE):
        while len(seen) < 6 or len(queue) or at_work:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert most == 3


async def test_writes_are_repeated_on_conflict_and_429_with_growing_pauses() -> None:
    pauses: list[float] = []
    answers = [refusal(Conflict), refusal(TooManyRequests), refusal(Conflict)]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def write() -> str:
        if answers:
            raise answers.pop(0)
        return "done"

    assert await retried(write, rng=random.Random(1), sleep=sleep) == "done"
    for pause, base in zip(pauses, (0.01, 0.05, 0.25), strict=True):
        assert base <= pause <= base * 1.1


@pytest.mark.parametrize(("error", "tries"), [(Conflict, 4), (NotFound, 1)])
async def test_the_last_refusal_is_raised(error: type[Exception], tries: int) -> None:
    made = 0

    async def sleep(_: float) -> None:
        return

    async def write() -> None:
        nonlocal made
        made += 1
        raise refusal(error)

    with pytest.raises(error):
        await retried(write, rng=random.Random(1), sleep=sleep)
    assert made == tries


async def test_keys_that_need_no_io_leave_others_their_turn() -> None:
    queue = WorkQueue("endless", SystemClock())
    done = 0

    async def reconcile(key: str) -> None:
        nonlocal done
        done += 1
        queue.add(key)

    queue.add("a")
    running = asyncio.create_task(reconcile_forever(queue, reconcile))
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert done > 1
