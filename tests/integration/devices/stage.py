"""A cluster of one node with NUMA nodes and GPUs, and the profiles that deploy/ ships for them.

The node has two NUMA nodes, with half of its CPUs, memory and GPUs each. Pods and Reservations are for
koord-scheduler.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from koordpy import data
from koordpy.api import device_allocations, extension, resource_status
from koordpy.api.core import Node, Pod, PriorityClass
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.reservation import AVAILABLE, Reservation
from koordpy.api.resource_status import ResourceStatus
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib import cpuset
from tests.integration.reservations.stage import ALLOCATED, NAMESPACE, Stage

Document = dict[str, Any]

SCHEDULER = "koord-scheduler"
NODE = "gpu-node"
CPUS, MEMORY, GPUS = 16, 64 << 30, 2
SPREAD = json.dumps({"preferredCPUBindPolicy": "SpreadByPCPUs"})
PROD = "koord-prod"
CRITICAL = "critical"


class DeviceStage(Stage):
    """One cluster with one such node."""

    scheduler_name = SCHEDULER

    def profiles(self) -> Document:
        """Return the profiles of deploy/kustomize/components/numa-and-devices."""
        return _shipped("koordpy-profiles-numa-and-devices.yaml")

    def scheduler_profile(self) -> Document:
        """Return the profile of the scheduler in the same component."""
        [profile] = _shipped("kube-scheduler-config.yaml")["profiles"]
        return dict(profile)

    async def prepare(self) -> None:
        """Create the priority classes and the node, and run everything."""
        for name, value in ((PROD, 9000), (CRITICAL, 2_000_000)):
            await self.client.create_raw(
                resource_of(PriorityClass),
                "",
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                },
            )
        for type_, document in ((NodeResourceTopology, topology()), (Device, device()), (Node, node())):
            await self.client.create_raw(resource_of(type_), "", document)
        await self.start()

    async def label_node(self, policy: str) -> None:
        """Set the NUMA topology policy of the node, and wait until koordpy has seen it."""
        label = extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY
        await self.client.patch(Node, "", NODE, {"metadata": {"labels": {label: policy}}})

        async def seen() -> bool:
            found = self.process.cluster.store(Node).get("", NODE)
            return found is not None and found.metadata.labels.get(label) == policy

        await self.until(seen, "the label of the node is not seen")

    # --- pods and Reservations ---------------------------------------------------------------------

    async def run(
        self,
        name: str,
        requests: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Pod:
        """Create a pod and return it when it is bound."""
        await self.create(name, requests, labels, annotations, **spec)
        assert await self.node_of(name) == NODE
        return await self.pod(name)

    async def create(
        self,
        name: str,
        requests: Mapping[str, str],
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a pod whose limits are its requests."""
        await self.client.create_raw(
            resource_of(Pod),
            NAMESPACE,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "labels": dict(labels or {}),
                    "annotations": dict(annotations or {}),
                },
                "spec": {
                    "schedulerName": SCHEDULER,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container(requests, requests)],
                    **spec,
                },
            },
        )

    async def hold(
        self,
        name: str,
        requests: Mapping[str, str],
        owner: str,
        template: Document | None = None,
        **spec: Any,
    ) -> Reservation:
        """Create a Reservation for pods with the label `OWNER: "true"`; return it as it becomes available.

        `template` is more of the spec of its template, and the template's labels and annotations.
        """
        more = dict(template or {})
        metadata: Document = {key: more.pop(key) for key in ("labels", "annotations") if key in more}
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": {
                    "metadata": {"namespace": NAMESPACE, **metadata},
                    "spec": {"schedulerName": SCHEDULER, "containers": [container(requests)], **more},
                },
                "owners": [{"labelSelector": {"matchLabels": {owner: "true"}}}],
                **spec,
            },
        }
        await self.client.create_raw(resource_of(Reservation), "", document)
        return await self.in_phase(name, AVAILABLE)

    async def owned_by(self, name: str, *pods: Pod) -> Reservation:
        """Wait until a Reservation says that just these pods use it, and how much; and return it."""
        owners = sorted((pod.metadata.uid, pod.metadata.namespace, pod.metadata.name) for pod in pods)

        async def there() -> Reservation | None:
            found = await self.reservation(name)
            current = [(each.uid, each.namespace, each.name) for each in found.status.current_owners]
            return found if current == owners else None

        found: Reservation = await self.until(there, f"reservation {name} does not have these owners")
        return found


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[DeviceStage]:
    """Run the stage on an API server of its own."""
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        stage = DeviceStage({"server": server.url}, folder, server=server)
        try:
            await stage.prepare()
            yield stage
        finally:
            await stage.stop()
            await stage.client.close()


def _shipped(name: str) -> Document:
    folder = data.deploy("kustomize", "components", "numa-and-devices")
    found: Document = yaml.safe_load((folder / name).read_text())
    return found


def container(requests: Mapping[str, str], limits: Mapping[str, str] | None = None) -> Document:
    """Return a container."""
    resources = {"requests": dict(requests), **({"limits": dict(limits)} if limits is not None else {})}
    return {"name": "main", "image": "registry.test/pause:1", "resources": resources}


def node() -> Document:
    """Return the node, as the controllers of devices complete it."""
    capacity = {
        "cpu": str(CPUS),
        "memory": str(MEMORY),
        "pods": "110",
        extension.GPU: str(100 * GPUS),
        extension.GPU_CORE: str(100 * GPUS),
        extension.GPU_MEMORY: f"{16 * GPUS}Gi",
        extension.GPU_MEMORY_RATIO: str(100 * GPUS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}],
        },
    }


def topology() -> Document:
    """Return its NodeResourceTopology."""
    half = CPUS // 2
    detail = [
        {"id": cpu, "core": cpu // 2, "socket": cpu // half, "node": cpu // half} for cpu in range(CPUS)
    ]
    amounts = {"cpu": str(half), "memory": str(MEMORY // 2)}
    resources = [
        {"name": key, "capacity": amount, "allocatable": amount, "available": amount}
        for key, amount in amounts.items()
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": NODE,
            "annotations": {extension.ANNOTATION_NODE_CPU_TOPOLOGY: json.dumps({"detail": detail})},
        },
        "topologyPolicies": ["None"],
        "zones": [{"name": f"node-{n}", "type": "Node", "resources": resources} for n in range(2)],
    }


def device() -> Document:
    """Return its Device."""
    gpus = [
        {
            "type": "gpu",
            "id": f"GPU-{minor}",
            "minor": minor,
            "health": True,
            "resources": {
                extension.GPU_CORE: "100",
                extension.GPU_MEMORY: "16Gi",
                extension.GPU_MEMORY_RATIO: "100",
            },
            "topology": {"socketID": minor, "nodeID": minor, "pcieID": str(minor), "busID": ""},
        }
        for minor in range(GPUS)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": NODE},
        "spec": {"devices": gpus},
    }


async def removed(client: Client) -> None:
    """Delete the objects that other tests of the control plane do not have."""
    await client.delete(NodeResourceTopology, "", NODE)
    await client.delete(Device, "", NODE)
    for name in (PROD, CRITICAL):
        await client.delete(PriorityClass, "", name)


# --- what annotations say ------------------------------------------------------------------------


def uses(pod: Pod) -> str:
    """Return the name of the Reservation that a pod uses, or nothing."""
    name: str = json.loads(pod.metadata.annotations.get(ALLOCATED, '{"name": ""}'))["name"]
    return name


def devices(found: Pod | Reservation) -> dict[int, dict[str, int]]:
    """Return the GPUs of a pod or Reservation by minor."""
    allocated = device_allocations.of(found.metadata.annotations)
    assert set(allocated) <= {"gpu"}
    return {
        each.minor: {name: amount.value() for name, amount in each.resources.items()}
        for each in allocated.get("gpu", ())
    }


def status(found: Pod | Reservation) -> ResourceStatus:
    """Return the CPUs and NUMA nodes of a pod or Reservation."""
    return resource_status.of(found.metadata.annotations)


def cpus(found: Pod | Reservation) -> frozenset[int]:
    """Return the CPUs of a pod or Reservation."""
    return cpuset.parse(status(found).cpuset) if status(found).cpuset else frozenset()
