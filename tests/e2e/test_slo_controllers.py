"""The SLO controllers on a real kube-apiserver, with a node agent: what they offer, when, and what they leave
as it is.

`koordpy worker` and `koordpy agent` are processes as users start them; the files of the agent's node are made
up. Nodes without an agent have reports as agents write them.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api import extension, quantity
from koordpy.api.core import ConfigMap, Event, Node, Pod
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology, NodeSLO
from koordpy.api.meta import format_time
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from tests.e2e.controlplane.plane import CRDS, ControlPlane
from tests.e2e.controlplane.process import Process
from tests.eventually import PATIENCE
from tests.integration.worker.stage import NodeFiles

pytestmark = pytest.mark.timeout(600)

Document = dict[str, Any]

NAMESPACE, NAME = "koordinator-system", "slo-controller-config"
PRIORITY_CLASSES = Path(__file__).parents[2] / "deploy" / "priorityclasses" / "koordinator.yaml"
CAPACITY = {"cpu": "8", "memory": "16Gi", "pods": "20"}
RECLAIM = 95
COLOCATION: Document = {
    "enable": True,
    "cpuReclaimThresholdPercent": RECLAIM,
    "memoryReclaimThresholdPercent": RECLAIM,
    "memoryCalculatePolicy": "usage",
    "metricReportIntervalSeconds": 1,
}
READY = {"type": "Ready", "status": "True", "reason": "test"}
MEASURED = "measured"
"""The node with the agent."""


class Cluster:
    """A control plane with the worker, and the agent of one node."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        self.folder, self.plane = folder, plane
        self.processes: list[Process] = []

    def run(self, name: str, command: str, *flags: str) -> None:
        code = "from koordpy.cli import main; main()"
        options = [f"--kubeconfig={self.plane.kubeconfig}", "--debug-bind=127.0.0.1:0", *flags]
        self.processes.append(
            Process(name, [Path(sys.executable), "-c", code, command, *options], self.folder)
        )

    def run_agent(self, node: str) -> None:
        """Run the node agent on the files of a node with eight idle CPUs."""
        files = NodeFiles(self.folder / node, 2)
        folders = {
            "audit-log-dir": "audit",
            "changes-dir": "changes",
            "tsdb-path": "metrics",
            "prediction-checkpoint-filepath": "checkpoints",
            "var-lib-kubelet-dir": "kubelet",
        }
        for name in folders.values():
            (self.folder / node / name).mkdir()
        flags = [f"--{flag}={self.folder / node / name}" for flag, name in folders.items()]
        config = self.folder / f"{node}.yaml"
        config.write_text(yaml.safe_dump({"agent": files.settings}))
        self.run(f"agent-{node}", "agent", f"--config={config}", f"--node-name={node}", *flags)

    def logs(self) -> str:
        return "\n".join(process.log_tail() for process in self.processes)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("slo")
    with ControlPlane() as plane:
        files = [f"--filename={file}" for file in sorted(CRDS.glob("*.koordinator.sh.yaml"))]
        files.append(f"--filename={CRDS / 'noderesourcetopologies.topology.node.k8s.io.yaml'}")
        plane.kubectl("create", *files, f"--filename={PRIORITY_CLASSES}")
        plane.kubectl("create", "namespace", NAMESPACE)
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        made = Cluster(folder, plane)
        made.run("worker", "worker", "--parts=controllers")
        try:
            yield made
        finally:
            for process in made.processes:
                process.stop()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    plane = cluster.plane
    access = Access(plane.url, authorization=f"Bearer {plane.token}", ca=plane.ca_file.read_bytes())
    made = Client(Connection.to(access))
    yield made
    await made.close()


class Stage:
    """What tests do with the cluster."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster, self.client = cluster, client

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not await holds():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(self.cluster.logs())

    async def get(self, type_: Any, name: str, namespace: str = "") -> Document | None:
        with suppress(NotFound):
            return await self.client.get_raw(resource_of(type_), namespace, name)
        return None

    async def configure(self, **sections: Any) -> None:
        """Write the ConfigMap; a text is written as it is."""
        data = {
            f"{name.replace('_', '-')}-config": value if isinstance(value, str) else json.dumps(value)
            for name, value in sections.items()
        }
        resource = resource_of(ConfigMap)
        found = await self.get(ConfigMap, NAME, NAMESPACE)
        if found is None:
            meta = {"name": NAME, "namespace": NAMESPACE}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            await self.client.create_raw(resource, NAMESPACE, document)
        else:
            await self.client.update_raw(resource, NAMESPACE, NAME, {**found, "data": data})

    async def add_node(self, name: str, **meta: Any) -> None:
        document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **meta}}
        await self.client.create_raw(resource_of(Node), "", document)
        status = {"capacity": CAPACITY, "allocatable": CAPACITY, "conditions": [READY]}
        await self.client.patch(Node, "", name, {"status": status}, subresource="status")

    async def report(self, name: str, cpu: str = "1", *, age: timedelta = timedelta()) -> None:
        """Write a NodeMetric's status as the agent of a node does, once the object exists."""

        async def exists() -> bool:
            return await self.get(NodeMetric, name) is not None

        await self.until(exists)
        used = {"resources": {"cpu": cpu, "memory": "1Gi"}}
        status = {
            "updateTime": format_time(datetime.now(UTC) - age),
            "nodeMetric": {"nodeUsage": used, "systemUsage": used},
            "podsMetric": [],
        }
        await self.client.patch(NodeMetric, "", name, {"status": status}, subresource="status")

    async def offers(self, node: str, resource: str = extension.BATCH_CPU) -> str | None:
        """Return the allocatable amount of a resource, as the node has it."""
        found = await self.get(Node, node)
        assert found is not None
        amount: str | None = found["status"].get("allocatable", {}).get(resource)
        assert found["status"].get("capacity", {}).get(resource) == amount
        return amount

    async def until_offers(self, node: str, amount: str | None, resource: str = extension.BATCH_CPU) -> None:
        async def holds() -> bool:
            return await self.offers(node, resource) == amount

        await self.until(holds)

    async def annotation(self, node: str, key: str) -> str | None:
        found = await self.get(Node, node)
        return None if found is None else found["metadata"].get("annotations", {}).get(key)


@pytest.fixture
async def stage(cluster: Cluster, client: Client) -> Stage:
    made = Stage(cluster, client)
    await made.configure(colocation=COLOCATION)
    return made


async def test_what_an_agent_measures_becomes_batch_resources_that_best_effort_pods_are_bound_with(
    stage: Stage,
) -> None:
    await stage.add_node(MEASURED, labels={"agent": "yes"})

    async def is_asked() -> bool:
        found = await stage.get(NodeMetric, MEASURED)
        policy = (found or {}).get("spec", {}).get("metricCollectPolicy", {})
        return policy.get("reportIntervalSeconds") == 1

    await stage.until(is_asked)
    stage.cluster.run_agent(MEASURED)

    async def is_offered() -> bool:
        return await stage.offers(MEASURED) is not None

    await stage.until(is_offered)
    reported = await stage.get(NodeMetric, MEASURED)
    assert reported is not None
    usage = reported["status"]["nodeMetric"]["nodeUsage"]["resources"]
    cores, memory = quantity.milli_value(usage["cpu"]), quantity.value(usage["memory"])
    offered = quantity.value(await stage.offers(MEASURED) or "0")
    offered_memory = quantity.value(await stage.offers(MEASURED, extension.BATCH_MEMORY) or "0")
    assert 8000 * (RECLAIM - 10) // 100 - cores <= offered <= 8000
    assert 16 * 2**30 * (RECLAIM - 5) // 100 - memory <= offered_memory <= 16 * 2**30

    stage.cluster.plane.start_scheduler(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    )
    amounts = {extension.BATCH_CPU: "25", extension.BATCH_MEMORY: "64Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    meta = {"name": "be", "namespace": "default", "labels": {extension.LABEL_POD_QOS: "BE"}}
    spec = {
        "priorityClassName": "koord-batch",
        "containers": [container],
        "nodeSelector": {"agent": "yes"},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    await stage.client.create_raw(resource_of(Pod), "default", pod)

    async def is_bound() -> bool:
        found = await stage.get(Pod, "be", "default")
        return (found or {}).get("spec", {}).get("nodeName") == MEASURED

    try:
        await stage.until(is_bound)
    finally:
        stage.cluster.plane.stop_scheduler()


async def test_the_ratio_of_a_nodes_cpu_model_is_written_and_scales_batch_cpu(stage: Stage) -> None:
    await stage.add_node("normalized")
    info = {"cpuModel": "Example 9", "hyperThreadEnabled": False, "turboEnabled": True}
    document = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": "normalized",
            "annotations": {extension.ANNOTATION_CPU_BASIC_INFO: json.dumps(info)},
        },
        "topologyPolicies": ["None"],
        "zones": [],
    }
    await stage.client.create_raw(resource_of(NodeResourceTopology), "", document)
    await stage.report("normalized")
    await stage.until_offers("normalized", "6600")
    model = {"baseRatio": 1.5, "turboEnabledRatio": 1.65, "hyperThreadEnabledRatio": 1.0}
    normalization = {"enable": True, "ratioModel": {"Example 9": model}}
    await stage.configure(colocation=COLOCATION, cpu_normalization=normalization)

    async def has(ratio: str) -> bool:
        found = await stage.annotation("normalized", extension.ANNOTATION_CPU_NORMALIZATION_RATIO)
        return found == ratio

    await stage.until(lambda: has("1.65"))
    await stage.until_offers("normalized", "10890")
    amplified = extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO

    async def is_amplified() -> bool:
        return await stage.annotation("normalized", amplified) == '{"cpu":1.65}'

    await stage.until(is_amplified)
    await stage.configure(colocation=COLOCATION)
    await stage.until(lambda: has("1.00"))
    await stage.until_offers("normalized", "6600")


async def test_a_nodes_strategy_is_its_first_matching_one_then_its_annotation_then_its_labels(
    stage: Stage,
) -> None:
    nodes = [
        {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuReclaimThresholdPercent": 50},
        {"name": "b", "nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuReclaimThresholdPercent": 40},
        {"name": "off", "nodeSelector": {"matchLabels": {"pool": "off"}}, "enable": False},
    ]
    await stage.configure(colocation={**COLOCATION, "nodeConfigs": nodes})
    await stage.add_node("pooled", labels={"pool": "a"})
    await stage.report("pooled")
    await stage.until_offers("pooled", "3k")
    own = {extension.ANNOTATION_NODE_COLOCATION_STRATEGY: '{"cpuReclaimThresholdPercent":70}'}
    await stage.client.patch(Node, "", "pooled", {"metadata": {"annotations": own}})
    await stage.until_offers("pooled", "4600")
    ratio = {extension.LABEL_CPU_RECLAIM_RATIO: "0.8"}
    await stage.client.patch(Node, "", "pooled", {"metadata": {"labels": ratio}})
    await stage.until_offers("pooled", "5400")
    await stage.client.patch(Node, "", "pooled", {"metadata": {"labels": {"pool": "off"}}})
    await stage.until_offers("pooled", None)


async def test_a_section_that_cannot_be_read_leaves_everything_in_force_and_says_so(stage: Stage) -> None:
    strategy = {"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 60}}
    await stage.configure(colocation=COLOCATION, resource_threshold=strategy)
    await stage.add_node("kept")
    await stage.report("kept")
    await stage.until_offers("kept", "6600")

    async def suppresses(percent: int, policy: str) -> bool:
        found = await stage.get(NodeSLO, "kept")
        spec = (found or {}).get("spec", {})
        threshold, burst = spec.get("resourceUsedThresholdWithBE", {}), spec.get("cpuBurstStrategy", {})
        return threshold.get("cpuSuppressThresholdPercent") == percent and burst.get("policy") == policy

    await stage.until(lambda: suppresses(60, "none"))
    burst = {"clusterStrategy": {"policy": "auto"}}
    await stage.configure(colocation="{", resource_threshold="[]", cpu_burst=burst)
    await stage.until(lambda: suppresses(60, "auto"))
    reasons: set[str] = set()

    async def are_reported() -> bool:
        events = await stage.client.list_all(Event)
        reasons.update(event.reason for event in events if event.regarding.name == NAME)
        return {"ColocationCfgUnmarshalFailed", "SLOCfgUnmarshalFailed"} <= reasons

    await stage.until(are_reported)
    await stage.report("kept", cpu="3")
    await stage.until_offers("kept", "4600")
    metric = await stage.get(NodeMetric, "kept")
    assert metric is not None
    assert metric["spec"]["metricCollectPolicy"]["reportIntervalSeconds"] == 1
    await stage.client.delete(ConfigMap, NAMESPACE, NAME)
    await stage.report("kept", cpu="1")
    await stage.until_offers("kept", "6600")


async def test_a_report_that_is_too_old_and_what_others_took_reduce_the_offer(stage: Stage) -> None:
    await stage.add_node("shared")
    await stage.report("shared")
    await stage.until_offers("shared", "6600")
    taken = {"name": "yarn", "priority": "koord-batch", "resources": {extension.BATCH_CPU: "2k"}}
    own = {extension.ANNOTATION_THIRD_PARTY_ALLOCATIONS: json.dumps({"allocations": [taken]})}
    await stage.client.patch(Node, "", "shared", {"metadata": {"annotations": own}})
    await stage.until_offers("shared", "4600")
    origin = await stage.annotation("shared", extension.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE)
    assert origin is not None
    assert json.loads(origin)["resources"][extension.BATCH_CPU] == "6600"
    await stage.report("shared", age=timedelta(minutes=16))
    await stage.until_offers("shared", None)
    await stage.until_offers("shared", None, extension.BATCH_MEMORY)


async def test_devices_come_and_go_with_their_healthy_cards(stage: Stage) -> None:
    await stage.add_node("gpus")
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi"}
    cards = [
        {"id": f"gpu-{minor}", "minor": minor, "type": "gpu", "health": minor != 1, "resources": amounts}
        for minor in range(3)
    ]
    cards.append({"id": "nic", "minor": 0, "type": "rdma", "health": True})
    document = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "gpus", "labels": {extension.LABEL_GPU_MODEL: "A100"}},
        "spec": {"devices": cards},
    }
    await stage.client.create_raw(resource_of(Device), "", document)
    await stage.until_offers("gpus", "200", "koordinator.sh/gpu-core")
    await stage.until_offers("gpus", "160Gi", "koordinator.sh/gpu-memory")
    await stage.until_offers("gpus", "100", "koordinator.sh/rdma")

    async def is_labelled() -> bool:
        found = await stage.get(Node, "gpus")
        return (found or {})["metadata"].get("labels", {}).get(extension.LABEL_GPU_MODEL) == "A100"

    await stage.until(is_labelled)
    await stage.client.delete(Device, "", "gpus")
    for name in ("gpu", "gpu-core", "gpu-memory", "rdma"):
        await stage.until_offers("gpus", None, f"koordinator.sh/{name}")


async def test_the_objects_of_a_node_live_as_long_as_it(stage: Stage) -> None:
    await stage.add_node("gone")

    async def exist() -> bool:
        return (
            await stage.get(NodeMetric, "gone") is not None and await stage.get(NodeSLO, "gone") is not None
        )

    await stage.until(exist)
    await stage.client.delete(NodeMetric, "", "gone")
    await stage.client.delete(NodeSLO, "", "gone")
    await stage.until(exist)
    await stage.client.delete(Node, "", "gone")

    async def are_gone() -> bool:
        return await stage.get(NodeMetric, "gone") is None and await stage.get(NodeSLO, "gone") is None

    await stage.until(are_gone)
