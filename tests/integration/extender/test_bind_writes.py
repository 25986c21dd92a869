"""The extender's bind against an API server: one write, and what is settled when answers are lost."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.interface import Binding, Plugin, PreBind
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.registry import installed
from tests.eventually import PATIENCE
from tests.unit.scheduling.worlds import bind_body, configuration, filter_body

PLUGINS = ("NodeResourcesFit", "Annotates", "Labels", "Interrupts")


class Annotates(Plugin, PreBind):
    """Puts an annotation on the pod."""

    name = "Annotates"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        binding.annotations["test.koordpy/bound-by"] = "extender"
        return SUCCESS


class Labels(Plugin, PreBind):
    """Puts labels on the pod, if the test wants any."""

    name = "Labels"
    wanted: ClassVar[Mapping[str, str]] = {}

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        binding.labels.update(self.wanted)
        return SUCCESS


class Interrupts(Plugin, PreBind):
    """Does something between Reserve and Bind, as other writers may."""

    name = "Interrupts"
    deed: Any = None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        if type(self).deed is not None:
            await type(self).deed()
        return SUCCESS


class Stage:
    """An API server, informers on it, and an extender over them."""

    def __init__(self, client: Client, writes: list[str], refusals: dict[str, Fault]) -> None:
        self.client, self.writes, self.refusals = client, writes, refusals
        self.cluster = Cluster()
        classes = {**installed(), "Annotates": Annotates, "Labels": Labels, "Interrupts": Interrupts}
        self.extender: Extender = create(configuration(PLUGINS), self.cluster, client, classes=classes)
        self.informers = Informers(self.cluster, client)

    async def add_node(self, name: str) -> None:
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        await self.client.create_raw(resource_of(Node), "", document)
        if not (await self.client.get(Node, "", name)).status.allocatable:
            await self.client.patch_status(Node, "", name, {"status": document["status"]})

    async def add_pod(self, name: str, **metadata: Any) -> dict[str, Any]:
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {
                "containers": [
                    {"name": "c", "image": "x", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
                ]
            },
        }
        return await self.client.create_raw(resource_of(Pod), "default", document)

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)

    async def seen(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        await self.until(lambda: any(known.metadata.uid == uid for known in self.cluster.store(Pod)))

    def filter(self, pod: dict[str, Any]) -> bytes:
        return self.extender.filter(filter_body(pod, ["n0", "n1"]))[0]

    async def bind(self, pod: dict[str, Any], node_name: str) -> str:
        error: str = json.loads(await self.extender.bind(bind_body(pod, node_name)))["Error"]
        return error


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    Interrupts.deed = None
    Labels.wanted = {}
    writes: list[str] = []
    refusals: dict[str, Fault] = {}

    def note(method: str, path: str) -> Fault | None:
        if method != "GET":
            writes.append(f"{method} {path.partition('?')[0].rpartition('/pods/')[2]}")
            return refusals.get(writes[-1])
        return None

    async with ApiServer(faults=note) as server:
        client = Client(Connection.to(Access(server.url)))
        made = Stage(client, writes, refusals)
        for name in ("n0", "n1"):
            await made.add_node(name)
        await made.informers.start()
        await made.informers.wait_synced(PATIENCE)
        try:
            yield made
        finally:
            await made.informers.stop()
            await client.close()


async def test_one_write_sets_the_node_and_the_annotations(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)
    assert b'"NodeNames":["n0","n1"]' in stage.filter(pod)
    assert await stage.bind(pod, "n0") == ""
    bound = await stage.client.get(Pod, "default", "p")
    assert bound.spec.node_name == "n0"
    assert bound.metadata.annotations == {"test.koordpy/bound-by": "extender"}
    await stage.until(lambda: not stage.cluster.nodes.is_assumed(pod["metadata"]["uid"]))
    assert stage.cluster.nodes.placed_on(pod["metadata"]["uid"]) == "n0"


async def test_a_pod_is_bound_even_before_the_watch_shows_it(stage: Stage) -> None:
    await stage.informers.stop()
    pod = await stage.add_pod("p")
    stage.filter(pod)
    assert await stage.bind(pod, "n0") == ""
    assert (await stage.client.get(Pod, "default", "p")).spec.node_name == "n0"


async def test_two_pods_never_get_the_same_room(stage: Stage) -> None:
    first, second = await stage.add_pod("p"), await stage.add_pod("q")
    await stage.seen(second)
    stage.filter(first)
    stage.filter(second)
    errors = await asyncio.gather(stage.bind(first, "n0"), stage.bind(second, "n0"))
    assert errors == ["", "NodeResourcesFit: Insufficient cpu"]


async def test_a_pod_that_another_client_bound_to_the_same_node_is_bound(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)
    Interrupts.deed = lambda: stage.client.bind(decode(Pod, pod), "n0")
    assert await stage.bind(pod, "n0") == ""


async def test_a_pod_that_another_client_bound_elsewhere_is_an_error_and_leaves_nothing(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)
    Interrupts.deed = lambda: stage.client.bind(decode(Pod, pod), "n1")
    assert "Conflict" in await stage.bind(pod, "n0")
    await stage.until(lambda: stage.cluster.nodes.placed_on(pod["metadata"]["uid"]) == "n1")
    rows = stage.cluster.nodes.row_of("n0")
    assert rows is not None
    assert not stage.cluster.nodes.requested[rows].any()


async def test_a_pod_that_is_deleted_meanwhile_is_an_error_and_leaves_nothing(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)

    async def delete() -> None:
        with suppress(NotFound):
            await stage.client.delete(Pod, "default", "p", grace_period_seconds=0)

    Interrupts.deed = delete
    assert "not found" in (await stage.bind(pod, "n0")).lower()
    await stage.until(lambda: not len(stage.cluster.store(Pod)))
    assert not stage.cluster.nodes.requested.any()


async def test_a_replaced_pod_is_not_bound_in_place_of_the_old_one(stage: Stage) -> None:
    old = await stage.add_pod("p")
    await stage.seen(old)
    stage.filter(old)
    await stage.client.delete(Pod, "default", "p", grace_period_seconds=0)
    new = await stage.add_pod("p")
    await stage.seen(new)
    assert f"has UID {new['metadata']['uid']}, expected" in await stage.bind(old, "n0")
    assert not (await stage.client.get(Pod, "default", "p")).spec.node_name


async def test_labels_take_one_more_write_before_the_binding_and_only_where_they_differ(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)
    Labels.wanted = {"test.koordpy/zone": "a"}
    del stage.writes[:]
    assert await stage.bind(pod, "n0") == ""
    assert stage.writes == ["PATCH p", "POST p/binding"]
    bound = await stage.client.get(Pod, "default", "p")
    assert (bound.spec.node_name, bound.metadata.labels) == ("n0", {"test.koordpy/zone": "a"})
    labelled = await stage.add_pod("q", labels={"test.koordpy/zone": "a"})
    await stage.seen(labelled)
    del stage.writes[:]
    assert await stage.bind(labelled, "n1") == ""
    assert stage.writes == ["POST q/binding"]


async def test_a_pod_whose_labels_are_refused_is_not_bound(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)
    Labels.wanted = {"test.koordpy/zone": "a"}
    stage.refusals["PATCH p"] = Fault(status=403)
    del stage.writes[:]
    assert await stage.bind(pod, "n0") != ""
    assert "POST p/binding" not in stage.writes
    live = await stage.client.get(Pod, "default", "p")
    assert (live.spec.node_name, live.metadata.labels) == ("", {})
    assert not stage.cluster.nodes.requested.any()


async def test_a_pod_that_is_not_bound_loses_the_labels_again(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)
    Labels.wanted = {"test.koordpy/zone": "a"}
    stage.refusals["POST p/binding"] = Fault(status=403)
    assert await stage.bind(pod, "n0") != ""
    live = await stage.client.get(Pod, "default", "p")
    assert (live.spec.node_name, live.metadata.labels) == ("", {})


async def test_a_pod_whose_binding_was_carried_out_unheard_keeps_the_labels(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.seen(pod)
    Labels.wanted = {"test.koordpy/zone": "a"}
    stage.refusals["POST p/binding"] = Fault(status=403, after=True)
    assert await stage.bind(pod, "n0") == ""
    live = await stage.client.get(Pod, "default", "p")
    assert (live.spec.node_name, live.metadata.labels) == ("n0", {"test.koordpy/zone": "a"})
