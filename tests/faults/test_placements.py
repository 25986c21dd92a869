"""No failure on a pod's way to its node leaks state, in any of the four components that place pods.

Plugins reject, fail, raise and hang at every step; the API server rejects, answers too late or not at all;
callers disconnect, pods are deleted, rejected, allowed and filtered again, tasks are cancelled. While nothing
is in progress every allocation belongs to a bound pod; once there are no more faults, every remaining pod
gets its node.

`KOORDPY_STATE_EXAMPLES=500` tries more examples than `make test`.
"""

import asyncio
import os
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from koordpy.embedded.apiserver import Fault
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from tests.audited import assert_clean
from tests.faults.placing import (
    LABEL,
    Extending,
    First,
    Placing,
    Plan,
    Reserving,
    Standing,
    Taker,
    WithTestKit,
)

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
EXAMPLES = int(os.environ.get("KOORDPY_STATE_EXAMPLES", "0"))
NAMES = ("p0", "p1", "p2")
QUIET = 60.0
"""Seconds after which no attempt is in progress, if none starts."""

FAULTS = (
    Fault(status=409),
    Fault(status=409, after=True),
    Fault(status=403),
    Fault(status=500),
    Fault(status=500, after=True),
    Fault(cut=True),
    Fault(cut=True, after=True),
    Fault(delay=2.0),
)

plans = st.builds(
    Plan,
    plugin=st.sampled_from(["Reservation", "Second"]),
    point=st.sampled_from(["", "nominate", "resize", "reserve", "permit", "pre_bind", "bind", "unreserve"]),
    how=st.sampled_from(["rejects", "breaks", "raises", "hangs"]),
    waits=st.booleans(),
    labels=st.booleans(),
)
interruptions = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.0, 0.5, 3.0, 12.0]),
        st.sampled_from(["allow", "allow", "reject", "cancel", "delete", "filter", "hang up"]),
        st.integers(0, len(NAMES) - 1),
    ),
    max_size=5,
)
explored = settings(
    max_examples=EXAMPLES or 60,
    deadline=None,
    derandomize=not EXAMPLES,
    phases=list(Phase) if EXAMPLES else [Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


async def story(
    placing: Placing,
    chosen: list[Plan],
    events: list[tuple[float, str, int]],
    faults: list[Fault],
) -> None:
    Taker.plans = dict(zip(NAMES, chosen, strict=False))
    First.is_closed = False
    await placing.start()
    placing.fail_writes(faults)
    names = NAMES[: len(chosen)]
    for name in names:
        await placing.add(name)
    await asyncio.sleep(0.05)
    for name in names:
        await placing.attempt(name)
    was_cancelled = False
    for seconds, what, number in events:
        await asyncio.sleep(seconds)
        was_cancelled |= what == "cancel"
        await placing.interrupt(what, names[number % len(names)])
    First.is_closed = True
    await asyncio.sleep(QUIET)
    live = await placing.live()
    assert placing.leftovers(live) == []
    if not was_cancelled:
        assert not [uid for uid, (node, labels) in live.items() if LABEL in labels and not node]
    Taker.plans, First.is_closed = {}, False
    placing.weather.clear_up()
    for name in names:
        node, _ = live.get(placing.uid(name), ("gone", {}))
        if not node:
            await placing.attempt(name)
    await asyncio.sleep(2 * QUIET + 300.0)
    live = await placing.live()
    assert [uid for uid, (node, _) in live.items() if not node] == []
    assert placing.leftovers(live) == []
    assert_clean(placing.server)
    await placing.stop()


@pytest.mark.parametrize("kind", [Extending, Reserving, Standing, WithTestKit])
@explored
@given(
    chosen=st.lists(plans, min_size=1, max_size=len(NAMES)),
    events=interruptions,
    faults=st.lists(st.sampled_from(FAULTS), max_size=4),
)
def test_nothing_is_leaked(
    kind: type[Placing],
    chosen: list[Plan],
    events: list[tuple[float, str, int]],
    faults: list[Fault],
) -> None:
    loop = SimulatedLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(story(kind(SimulatedClock(loop, START)), chosen, events, faults))
