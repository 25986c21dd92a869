"""CPUs and NUMA nodes that tenants claim in annotations, and nodes that come, go and change under their pods.

Whatever annotations say, koordpy schedules the other pods, knows of a node what a rebuild from API objects
gives, and pods that it binds have the CPUs that it gave them.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import resource_of
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy_plugins.scheduling.nodenumaresource.state.ledger import CPULedger
from tests.eventually import PATIENCE
from tests.integration.devices.stage import CPUS, NODE, PROD, DeviceStage, cpus, embedded, node, topology
from tests.integration.reservations.stage import NAMESPACE

LSR = {extension.LABEL_POD_QOS: "LSR"}
REQUESTS = {"cpu": "2", "memory": "1Gi"}
ALL = frozenset(range(CPUS))
STATUS = extension.ANNOTATION_RESOURCE_STATUS
SPEC = extension.ANNOTATION_RESOURCE_SPEC
NUMA = extension.ANNOTATION_NUMA_TOPOLOGY_SPEC


def share(numa_node: Any, **amounts: Any) -> dict[str, Any]:
    return {"node": numa_node, "resources": amounts}


CLAIMS: dict[str, str] = {
    "everything": json.dumps({"cpuset": f"0-{CPUS - 1}", "numaNodeResources": [share(0, cpu="8")]}),
    "more than there is": json.dumps({"cpuset": "0-4096", "numaNodeResources": [share(0, cpu="9e18")]}),
    "negative amounts": json.dumps({"numaNodeResources": [share(0, cpu="-1000", memory="-1Ei")]}),
    "other NUMA nodes": json.dumps({"numaNodeResources": [share(at, cpu="1") for at in (-1, 64, 1 << 30)]}),
    "NUMA nodes without end": json.dumps({"numaNodeResources": [share(at) for at in range(3000)]}),
    "resources without end": json.dumps(
        {"numaNodeResources": [share(0, **{f"r{at}": "1" for at in range(3000)})]}
    ),
    "CPUs without end": json.dumps({"cpuset": ",".join(["0-4096"] * 5000)}),
    "no CPUs": '{"cpuset":"zero"}',
    "other types": '{"cpuset":[0],"numaNodeResources":{"node":0}}',
    "no amounts": json.dumps({"numaNodeResources": [share(0, cpu="many")]}),
    "nested": "[" * 50_000,
    "no JSON": "{",
    "null": "null",
    "empty": "",
}
SPECS: dict[str, str] = {
    "other types": '{"requiredCPUBindPolicy":1,"preferredCPUBindPolicy":{}}',
    "unknown": '{"requiredCPUBindPolicy":"Mine","preferredCPUExclusivePolicy":"Mine"}',
    "long": json.dumps({"requiredCPUBindPolicy": "F" * 100_000}),
    "nested": '{"a":' * 20_000,
    "no JSON": "FullPCPUs",
    "null": "null",
}
TOPOLOGY_SPECS: dict[str, str] = {
    "other types": '{"numaTopologyPolicy":["SingleNUMANode"]}',
    "unknown": '{"numaTopologyPolicy":"Mine","singleNUMANodeExclusive":"Mine"}',
    "long": json.dumps({"numaTopologyPolicy": "S" * 100_000}),
    "nested": '{"a":' * 20_000,
    "no JSON": "SingleNUMANode",
}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[DeviceStage]:
    """A cluster with one node and all processes."""
    async with embedded(tmp_path) as stage:
        yield stage


async def place(stage: DeviceStage, name: str, annotations: dict[str, str]) -> None:
    """Create a pod on the node as its user may, without a scheduler."""
    container = {"name": "c", "image": "registry.test/pause:1", "resources": {"requests": {"cpu": "1m"}}}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": NODE, "containers": [container]},
    }
    await stage.client.create_raw(resource_of(Pod), NAMESPACE, document)


async def bound(stage: DeviceStage, name: str, count: int = 2) -> frozenset[int]:
    """Run a pod with CPUs of its own, and return them."""
    requests = {**REQUESTS, "cpu": str(count)}
    return cpus(await stage.run(name, requests, LSR, priorityClassName=PROD))


async def assert_ledger_equals_a_rebuild(stage: DeviceStage) -> None:
    """What koordpy knows of CPUs and NUMA nodes is what a fresh view of the API objects gives."""
    ours = stage.process.cluster.shared(CPULedger)
    fresh = Cluster()
    rebuilt = fresh.shared(CPULedger)
    async with Informers(fresh, stage.client) as informers:
        await informers.wait_synced(PATIENCE)

        async def equal() -> bool:
            return ours.snapshot() == rebuilt.snapshot()

        await stage.until(equal, "the ledger is another one than a rebuild gives")
    assert not ours.unconfirmed()


async def held(stage: DeviceStage, *names: str) -> None:
    """Wait until just these pods hold CPUs or amounts of the node."""
    ledger = stage.process.cluster.shared(CPULedger)

    async def known() -> bool:
        found = ledger.node(NODE)
        return sorted(names) == sorted(each.name for each in (found.pods.values() if found else ()))

    await stage.until(known, f"not just {names} hold CPUs of the node")


async def test_claims_of_pods_that_no_scheduler_placed_break_nothing(stage: DeviceStage) -> None:
    for number, claim in enumerate(CLAIMS.values()):
        await place(stage, f"claiming-{number}", {STATUS: claim})
    await assert_ledger_equals_a_rebuild(stage)
    for number in range(len(CLAIMS)):
        await stage.delete_pod(f"claiming-{number}")
    await held(stage)
    assert await bound(stage, "honest", CPUS) == ALL
    await assert_ledger_equals_a_rebuild(stage)


async def test_pods_have_what_they_were_given_whatever_they_claim(stage: DeviceStage) -> None:
    first = await bound(stage, "first")
    for number, claim in enumerate(CLAIMS.values()):
        claiming = await stage.run(f"claiming-{number}", {"cpu": "10m"}, {}, {STATUS: claim})
        assert claiming.metadata.annotations[STATUS] == "{}"
    copied = json.dumps({"cpuset": "0-1"})
    copy = await stage.run("copy", REQUESTS, LSR, {STATUS: copied}, priorityClassName=PROD)
    assert not cpus(copy) & first
    await held(stage, "first", "copy")
    await assert_ledger_equals_a_rebuild(stage)


@pytest.mark.parametrize(
    ("annotation", "texts"), [(SPEC, SPECS), (NUMA, TOPOLOGY_SPECS)], ids=["resource-spec", "topology-spec"]
)
async def test_what_pods_ask_for_in_annotations_breaks_no_other_pod(
    stage: DeviceStage, annotation: str, texts: dict[str, str]
) -> None:
    for number, text in enumerate(texts.values()):
        await stage.create(f"odd-{number}", REQUESTS, LSR, {annotation: text}, priorityClassName=PROD)
    assert len(await bound(stage, "honest")) == 2
    await assert_ledger_equals_a_rebuild(stage)


async def test_pods_hold_their_cpus_over_a_restart_until_they_end_or_are_gone(stage: DeviceStage) -> None:
    ending, deleted = await bound(stage, "ending"), await bound(stage, "deleted")
    await stage.restart_koordpy()
    await held(stage, "ending", "deleted")
    others = await bound(stage, "third")
    assert not others & (ending | deleted)
    await stage.client.patch(
        Pod, NAMESPACE, "ending", {"status": {"phase": "Succeeded"}}, subresource="status"
    )
    await held(stage, "deleted", "third")
    await stage.delete_pod("deleted")
    await held(stage, "third")
    assert await bound(stage, "rest", CPUS - 2) == ALL - others
    await assert_ledger_equals_a_rebuild(stage)


async def test_a_topology_that_comes_after_its_pods_counts_them(stage: DeviceStage) -> None:
    first = await bound(stage, "first")
    await stage.client.delete(NodeResourceTopology, "", NODE)
    await stage.create("waiting", REQUESTS, LSR, priorityClassName=PROD)
    assert "invalid CPU Topology" in await stage.refusal("waiting")
    await stage.client.create_raw(resource_of(NodeResourceTopology), "", topology())
    assert await stage.node_of("waiting") == NODE
    assert not cpus(await stage.pod("waiting")) & first
    await held(stage, "first", "waiting")
    await assert_ledger_equals_a_rebuild(stage)


async def test_a_node_that_is_created_anew_has_the_cpus_that_its_pods_left(stage: DeviceStage) -> None:
    await bound(stage, "gone")
    stays = await bound(stage, "stays")
    await stage.client.delete(Node, "", NODE)
    await stage.delete_pod("gone")
    await stage.client.create_raw(resource_of(Node), "", node())
    assert await bound(stage, "new", CPUS - 2) == ALL - stays
    await held(stage, "new", "stays")
    await assert_ledger_equals_a_rebuild(stage)


async def test_a_pod_that_is_resized_in_place_keeps_its_cpus(stage: DeviceStage) -> None:
    mine = await bound(stage, "resized")
    bigger = {"cpu": "3", "memory": "1Gi"}
    containers = [{"name": "main", "resources": {"requests": bigger, "limits": bigger}}]
    patch = {"spec": {"containers": containers}}
    await stage.client.patch(Pod, NAMESPACE, "resized", patch, subresource="resize")
    await held(stage, "resized")
    assert cpus(await stage.pod("resized")) == mine
    assert not await bound(stage, "other") & mine
    await assert_ledger_equals_a_rebuild(stage)


async def test_a_topology_as_large_as_it_may_be_breaks_nothing_and_the_next_one_counts(
    stage: DeviceStage,
) -> None:
    first = await bound(stage, "first")
    zones = [{**topology()["zones"][0], "name": f"node-{at}"} for at in range(1000)]
    huge = {extension.ANNOTATION_NODE_CPU_TOPOLOGY: json.dumps({"detail": [{"id": -1}]}) + " " * 250_000}
    await stage.client.patch(
        NodeResourceTopology, "", NODE, {"metadata": {"annotations": huge}, "zones": zones}
    )
    await stage.create("waiting", REQUESTS, LSR, priorityClassName=PROD)
    assert "invalid CPU Topology" in await stage.refusal("waiting")
    await assert_ledger_equals_a_rebuild(stage)
    good = topology()
    await stage.client.patch(
        NodeResourceTopology,
        "",
        NODE,
        {"metadata": {"annotations": good["metadata"]["annotations"]}, "zones": good["zones"]},
    )
    assert await stage.node_of("waiting") == NODE
    assert not cpus(await stage.pod("waiting")) & first
    await assert_ledger_equals_a_rebuild(stage)
