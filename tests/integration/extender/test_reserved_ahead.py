"""Pods that kube-scheduler filters before the one before is bound, where koordpy chooses the node."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from koordpy import data
from koordpy.api import extension
from koordpy.api.core import Node, Pod, PriorityClass
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import resource_of
from koordpy.embedded.apiserver import ApiServer
from tests.integration.devices.stage import (
    CPUS,
    NODE,
    PROD,
    DeviceStage,
    cpus,
    device,
    devices,
    node,
    topology,
    uses,
)
from tests.integration.reservations.stage import NAMESPACE

Document = dict[str, Any]

OTHER = "other-node"
OWNER = "owns"
HALF = {extension.GPU: "50"}
BOUND_CPUS = json.dumps({"preferredCPUBindPolicy": "FullPCPUs"})


class Caller:
    """Makes the calls of kube-scheduler."""

    def __init__(self, stage: DeviceStage, http: httpx.AsyncClient) -> None:
        self.stage, self.http = stage, http
        self.nodes: list[str] = []

    async def add_node(self, name: str, gpus: int) -> None:
        """Create a node with so many of the GPUs of its kind."""
        listed = device()
        listed["spec"]["devices"] = listed["spec"]["devices"][:gpus]
        for type_, document in ((NodeResourceTopology, topology()), (Device, listed), (Node, node())):
            document["metadata"]["name"] = name
            await self.stage.client.create_raw(resource_of(type_), "", document)
        self.nodes.append(name)
        cluster = self.stage.process.cluster

        async def seen() -> bool:
            return all(cluster.store(each).get("", name) for each in (NodeResourceTopology, Device, Node))

        await self.stage.until(seen, f"node {name} is not seen")

    async def create(
        self,
        name: str,
        requests: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Document:
        """Create a pod, and return it once koordpy has seen it."""
        await self.stage.create(name, requests, labels, annotations, **spec)
        store = self.stage.process.cluster.store(Pod)

        async def seen() -> bool:
            return store.get(NAMESPACE, name) is not None

        await self.stage.until(seen, f"pod {name} is not seen")
        return await self.stage.client.get_raw(resource_of(Pod), NAMESPACE, name)

    async def filter(self, pod: Document, *names: str) -> list[str]:
        """Return the nodes that filter leaves."""
        body = {"Pod": pod, "NodeNames": names or self.nodes}
        answer = (await self.http.post("/extender/filter", json=body)).json()
        assert not answer["Error"]
        kept: list[str] = answer["NodeNames"]
        return kept

    async def bind(self, pod: Document, node_name: str) -> str:
        """Return why a pod is not bound."""
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": NAMESPACE, "PodUID": meta["uid"], "Node": node_name}
        error: str = (await self.http.post("/extender/bind", json=body)).json()["Error"]
        return error

    async def bound(self, pod: Document, node_name: str) -> Pod:
        """Bind a pod and return it."""
        assert await self.bind(pod, node_name) == ""
        return await self.stage.pod(pod["metadata"]["name"])


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ApiServer(crds=[data.deploy("crds")]))
        stage = DeviceStage({"server": server.url}, tmp_path, server=server)
        stack.push_async_callback(stage.client.close)
        priority = {"kind": "PriorityClass", "metadata": {"name": PROD}, "value": 9000}
        document = {"apiVersion": "scheduling.k8s.io/v1", **priority}
        await stage.client.create_raw(resource_of(PriorityClass), "", document)
        process = await stage.serve(nodeChoice="koordpy")
        stack.push_async_callback(stage.stop)
        url = process.listeners["extender"].url
        yield Caller(stage, await stack.enter_async_context(httpx.AsyncClient(base_url=url)))


async def test_two_pods_that_are_filtered_before_either_is_bound_get_different_gpus(caller: Caller) -> None:
    await caller.add_node(NODE, gpus=1)
    await caller.add_node(OTHER, gpus=1)
    pods = [await caller.create(name, {extension.GPU: "100"}) for name in ("a", "b", "c")]
    kept = [await caller.filter(pod) for pod in pods]
    assert sorted(kept[:2]) == [[NODE], [OTHER]]
    assert kept[2] == []
    for pod, [name] in zip(pods[:2], kept[:2], strict=True):
        assert list(devices(await caller.bound(pod, name))) == [0]


async def test_parts_of_gpus_are_taken_as_they_will_be_bound(caller: Caller) -> None:
    await caller.add_node(NODE, gpus=2)
    pods = [await caller.create(f"p{number}", HALF) for number in range(5)]
    kept = [await caller.filter(pod) for pod in pods]
    assert kept == [[NODE]] * 4 + [[]]
    given = [await caller.bound(pod, NODE) for pod in pods[:4]]
    assert sorted(minor for pod in given for minor in devices(pod)) == [0, 0, 1, 1]


async def test_cpus_are_bound_for_the_pod_before_the_next_one_is_filtered(caller: Caller) -> None:
    await caller.add_node(NODE, gpus=0)
    await caller.add_node(OTHER, gpus=0)
    amounts = {"cpu": str(CPUS // 2 + 2), "memory": "1Gi"}
    labels = {extension.LABEL_POD_QOS: "LSR"}
    annotations = {extension.ANNOTATION_RESOURCE_SPEC: BOUND_CPUS}
    pods = [
        await caller.create(name, amounts, labels, annotations, priorityClassName=PROD)
        for name in ("a", "b", "c")
    ]
    kept = [await caller.filter(pod) for pod in pods]
    assert sorted(kept[:2]) == [[NODE], [OTHER]]
    assert kept[2] == []
    for pod, [name] in zip(pods[:2], kept[:2], strict=True):
        assert len(cpus(await caller.bound(pod, name))) == CPUS // 2 + 2


async def test_two_owners_of_a_reservation_do_not_both_count_on_it(caller: Caller) -> None:
    await caller.add_node(NODE, gpus=1)
    await caller.add_node(OTHER, gpus=1)
    reservation = await caller.stage.hold("gpu", {extension.GPU: "100"}, OWNER, allocateOnce=False)
    home = reservation.status.node_name
    pods = [await caller.create(name, {extension.GPU: "100"}, {OWNER: "true"}) for name in ("a", "b")]
    kept = [await caller.filter(pod) for pod in pods]
    assert kept == [[home], [OTHER if home == NODE else NODE]]
    found = [await caller.bound(pod, name) for pod, [name] in zip(pods, kept, strict=True)]
    assert list(map(uses, found)) == ["gpu", ""]
    await caller.stage.owned_by("gpu", found[0])


async def test_owners_of_half_a_gpu_leave_no_part_of_a_reservation_unused(caller: Caller) -> None:
    await caller.add_node(NODE, gpus=1)
    await caller.add_node(OTHER, gpus=1)
    reservation = await caller.stage.hold("half", HALF, OWNER, allocateOnce=False)
    pods = [await caller.create(name, HALF, {OWNER: "true"}) for name in ("a", "b")]
    kept = [await caller.filter(pod) for pod in pods]
    found = [await caller.bound(pod, name) for pod, [name] in zip(pods, kept, strict=True)]
    assert sorted(map(uses, found)) == ["", "half"]
    [owner] = [pod for pod in found if uses(pod)]
    assert devices(owner) == devices(reservation)


@pytest.mark.parametrize("what", ["filter", "delete"])
async def test_what_is_held_for_a_pod_is_free_again(caller: Caller, what: str) -> None:
    await caller.add_node(NODE, gpus=1)
    first, second = [await caller.create(name, {extension.GPU: "100"}) for name in ("a", "b")]
    assert await caller.filter(first) == [NODE]
    assert await caller.filter(second) == []
    if what == "filter":
        assert await caller.filter(first, NODE) == [NODE]
        assert await caller.filter(second) == []
        assert await caller.filter(first, "unknown") == []
    else:
        await caller.stage.delete_pod("a")

    async def passes() -> bool:
        return await caller.filter(second) == [NODE]

    await caller.stage.until(passes, "the GPU is not free again")
    assert list(devices(await caller.bound(second, NODE))) == [0]


async def test_a_pod_may_be_bound_to_another_node_than_the_one_held_for_it(caller: Caller) -> None:
    await caller.add_node(NODE, gpus=1)
    await caller.add_node(OTHER, gpus=1)
    first, second = [await caller.create(name, {extension.GPU: "100"}) for name in ("a", "b")]
    [held] = await caller.filter(first)
    other = OTHER if held == NODE else NODE
    assert list(devices(await caller.bound(first, other))) == [0]
    assert await caller.filter(second) == [held]
    assert list(devices(await caller.bound(second, held))) == [0]
