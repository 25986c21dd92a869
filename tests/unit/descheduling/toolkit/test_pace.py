import asyncio
from datetime import UTC, datetime

from koordpy.descheduling.toolkit.pace import MAX_SECONDS, Pace
from koordpy.lib.clock import FakeClock


async def test_others_run_after_a_few_milliseconds_and_not_before() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    pace = Pace(clock)
    ran: list[float] = []
    asyncio.get_running_loop().call_soon(lambda: ran.append(clock.monotonic()))
    await pace.keep()
    assert ran == []
    clock.advance(MAX_SECONDS)
    await pace.keep()
    assert ran == [MAX_SECONDS]
