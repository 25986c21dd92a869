"""Informers on servers that lose, repeat, cut, reject and garble: only the final state counts."""

import asyncio
import json

import pytest
from prometheus_client import REGISTRY

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informer import State
from koordpy.cluster.informers import Informers
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.servers.collection import Collection, pod, status
from tests.servers.informing import following


async def test_changes_missed_by_a_lost_watch_are_delivered_once_after_410() -> None:
    async with Collection() as server:
        for name in ("kept", "changed", "deleted", "replaced"):
            server.put(pod(name))
        async with following(server) as it:
            await server.watched()
            it.changes.clear()
            server.put(pod("changed", node="n1"), silently=True)
            server.remove("deleted", silently=True)
            server.remove("replaced", silently=True)
            server.put(pod("replaced", uid="another"), silently=True)
            server.put(pod("new"), silently=True)
            server.forget_history()
            server.close_watches()
            await it.has("kept", "changed", "replaced", "new")
            await server.watched()
    assert sorted(it.changes) == [
        "add new",
        "add replaced",
        "delete deleted",
        "delete replaced",
        "update changed",
    ]
    assert it.changes.index("delete replaced") < it.changes.index("add replaced")


async def test_410_as_an_event_causes_a_relist() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        server.put(pod("missed"), silently=True)
        server.send(b'{"type":"ERROR","object":' + status(410, "Expired") + b"}\n")
        await it.has("missed")


async def test_events_right_before_an_error_event_count() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        document = pod("a")
        document["metadata"]["resourceVersion"] = "900"
        added = json.dumps({"type": "ADDED", "object": document}).encode()
        server.send(added + b'\n{"type":"ERROR","object":' + status(500, "InternalError") + b"}\n")
        await it.has("a")
        await it.until(lambda: any("resourceVersion=900" in r.target for r in server.requests))


async def test_a_relist_of_known_objects_delivers_nothing() -> None:
    async with Collection() as server, following(server, page_size=10) as it:
        server.put(pod("a"))
        await server.watched()
        await it.has("a")
        server.send(b'{"type":"ERROR","object":' + status(410, "Expired") + b"}\n")
        await it.until(lambda: len(list(server.requests_of(watch=False))) == 2)
        await server.watched(2)
        server.put(pod("b"))
        await it.has("a", "b")
        assert all(request.target.endswith("limit=10") for request in server.requests_of(watch=False))
    assert it.changes == ["add a", "add b"]


@pytest.mark.parametrize("ends", ["quietly", "after an event"])
@pytest.mark.parametrize(("refused", "lists"), [(2, 1), (3, 2)])
async def test_after_three_watch_failures_in_a_row_a_list_follows(
    refused: int, lists: int, ends: str
) -> None:
    async with Collection() as server, following(server) as it:
        for round_ in range(1, 4):
            await server.watched()
            if ends == "after an event":
                server.put(pod(f"p{round_}"))
                await it.until(lambda round_=round_: len(it.store) == round_)  # type: ignore[misc]
            server.refusals.extend([(500, status(500, "InternalError"), "")] * refused)
            if ends == "quietly":
                server.close_watches()
            else:
                server.cut_all()
                server.fall_silent()  # of what was cut
            await it.until(lambda: not server.refusals and not server.watches)
            await server.watched()
            assert len(list(server.requests_of(watch=False))) == 1 + round_ * (lists - 1)


async def test_pauses_grow_to_half_a_minute_and_differ_by_seed() -> None:
    sequences = []
    for _ in range(2):
        async with Collection() as server:
            server.refusals.extend([(500, status(500, "InternalError"), "")] * 40)
            async with following(server) as it:
                await it.until(lambda it=it: len(it.pauses) >= 40)  # type: ignore[misc]
        sequences.append(it.pauses[:40])
        assert it.pauses[0] <= 0.2
        assert 15 <= max(it.pauses) <= 30
    assert sequences[0] == sequences[1]


async def test_410_between_pages_starts_the_list_again() -> None:
    async with Collection() as server:
        for i in range(25):
            server.put(pod(f"p{i}"))
        server.expire_continue = 2
        async with following(server, page_size=10) as it:
            await it.synced()
            assert len(it.store) == 25
            await server.watched()
            server.forget_history()
            server.close_watches()
            await it.until(lambda: it.store.lists_ended == 4)
        sizes = [request.target.partition("limit=")[2] for request in server.requests_of(watch=False)]
        # Larger pages until a list comes to its end; the next one has small pages again.
        assert [size for size in sizes if "continue" not in size] == ["10", "20", "40", "10"]
        assert sorted(it.changes) == sorted(f"add p{i}" for i in range(25))


async def test_repeated_and_old_events_are_ignored() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        old = server.put(pod("a"))
        new = server.put(pod("a", node="n1"))
        server.send_event("MODIFIED", new)
        server.send_event("MODIFIED", old)
        server.send_event("ADDED", old)
        server.remove("a")
        server.send_event("MODIFIED", new)  # does not restore it
        server.put(pod("last"))
        await it.has("last")
    assert it.changes == ["add a", "update a", "delete a", "add last"]


async def test_late_events_of_a_former_object_do_not_affect_its_successor() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        first = server.put(pod("a", uid="first"))
        server.put(pod("a", uid="second"))
        server.send_event("DELETED", first)
        server.send_event("MODIFIED", first)
        server.put(pod("last"))
        await it.has("a", "last")
    assert it.changes == ["add a", "delete a", "add a", "add last"]


async def test_cut_connections_lose_nothing() -> None:
    async with Collection() as server, following(server) as it:
        for i in range(10):
            await server.watched()
            server.put(pod(f"p{i}"))
            server.cut_all()
            await it.until(lambda i=i: len(it.store) == i + 1)  # type: ignore[misc]
    assert it.changes == [f"add p{i}" for i in range(10)]


async def test_event_cut_in_the_middle_is_read_whole_from_the_next_watch() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        document = server.put(pod("a"), silently=True)
        server.history.append((server.version, "ADDED", document))
        server.send(json.dumps({"type": "ADDED", "object": document}).encode()[:50])
        await asyncio.sleep(0.01)
        server.cut_all()
        await it.has("a")
    assert it.changes == ["add a"]


async def test_event_in_many_pieces_is_one_event() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        document = pod("a")
        document["metadata"]["resourceVersion"] = "900"
        for byte in json.dumps({"type": "ADDED", "object": document}).encode() + b"\n":
            server.send(bytes([byte]))
        await it.has("a")


async def test_watch_of_a_silent_server_is_closed_and_reopened() -> None:
    async with Collection() as server, following(server, silence=0.05) as it:
        await server.watched()
        server.fall_silent()
        server.put(pod("a"))
        await it.has("a")


async def test_informers_leave_a_silent_server_after_the_given_time() -> None:
    async with Collection() as server:
        cluster = Cluster()
        pods = cluster.store(Pod)
        client = Client(Connection.to(Access(server.url)))
        async with Informers(cluster, client, silence=0.05):
            await server.watched()
            server.fall_silent()
            server.put(pod("a"))
            async with asyncio.timeout(PATIENCE):
                while pods.get("default", "a") is None:
                    await asyncio.sleep(0.001)
        await client.close()


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
async def test_busy_server_is_retried_until_it_answers(code: int) -> None:
    async with Collection() as server:
        server.put(pod("a"))
        server.refusals.extend([(code, status(code, "Busy"), "")] * 3)
        async with following(server) as it:
            await it.until(lambda: bool(it.informer.error))
            assert str(code) in it.informer.health.error
            assert it.informer.state is State.FAILING
            await it.has("a")
            await it.until(lambda: it.informer.state is State.WATCHING)
            assert it.informer.health.error == ""
            assert it.pauses == sorted(it.pauses)


async def test_retry_after_of_a_refused_list_is_waited_for() -> None:
    async with Collection() as server:
        server.refusals.append((429, status(429, "TooManyRequests"), "retry-after: 7\r\n"))
        async with following(server) as it:
            await it.synced()
            assert it.pauses[0] > 7


@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
async def test_refused_credentials_show_in_health(code: int, reason: str) -> None:
    async with Collection() as server:
        server.refusals.extend([(code, status(code, reason, "pods is forbidden"), "")] * 500)
        async with following(server) as it:
            await it.until(lambda: it.informer.state is State.DENIED)
            health = it.informer.health
            assert not health.synced
            assert "pods is forbidden" in health.error
            server.refusals.clear()
            await it.synced()


@pytest.mark.parametrize("optional", [True, False])
async def test_type_that_is_not_installed_is_synced_only_if_it_is_optional(optional: bool) -> None:
    async with Collection() as server:
        server.put(pod("a"))
        path, server.path = server.path, "/elsewhere"
        options = {"optional": True} if optional else {}
        async with following(server, **options) as it:
            await it.until(lambda: it.informer.state is State.ABSENT)
            assert it.store.synced is optional
            assert it.informer.health.resource_version == ""
            server.path = path
            await it.has("a")


async def test_objects_go_when_their_type_is_uninstalled() -> None:
    async with Collection() as server:
        server.put(pod("a"))
        async with following(server, optional=True) as it:
            await server.watched()
            server.path = "/elsewhere"
            server.close_watches()
            await it.has()
    assert it.changes == ["add a", "delete a"]


async def test_malformed_object_is_skipped_wherever_it_comes() -> None:
    async with Collection() as server:
        server.put(pod("before"))
        server.put({**pod("broken"), "spec": "text"})
        async with following(server) as it:
            await it.synced()
            await server.watched()
            server.put({**pod("before"), "spec": {"containers": 5}})
            server.put(pod("after"))
            await it.has("before", "after")
            assert it.informer.health.malformed == 2


async def test_object_that_became_unreadable_stays_as_it_was_known() -> None:
    async with Collection() as server:
        server.put(pod("a", node="n1"))
        async with following(server) as it:
            await server.watched()
            server.put({**pod("a"), "spec": 5}, silently=True)
            server.forget_history()
            server.close_watches()
            await it.until(lambda: it.informer.malformed == 1)
            await server.watched()
            known = it.store.get("default", "a")
    assert known is not None
    assert known.spec.node_name == "n1"


async def test_garbage_in_a_watch_causes_a_relist() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        server.put(pod("missed"), silently=True)
        server.send(b"<html>gateway timeout</html>\n")
        await it.has("missed")


async def test_event_of_an_unknown_type_is_skipped() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        document = pod("a")
        document["metadata"]["resourceVersion"] = "900"
        events = [{"type": kind, "object": document} for kind in ("RENAMED", "ADDED")]
        server.send(b"".join(json.dumps(event).encode() + b"\n" for event in events))
        await it.has("a")
    assert it.changes == ["add a"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [(401, "denied"), (403, "denied"), (404, "absent"), (410, "gone"), (500, "ServerError")],
)
async def test_failures_are_counted_by_their_reason_and_logged_once(
    caplog: pytest.LogCaptureFixture, code: int, reason: str
) -> None:
    def count() -> float:
        labels = {"kind": "Pod", "reason": reason}
        return REGISTRY.get_sample_value("koordpy_informer_failures_total", labels) or 0.0

    before = count()
    async with Collection() as server:
        server.refusals.extend([(code, status(code, "Refused", "not now"), "")] * 3)
        with caplog.at_level("INFO", "koordpy.cluster.informer"):
            async with following(server) as it:
                await it.synced()
    assert count() - before == 3
    assert [record.getMessage().endswith("not now") for record in caplog.records] == [True]


async def test_object_with_nulls_is_read() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        server.put(
            {"metadata": {"name": "a", "namespace": "default", "labels": None}, "spec": {"containers": None}}
        )
        await it.has("a")
        assert it.informer.malformed == 0


@pytest.mark.parametrize("known_from", ["list", "watch"])
async def test_restored_server_that_is_older_than_the_store_wins(known_from: str) -> None:
    async with Collection() as server:
        if known_from == "list":
            server.version = 10_000
            server.put(pod("a", node="late"))
        async with following(server) as it:
            await server.watched()
            if known_from == "watch":
                server.version = 10_000
                server.put(pod("a", node="late"))
            await it.has("a")
            server.version = 200
            server.documents.clear()
            server.history.clear()
            server.put(pod("a", node="early"), silently=True)
            too_large = status(504, "Timeout", "Too large resource version: 10001, current: 201")
            server.refusals.extend([(504, too_large, "")] * 3)
            server.close_watches()
            await it.until(lambda: all(p.spec.node_name == "early" for p in it.store))
            server.put(pod("b"))
            await it.has("a", "b")


async def test_versions_that_are_no_numbers_are_followed_as_they_come() -> None:
    async with Collection(prefix="v") as server:
        server.put(pod("a"))
        async with following(server) as it:
            await server.watched()
            server.put(pod("b"))
            await it.has("a", "b")
            server.forget_history()
            server.close_watches()
            await it.until(lambda: len(list(server.requests_of(watch=False))) == 2)
            await server.watched()
            server.put(pod("c"))
            await it.has("a", "b", "c")
            server.send_event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "17"}})
            await it.until(lambda: it.informer.resource_version == "17")
            changed = server.put(pod("a", node="n1"))
            await it.until(lambda: it.informer.resource_version == changed["metadata"]["resourceVersion"])
            changed["metadata"]["resourceVersion"] = "18"
            server.send_event("MODIFIED", changed)
            await it.until(lambda: it.informer.resource_version == "18")
    assert it.changes == ["add a", "add b", "add c", "update a", "update a"]


async def test_server_that_closes_watches_at_once_is_retried_with_backoff() -> None:
    async with Collection() as server, following(server) as it:
        for i in range(5):
            await it.until(lambda i=i: len(list(server.requests_of(watch=True))) > i)  # type: ignore[misc]
            server.close_watches()
        await it.until(lambda: len(it.pauses) >= 5)
    assert it.pauses[4] > 4 * it.pauses[0]


async def test_server_that_starts_late_is_found() -> None:
    server = Collection()
    server.port = free_port()
    server.put(pod("a"))
    async with following(server) as it:
        await it.until(lambda: it.informer.state is State.FAILING)
        assert "127.0.0.1" in it.informer.error
        async with server:
            await it.has("a")
