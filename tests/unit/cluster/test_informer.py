"""An informer on a well-behaved server."""

import asyncio

from prometheus_client import REGISTRY

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informer import Health, Informer, State
from koordpy.cluster.selector import Selector
from koordpy.cluster.store import Store
from tests.servers.collection import Collection, pod
from tests.servers.informing import following


async def test_store_has_what_was_listed_and_then_what_is_watched() -> None:
    async with Collection() as server:
        server.put(pod("a"))
        async with following(server) as it:
            await it.synced()
            await server.watched()
            server.put(pod("b"))
            server.put(pod("a", node="n1"))
            await it.until(lambda: len(it.changes) == 3)
            server.remove("b")
            await it.has("a")
    assert it.changes == ["add a", "add b", "update a", "delete b"]
    stored = it.store.get("default", "a")
    assert stored is not None
    assert stored.spec.node_name == "n1"


async def test_long_list_is_read_in_pages() -> None:
    async with Collection() as server:
        for i in range(25):
            server.put(pod(f"p{i}"))
        async with following(server, page_size=10) as it:
            await it.synced()
            assert len(it.store) == 25
    assert [r.target.rpartition("=")[2] for r in server.requests_of(watch=False)] == ["10", "10", "20"]


async def test_watch_goes_on_where_it_was_closed() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        server.put(pod("a"))
        await it.has("a")
        server.close_watches()
        server.put(pod("b"))
        await it.has("a", "b")
        assert len(list(server.requests_of(watch=False))) == 1
        assert it.changes == ["add a", "add b"]
        assert it.pauses == []  # as it had brought something


async def test_bookmark_moves_the_place_where_a_watch_goes_on() -> None:
    async with Collection() as server, following(server) as it:
        await server.watched()
        server.send_event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "5000"}})
        await it.until(lambda: it.informer.resource_version == "5000")
        server.close_watches()
        await it.until(lambda: any("resourceVersion=5000" in r.target for r in server.requests))
        assert it.changes == []


async def test_selectors_and_bookmarks_are_requested() -> None:
    selector = Selector(namespace="", labels="a=b", fields="spec.nodeName=n1")
    async with Collection() as server, following(server, selector=selector):
        await server.watched()
        for request in server.requests:
            assert "labelSelector=a%3Db" in request.target
            assert "fieldSelector=spec.nodeName%3Dn1" in request.target
        assert "allowWatchBookmarks=true" in server.requests[-1].target
        seconds = int(server.requests[-1].target.partition("timeoutSeconds=")[2].partition("&")[0])
        assert 300 <= seconds <= 600


async def test_health_tells_state_and_size() -> None:
    async with Collection() as server:
        server.put(pod("a"))
        async with following(server) as it:
            assert not it.informer.health.synced
            await server.watched()
            await it.until(lambda: it.informer.state is State.WATCHING)
            health = it.informer.health
        assert (health.kind, health.synced, health.error, health.objects) == ("Pod", True, "", 1)
        assert it.informer.state is State.STOPPED


async def test_store_knows_which_list_it_shows() -> None:
    async with Collection() as server, following(server) as it:
        await it.synced()
        await server.watched()
        assert (it.store.lists_begun, it.store.lists_ended) == (1, 1)
        begun = []
        it.store.subscribe(lambda _: begun.append((it.store.lists_begun, it.store.lists_ended)))
        server.put(pod("a"), silently=True)
        server.forget_history()
        server.close_watches()
        await it.has("a")
        await it.until(lambda: it.store.lists_ended == 2)
    assert begun == [(2, 1)]
    assert it.store.lists_begun == 2


def test_health_before_the_start() -> None:
    informer = Informer(Store(Pod), Client(Connection.to(Access("http://127.0.0.1:1"))))
    assert informer.health == Health("Pod", State.STOPPED, False, "", 0, "", 0)


async def test_equal_parts_of_pods_are_one_object() -> None:
    async with Collection() as server:
        server.put(pod("a", node="node-with-a-long-name", app="x"))
        server.put(pod("b", node="node-with-a-long-name", app="x"))
        async with following(server) as it:
            await it.synced()
            a, b = it.store
    assert a.spec.containers is b.spec.containers
    assert a.metadata.labels is b.metadata.labels
    assert a.spec.node_name is b.spec.node_name
    assert a.metadata.name != b.metadata.name


async def test_other_work_gets_its_turn_while_a_long_page_is_taken_in() -> None:
    async with Collection() as server:
        for i in range(250):
            server.put(pod(f"p{i}"))
        sizes = set()
        async with following(server) as it:
            while not it.store.synced:
                sizes.add(len(it.store))
                await asyncio.sleep(0)
        assert len(it.store) == 250
    assert any(0 < size < 250 for size in sizes)
    assert len(sizes) < 10  # not after every object


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"koordpy_informer_{name}", {"kind": "Pod", **labels}) or 0.0


async def test_what_happens_is_counted_by_kind() -> None:
    async with Collection() as server:
        server.put(pod("a"))
        server.put({**pod("broken"), "spec": "text"})
        lists, added, stale, malformed, absent = (
            counted("lists_total"),
            counted("events_total", type="ADDED"),
            counted("stale_events_total"),
            counted("malformed_objects_total"),
            counted("failures_total", reason="absent"),
        )
        async with following(server, optional=True) as it:
            await server.watched()
            assert counted("objects") == 1
            old = server.put(pod("b"))
            await it.has("a", "b")
            assert (counted("lists_total"), counted("objects")) == (lists + 1, 2)
            assert counted("malformed_objects_total") == malformed + 1
            server.send_event("MODIFIED", old)  # once more
            server.send_event("DELETED", {**old, "metadata": {**old["metadata"], "uid": "another"}})
            await it.until(lambda: counted("stale_events_total") == stale + 2)
            assert counted("events_total", type="ADDED") == added + 1
            server.path = "/elsewhere"
            server.close_watches()
            await it.until(lambda: it.informer.state is State.ABSENT)
            assert counted("objects") == 0
            assert counted("failures_total", reason="absent") > absent


async def test_an_informer_of_a_namespace_catches_up_with_that_namespace() -> None:
    async with Collection("/api/v1/namespaces/default/pods") as server:
        for name in ("a", "b", "c"):
            server.put(pod(name))
        async with following(server, selector=Selector(namespace="default")) as it:
            await server.watched()
            stale = counted("stale_events_total")
            await it.informer.catch_up()
            assert [request.target for request in server.requests_of(watch=False)][1:] == [
                "/api/v1/namespaces/default/pods?limit=1"  # the watch is complete: nothing else is listed
            ]
            server.put(pod("d"), silently=True)
            await it.informer.catch_up()
            assert it.changes == ["add a", "add b", "add c", "add d"]
            assert counted("stale_events_total") == stale  # a known object is not a late event
