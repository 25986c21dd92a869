"""What the event recorder writes, and what it drops."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.meta import ObjectMeta
from koordpy.cluster import events
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.events import NORMAL, WARNING, Recorder, truncate
from koordpy.lib.clock import FakeClock
from tests.servers.collection import status
from tests.servers.raw import Exchange, RawServer

POD = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", resource_version="7"))


class Recording:
    """A recorder, its clock, and its writes."""

    def __init__(self, server: RawServer, core: bool = False) -> None:
        self.server = server
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.client = Client(Connection.to(Access(server.url)), attempts=1)
        self.recorder = Recorder(self.client, instance="me", clock=self.clock, core=core)

    async def written(self) -> list[tuple[str, dict[str, Any]]]:
        """Flush, and return the requests of this flush."""
        before = len(self.server.requests)
        await self.recorder.flush()
        return [(r.method, json.loads(r.body)) for r in self.server.requests[before:]]


@asynccontextmanager
async def recording(code: int = 201, *, core: bool = False) -> AsyncIterator[Recording]:
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(code, exchange.request.body if code < 300 else status(code, "No"))

    async with RawServer(answer) as server:
        it = Recording(server, core)
        yield it
        await it.client.close()


def dropped(cause: str) -> float:
    return events.DROPPED.labels(cause)._value.get()


async def test_event_names_object_reporter_and_reason() -> None:
    async with recording() as it:
        it.recorder.event(POD, WARNING, "FailedScheduling", "no node", action="Scheduling", related=Node())
        [(method, event)] = await it.written()
    assert method == "POST"
    assert it.server.requests[0].target == "/apis/events.k8s.io/v1/namespaces/ns/events?fieldManager=koordpy"
    name = event["metadata"].pop("name")
    assert name.startswith("p.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "koordpy",
        "reportingInstance": "me",
        "action": "Scheduling",
        "reason": "FailedScheduling",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "ns",
            "name": "p",
            "uid": "u",
            "resourceVersion": "7",
        },
        "related": {"apiVersion": "v1", "kind": "Node"},
        "note": "no node",
        "type": "Warning",
    }


async def test_core_event_has_its_times_and_its_count() -> None:
    async with recording(core=True) as it:
        it.recorder.event(POD, NORMAL, "Started", "Started container web")
        [(method, event)] = await it.written()
        assert method == "POST"
        assert it.server.requests[0].target == "/api/v1/namespaces/ns/events?fieldManager=koordpy"
        assert event["metadata"].pop("name").startswith("p.")
        assert event == {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": "ns"},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "ns",
                "name": "p",
                "uid": "u",
                "resourceVersion": "7",
            },
            "reason": "Started",
            "message": "Started container web",
            "type": "Normal",
            "source": {"component": "koordpy"},
            "reportingComponent": "koordpy",
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
        }
        for count in (2, 3):
            it.clock.advance(60)
            it.recorder.event(POD, NORMAL, "Started", "Started container web")
            [(method, patch)] = await it.written()
            assert method == "PATCH"
            assert patch == {"count": count, "lastTimestamp": f"2026-01-01T00:0{count - 1}:00Z"}


async def test_repetitions_of_a_core_event_are_muted_as_other_events_are() -> None:
    async with recording(core=True) as it:
        writes = 0
        for _ in range(100):
            it.recorder.event(POD, WARNING, "BackOff", "restarting failed container")
            writes += len(await it.written())
        assert writes < 30
        it.clock.advance(361)
        [(_, patch)] = await it.written()
        assert patch["count"] == 100


async def test_event_about_a_cluster_scoped_object_is_in_the_default_namespace() -> None:
    async with recording() as it:
        it.recorder.event(Node(metadata=ObjectMeta(name="n")), NORMAL, "R", "note")
        [(_, event)] = await it.written()
    assert event["metadata"]["namespace"] == "default"
    assert event["action"] == "R"


async def test_repetitions_become_a_series_that_is_written_seldom() -> None:
    async with recording() as it:
        it.recorder.event(POD, NORMAL, "R", "first")
        assert [method for method, _ in await it.written()] == ["POST"]
        for _ in range(10):
            it.clock.advance(60)
            it.recorder.event(POD, NORMAL, "R", "again")
        [(method, patch)] = await it.written()
        assert (method, patch["series"]["count"]) == ("PATCH", 11)
        it.clock.advance(60)
        it.recorder.event(POD, NORMAL, "R", "again")
        assert await it.written() == []
        it.clock.advance(360)
        [(method, patch)] = await it.written()
        assert patch["series"] == {"count": 12, "lastObservedTime": "2026-01-01T00:11:00.000000Z"}
        it.recorder.event(POD, NORMAL, "R", "anew")
        assert [method for method, _ in await it.written()] == ["POST"]


async def test_long_series_is_written_every_half_hour() -> None:
    async with recording() as it:
        it.recorder.event(POD, NORMAL, "R", "x")
        writes = 0
        for _ in range(120):
            it.clock.advance(60)
            it.recorder.event(POD, NORMAL, "R", "x")
            writes += len(await it.written())
    assert writes == 4, "at minutes 1, 31, 61 and 91"


async def test_repetitions_before_the_first_write_are_one_request() -> None:
    async with recording() as it:
        for _ in range(5):
            it.recorder.event(POD, NORMAL, "R", "x")
        [(method, event)] = await it.written()
    assert (method, event["series"]["count"]) == ("POST", 5)


async def test_different_reasons_and_objects_are_different_events() -> None:
    async with recording() as it:
        it.recorder.event(POD, NORMAL, "A", "x")
        it.recorder.event(POD, NORMAL, "B", "x")
        it.recorder.event(Pod(metadata=ObjectMeta(name="q", namespace="ns")), NORMAL, "A", "x")
        assert len(await it.written()) == 3


async def test_object_with_too_many_events_is_muted_for_a_while() -> None:
    before = dropped("rate")
    async with recording() as it:
        for i in range(30):
            it.recorder.event(POD, NORMAL, f"R{i}", "x")
        assert len(await it.written()) == 25
        assert dropped("rate") - before == 5
        it.recorder.event(Pod(metadata=ObjectMeta(name="q", namespace="ns")), NORMAL, "R", "x")
        assert len(await it.written()) == 1
        it.clock.advance(301)
        it.recorder.event(POD, NORMAL, "Later", "x")
        assert len(await it.written()) == 1


async def test_full_queue_drops_instead_of_waiting() -> None:
    before = dropped("queue")
    async with recording() as it:
        for i in range(events.QUEUE + 7):
            it.recorder.event(Pod(metadata=ObjectMeta(name=f"p{i}", namespace="ns")), NORMAL, "R", "x")
    assert dropped("queue") - before == 7


async def test_refused_event_is_dropped_and_counted() -> None:
    before = dropped("failed")
    async with recording(403) as it:
        it.recorder.event(POD, NORMAL, "R", "x")
        assert len(await it.written()) == 1
        assert await it.written() == []
    assert dropped("failed") - before == 1


def test_long_note_is_cut_at_a_character() -> None:
    assert truncate("short") == "short"
    cut = truncate("ü" * 1000)
    assert len(cut.encode()) <= 1024
    assert cut.endswith("ü...")
