"""Readers of decisions receive attempts that have progressed, and are dropped when they fall behind."""

import asyncio

import pytest

from koordpy.scheduling.explain.decision_stream import (
    MOST_BEHIND,
    MOST_STREAMS,
    DecisionStreams,
    TooManyStreams,
)
from koordpy.scheduling.explain.decisions import Decision, Decisions
from koordpy.scheduling.interface.status import Status
from tests.unit.scheduling.worlds import NOW, pod


def begun(decisions: Decisions, name: str) -> Decision:
    decision = Decision(pod(name), "default-scheduler", NOW, {})
    decisions.begin(decision)
    return decision


async def test_quick_steps_are_merged() -> None:
    decisions = Decisions()
    stream = DecisionStreams(decisions).open()
    first, second = begun(decisions, "a"), begun(decisions, "b")
    first.become("binding", "n1")
    second.fail("unschedulable", Status.unschedulable("full"))
    first.become("bound")
    news = await stream.take(5)
    assert [(one.pod.metadata.name, one.result, one.node) for one in news] == [
        ("b", "unschedulable", ""),
        ("a", "bound", "n1"),
    ]


async def test_an_attempt_that_has_only_begun_is_not_reported() -> None:
    decisions = Decisions()
    stream = DecisionStreams(decisions).open()
    begun(decisions, "a")
    assert await stream.take(0.01) == ()


async def test_a_reader_that_falls_behind_is_dropped_without_blocking() -> None:
    decisions = Decisions()
    stream = DecisionStreams(decisions).open()
    for number in range(MOST_BEHIND + 5):
        begun(decisions, f"p{number}").become("bound", "n")
    assert stream.is_behind
    assert stream.is_closed
    assert await stream.take(5) == []


async def test_a_reader_that_waits_is_woken_when_the_process_stops() -> None:
    streams = DecisionStreams(Decisions())
    stream = streams.open()
    waiting = asyncio.ensure_future(stream.take(60))
    await asyncio.sleep(0)
    streams.close()
    assert await waiting == []
    assert stream.is_closed
    assert not stream.is_behind
    assert len(streams) == 0


def test_the_number_of_readers_is_limited_and_a_leaving_one_frees_its_place() -> None:
    streams = DecisionStreams(Decisions())
    opened = [streams.open() for _ in range(MOST_STREAMS)]
    with pytest.raises(TooManyStreams):
        streams.open()
    streams.end(opened[0])
    streams.open()


def test_decisions_are_selected_before_the_limit_applies() -> None:
    decisions = Decisions()
    for number in range(5):
        begun(decisions, f"p{number}").become("bound" if number % 2 else "failed", "n")
    found = decisions.recent(2, lambda decision: decision.result == "failed")
    assert [one.pod for one in found] == ["p4", "p2"]
