"""Client, informers, leader election and events on the embedded API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest

from koordpy.api.core import (
    Container,
    Event,
    Lease,
    Namespace,
    Node,
    NodeStatus,
    Pod,
    PodDisruptionBudget,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import Condition, LabelSelector, ObjectMeta
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import AlreadyExists, Conflict, Gone, Invalid, NotFound, TooManyRequests
from koordpy.cluster.events import NORMAL, Recorder
from koordpy.cluster.informer import State
from koordpy.cluster.informers import Informers
from koordpy.cluster.leader import LeaderElector
from koordpy.cluster.selector import Selector
from koordpy.cluster.wire import WatchError
from koordpy.embedded.apiserver.server import ApiServer
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE


def pod(name: str, cpu: str = "1", **labels: str) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu})
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels),
        spec=PodSpec(containers=[Container(name="c", image="i", resources=resources)]),
    )


def node(name: str) -> Node:
    amounts: dict[str, str | int | float] = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = Condition(type="Ready", status="True")
    status = NodeStatus(capacity=amounts, allocatable=amounts, conditions=[ready])
    return Node(metadata=ObjectMeta(name=name), status=status)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(port=free_port()) as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    client = Client(Connection.to(Access(server.url)))
    with suppress(AlreadyExists):
        await client.create(Namespace(metadata=ObjectMeta(name="default")))
    yield client
    await client.close()


async def test_objects_are_written_and_read_back(client: Client) -> None:
    created = await client.create(pod("a", app="x"))
    assert created.metadata.uid
    with pytest.raises(AlreadyExists):
        await client.create(pod("a"))
    assert (await client.get(Pod, "default", "a")).metadata.labels == {"app": "x"}
    await client.patch(Pod, "default", "a", {"metadata": {"annotations": {"k": "v"}}})
    operations = [{"op": "add", "path": "/metadata/labels/tier", "value": "t"}]
    patched = await client.patch(Pod, "default", "a", operations, PatchType.JSON)
    assert patched.metadata.annotations == {"k": "v"}
    assert patched.metadata.labels == {"app": "x", "tier": "t"}
    stale = {"metadata": {"resourceVersion": created.metadata.resource_version, "labels": {"x": "y"}}}
    with pytest.raises(Conflict):
        await client.patch(Pod, "default", "a", stale)
    done = await client.patch_status(Pod, "default", "a", {"status": {"phase": "Running"}})
    assert done.status.phase == "Running"
    with pytest.raises(Conflict):
        await client.delete(Pod, "default", "a", uid="another")
    await client.delete(Pod, "default", "a", uid=created.metadata.uid, grace_period_seconds=0)
    with pytest.raises(NotFound):
        await client.get(Pod, "default", "a")


async def test_invalid_objects_and_dry_runs_leave_nothing(client: Client) -> None:
    with pytest.raises(Invalid):
        await client.create(Pod(metadata=ObjectMeta(name="Not A Name", namespace="default")))
    await client.create(pod("dry"), dry_run=True)
    assert await client.list_all(Pod) == []


async def test_document_is_replaced_only_as_it_was_read(client: Client) -> None:
    await client.create(pod("a"))
    pods = resource_of(Pod)
    document = await client.get_raw(pods, "default", "a")
    document["metadata"]["labels"] = {"x": "y"}
    updated = await client.update_raw(pods, "default", "a", document)
    assert updated["metadata"]["labels"] == {"x": "y"}
    with pytest.raises(Conflict):
        await client.update_raw(pods, "default", "a", document)


async def test_binding_sets_node_and_merges_annotations_once(client: Client) -> None:
    await client.create(node("n1"))
    waiting = await client.create(pod("a"))
    await client.bind(waiting, "n1", {"koordinator.sh/x": "1"})
    bound = await client.get(Pod, "default", "a")
    assert bound.spec.node_name == "n1"
    assert bound.metadata.annotations["koordinator.sh/x"] == "1"
    with pytest.raises(Conflict):
        await client.bind(waiting, "n1")


async def test_eviction_respects_budgets(client: Client) -> None:
    await client.create(node("n1"))
    await client.create(pod("a", app="x"))
    a = await client.get(Pod, "default", "a")
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="default"),
        spec=PodDisruptionBudget.Spec(selector=LabelSelector(match_labels={"app": "x"}), min_available=1),
    )
    await client.create(budget)
    await client.bind(a, "n1")
    ready = {"type": "Ready", "status": "True"}
    running = {"status": {"phase": "Running", "conditions": [ready]}}
    a = await client.patch_status(Pod, "default", "a", running)
    with pytest.raises(TooManyRequests):
        await client.evict(a)
    await client.delete(PodDisruptionBudget, "default", "b")
    await client.evict(a, grace_period_seconds=0)
    with pytest.raises(NotFound):
        await client.get(Pod, "default", "a")


async def test_cluster_follows_nodes_and_pods(server: ApiServer, client: Client) -> None:
    cluster = Cluster()
    table = cluster.nodes
    for i in range(3):
        await client.create(node(f"n{i}"))
    async with Informers(cluster, client, page_size=2) as informers:
        await informers.wait_synced(PATIENCE)
        assert sorted(table.all().names) == ["n0", "n1", "n2"]
        waiting = await client.create(pod("a", cpu="1500m"))
        await client.bind(waiting, "n1")
        await until(lambda: table.placed_on(waiting.metadata.uid) == "n1")
        row = table.row_of("n1")
        assert row is not None
        assert table.requested[row, 0] == 1500
        await client.delete(Pod, "default", "a", grace_period_seconds=0)
        await until(lambda: table.placed_on(waiting.metadata.uid) is None)
        assert not table.requested[row].any()
        assert {health.state for health in informers.health} == {State.WATCHING}


async def test_nothing_is_lost_when_watches_are_cut_or_history_is_gone(
    server: ApiServer, client: Client
) -> None:
    cluster = Cluster()
    store = cluster.store(Pod)
    changes: list[str] = []
    store.subscribe(
        on_add=lambda p: changes.append(f"add {p.metadata.name}"),
        on_delete=lambda p: changes.append(f"delete {p.metadata.name}"),
    )
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(PATIENCE)
        expected = []
        for i in range(6):
            await client.create(pod(f"p{i}"))
            if i % 2:
                server.cut_watches()
                await client.delete(Pod, "default", f"p{i}", grace_period_seconds=0)
                server.compact()
            else:
                expected.append(f"p{i}")
        await until(lambda: sorted(p.metadata.name for p in store) == expected)
        await client.create(pod("last"))
        await until(lambda: "add last" in changes)
    added = [change for change in changes if change.startswith("add")]
    assert len(added) == len(set(added)), "nothing is told twice"


async def test_server_that_restarts_is_found_again(server: ApiServer, client: Client) -> None:
    cluster = Cluster()
    store = cluster.store(Pod)
    await client.create(pod("a"))
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(PATIENCE)
        await server.stop()
        await until(lambda: informers.health[0].state is State.FAILING)
        assert len(store) == 1
        assert informers.synced
        await server.start()
        await client.create(pod("b"))
        await until(lambda: len(store) == 2)
        assert informers.health[0].error == ""


async def test_only_selected_pods_are_followed(client: Client) -> None:
    cluster = Cluster()
    store = cluster.store(Pod, selector=Selector(fields="spec.nodeName=n1"))
    await client.create(node("n1"))
    here, there = await client.create(pod("here")), await client.create(pod("there"))
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(PATIENCE)
        assert len(store) == 0
        await client.bind(here, "n1")
        await until(lambda: [p.metadata.name for p in store] == ["here"])
        assert there.metadata.uid not in {p.metadata.uid for p in store}


async def test_missing_custom_resource_is_synced_only_if_optional(client: Client) -> None:
    cluster = Cluster()
    cluster.store(NodeMetric, optional=True)
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(PATIENCE)
        await until(lambda: informers.health[0].state is State.ABSENT)  # or listing, when it asks again
    other = Cluster()
    other.store(NodeMetric)
    async with Informers(other, client) as informers:

        async def complaint() -> str:
            with pytest.raises(TimeoutError) as refused:
                await informers.wait_synced(0.05)
            return str(refused.value)

        async with asyncio.timeout(PATIENCE):
            while "NodeMetric is absent" not in await complaint():
                pass


async def test_old_resource_version_is_gone(server: ApiServer, client: Client) -> None:
    await client.create(pod("a"))
    await client.create(pod("b"))
    server.compact()
    with pytest.raises((Gone, WatchError), match="410 Expired"):
        async with client.watch(Pod, resource_version="1") as watch:
            await watch.read(60)


async def test_one_of_two_candidates_leads_and_hands_over(client: Client) -> None:
    turns: list[str] = []
    release = asyncio.Event()

    def candidate(identity: str) -> LeaderElector:
        return LeaderElector(
            client,
            "default",
            "koordpy",
            identity,
            lease_duration=60.0,
            renew_deadline=40.0,
            retry_period=0.05,
        )

    async def first() -> None:
        turns.append("first")
        await release.wait()

    async def second() -> None:
        turns.append("second")

    one, two = candidate("one"), candidate("two")
    leading = asyncio.create_task(one.run(first))
    await until(lambda: turns == ["first"])
    waiting = asyncio.create_task(two.run(second))
    await until(lambda: two.leader == "one")
    assert turns == ["first"]
    release.set()
    await asyncio.wait_for(asyncio.gather(leading, waiting), PATIENCE)
    assert turns == ["first", "second"]
    lease = await client.get(Lease, "default", "koordpy")
    assert lease.spec.holder_identity == ""
    assert lease.spec.lease_transitions == 1


async def test_events_arrive_and_become_series(client: Client) -> None:
    recorder = Recorder(client)
    subject = await client.create(pod("a"))
    recorder.event(subject, NORMAL, "Tested", "once", action="Testing")
    await recorder.flush()
    for _ in range(3):
        recorder.event(subject, NORMAL, "Tested", "again", action="Testing")
    await recorder.flush()
    [event] = await client.list_all(Event)
    assert event.regarding.uid == subject.metadata.uid
    assert event.series is not None
    assert event.series.count == 4


async def test_status_of_a_pod_is_known_in_full(client: Client) -> None:
    await client.create(pod("a"))
    await client.patch_status(Pod, "default", "a", {"status": {"phase": "Failed", "reason": "Evicted"}})
    known = await client.get(Pod, "default", "a")
    assert known.status == PodStatus(
        phase="Failed", reason="Evicted", qos_class=known.status.qos_class, conditions=known.status.conditions
    )


async def test_a_late_store_is_followed_from_the_first_question_on_and_holds_up_nobody(
    client: Client,
) -> None:
    cluster = Cluster()
    pods = cluster.store(Pod)
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(PATIENCE)
        assert len(cluster.stores) == 1
        late = cluster.late_store(Namespace)
        assert cluster.late_store(Namespace) is late
        assert not late.synced
        assert informers.synced
        assert cluster.synced
        await until(lambda: late.synced)
        assert late.get("", "default") is not None
        assert [health.kind for health in informers.health] == ["Namespace", "Pod"]
    assert pods.synced
    assert not cluster.late_store(Node).synced


async def test_a_late_store_that_was_asked_for_early_is_followed_from_the_start(client: Client) -> None:
    cluster = Cluster()
    late = cluster.late_store(Namespace)
    assert cluster.synced
    async with Informers(cluster, client):
        await until(lambda: late.synced)
