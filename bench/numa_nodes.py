"""Filter and Score of NodeNUMAResource and DeviceShare on 5,000 nodes, by the NUMA policy of the nodes.

A node has two NUMA nodes of 64 CPUs and four GPUs each, and pods that have some of both on one NUMA node.
The pod has 32 CPUs of its own, in whole cores, and four GPUs or none. The columns are up to date, as events
keep them. In some rows

* each pod has another number of CPUs and GPUs, so that nothing that was found out for one pod serves another;
* a pod was placed on a node since the last attempt;
* every GPU of the nodes may be shared by pods, so that the devices of hardly two nodes are in the same state;
* the nodes have eight NUMA nodes of 16 CPUs and a GPU each, of which 255 sets may serve the pod;
* the pod wants a virtual function of a network card near its GPUs;
* 500 of the nodes have a Reservation of 8 CPUs and a GPU, of which another pod has a half, or 100 of them
  have one for the pod: on nodes without other pods, which are all in the same state, or with some of them.
"""

import json
import random
import time
from typing import Any

import numpy as np

from bench.report import Result
from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.reservation import RESTRICTED, Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build

GOAL_MS = 15
NODES = 5000
_POLICIES = ("", "BestEffort", "Restricted", "SingleNUMANode")
_PODS = {"32 CPUs": 0, "4 GPUs and 32 CPUs": 4}
_CPUS, _CORES, _GPUS = 128, 64, 8
"""Of a node."""
_FUNCTIONS = 16
"""Virtual functions of each of four network cards."""
_PLUGINS = ("NodeNUMAResource", "DeviceShare")
_OWNER = "owner"
_RESERVED = {"cpu": "8", "memory": "8Gi", extension.GPU_CORE: "100", extension.GPU_MEMORY_RATIO: "100"}


def run(rounds: int = 5, nodes: int = NODES) -> Result:
    """Measure."""
    result = Result.begin(
        "numa_nodes",
        prefilter="PreFilter, CPU ms",
        filter="Filter, CPU ms",
        score="Score, CPU ms",
        both="Filter and Score, CPU ms",
    )
    for policy in _POLICIES:
        said = f"{policy or 'no'} policy"
        cluster, framework = _world(policy, nodes)
        everything = cluster.nodes.all()
        for asks, gpus in _PODS.items():
            pod = _pod(gpus)
            _measure(framework, pod, everything)
            for _ in range(rounds):
                _add(result, f"{asks}, {said}", _measure(framework, pod, everything))
        rng = random.Random(2)
        for _ in range(4 * rounds):
            pod = _pod(rng.randint(1, 8), rng.randint(1, 64))
            label = f"1 to 8 GPUs and 1 to 64 CPUs, each pod other ones, {said}"
            _add(result, label, _measure(framework, pod, everything, may_fit_nowhere=True))
        for number in range(rounds):
            cluster.store(Pod).apply(_bound(f"more-{number}", f"node-{number}", 0, [], []))
            measured = _measure(framework, _pod(4), everything)
            _add(result, f"4 GPUs and 32 CPUs, after a pod was placed, {said}", measured)
    for policy in _POLICIES:
        cluster, framework = _world(policy, nodes, shares=True)
        _measure(framework, _pod(4), cluster.nodes.all())
        for gpus in range(1, 5):
            measured = _measure(framework, _pod(gpus), cluster.nodes.all())
            label = f"1 to 4 GPUs and 32 CPUs, each pod other ones, shared GPUs, {policy or 'no'} policy"
            _add(result, label, measured)
    for policy in _POLICIES:
        said = f"{policy or 'no'} policy"
        cluster, framework = _world(policy, nodes, numa_nodes=8)
        _repeat(result, f"4 GPUs and 32 CPUs, 8 NUMA nodes, {said}", framework, _pod(4), cluster, rounds)
        cluster, framework = _world(policy, nodes, cards=True)
        pod = _pod(2, 8, with_function=True)
        _repeat(result, f"2 GPUs and a virtual function near them, {said}", framework, pod, cluster, rounds)
    for policy in _POLICIES:
        said = f"{policy or 'no'} policy"
        cluster, framework = _world(policy, nodes, reserved=500)
        label = f"4 GPUs and 32 CPUs, 500 Reservations that others use, {said}"
        _repeat(result, label, framework, _pod(4), cluster, rounds)
        owner = _pod(1, 4)
        owner.metadata.labels["app"] = _OWNER
        for allocates in ("", RESTRICTED):
            cluster, framework = _world(policy, nodes, reserved=100, allocates=allocates)
            which = f"100 {allocates} Reservations" if allocates else "100 Reservations"
            label = f"a GPU and 4 CPUs, {which} for the pod, {said}"
            _repeat(result, label, framework, owner, cluster, rounds)
        cluster, framework = _world(policy, nodes, reserved=100, busy=True)
        everything, rng = cluster.nodes.all(), random.Random(3)
        _measure(framework, owner, everything)
        for _ in range(2 * rounds):
            owner = _pod(rng.randint(1, 3), rng.randint(1, 24))
            owner.metadata.labels["app"] = _OWNER
            asks = "1 to 3 GPUs and 1 to 24 CPUs, each pod other ones"
            label = f"{asks}, 100 Reservations for the pod beside pods, {said}"
            _add(result, label, _measure(framework, owner, everything, may_fit_nowhere=True))
    return result


def _repeat(
    result: Result, label: str, framework: Framework, pod: Pod, cluster: Cluster, rounds: int
) -> None:
    """Measure the same pod again and again; the first time is not counted."""
    everything = cluster.nodes.all()
    _measure(framework, pod, everything, may_fit_nowhere=True)
    for _ in range(rounds):
        _add(result, label, _measure(framework, pod, everything, may_fit_nowhere=True))


def _add(result: Result, label: str, measured: tuple[float, float, float]) -> None:
    preparing, filtering, scoring = measured
    result.row(label, f"goal: {GOAL_MS} ms at most").add(
        prefilter=preparing, filter=filtering, score=scoring, both=filtering + scoring
    )


def _measure(
    framework: Framework, pod: Pod, nodes: NodeSet, *, may_fit_nowhere: bool = False
) -> tuple[float, float, float]:
    """Return the processor time of PreFilter, Filter, and Score of the nodes that are left (ms)."""
    state, began = framework.new_state(), time.process_time()
    passed = framework.run_pre_filter(state, pod, nodes).status
    if not passed.is_success:
        raise RuntimeError(f"PreFilter refuses the pod: {passed.message}")
    started = time.process_time()
    outcome = framework.run_filters(state, pod, nodes)
    filtered = time.process_time()
    if not outcome.feasible.any():
        if may_fit_nowhere:
            return (started - began) * 1e3, (filtered - started) * 1e3, 0.0
        raise RuntimeError("the pod fits no node")
    scores, status = framework.run_score(state, pod, nodes.subset(outcome.feasible))
    ended = time.process_time()
    if not status.is_success or scores is None:
        raise RuntimeError(f"Score fails: {status.message}")
    return (started - began) * 1e3, (filtered - started) * 1e3, (ended - filtered) * 1e3


def _world(
    policy: str,
    count: int,
    *,
    shares: bool = False,
    numa_nodes: int = 2,
    cards: bool = False,
    reserved: int = 0,
    allocates: str = "",
    busy: bool = False,
) -> tuple[Cluster, Framework]:
    rng, cluster = random.Random(1), Cluster()
    for at in range(count):
        name = f"node-{at}"
        cluster.store(Node).apply(_node(name, policy))
        cluster.store(NodeResourceTopology).apply(_topology(name, numa_nodes))
        cluster.store(Device).apply(_device(name, numa_nodes, cards=cards))
        if at < reserved:
            reservation, owner = _reserved(name, allocates)
            cluster.store(Reservation).apply(reservation)
            cluster.store(Pod).apply(owner)
            if not busy:
                continue
        pods = _sharing(rng, name) if shares else _running(rng, name, numa_nodes, is_reserved=at < reserved)
        for pod in pods:
            cluster.store(Pod).apply(pod)
    named = [{"name": name} for name in (*_PLUGINS, *(["Reservation"] if reserved else []))]
    profile = {"plugins": {"multiPoint": {"enabled": [*named, {"name": "DefaultBinder"}]}}}
    document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    built = build(read(document), lambda _: Handle(cluster), place=Place.EXTENDER)
    return cluster, built.frameworks["default-scheduler"]


def _node(name: str, policy: str) -> Node:
    amounts = {"cpu": str(_CPUS), "memory": "512Gi", "pods": "110", "koordinator.sh/gpu": "800"}
    labels = {extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: policy} if policy else {}
    return decode(
        Node,
        {"metadata": {"name": name, "uid": name, "labels": labels}, "status": {"allocatable": amounts}},
    )


def _topology(name: str, numa_nodes: int) -> NodeResourceTopology:
    """CPUs 2n and 2n + 1 are core n; the cores of a NUMA node follow each other."""
    detail = [
        {"id": cpu, "core": cpu // 2, "socket": cpu * 2 // _CPUS, "node": cpu * numa_nodes // _CPUS}
        for cpu in range(_CPUS)
    ]
    amounts = {"cpu": str(_CPUS // numa_nodes), "memory": f"{512 // numa_nodes}Gi"}
    resources = [{"name": key, "allocatable": each, "capacity": each} for key, each in amounts.items()]
    zones = [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(numa_nodes)]
    annotations = {extension.ANNOTATION_NODE_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    return decode(
        NodeResourceTopology, {"metadata": {"name": name, "annotations": annotations}, "zones": zones}
    )


def _device(name: str, numa_nodes: int, *, cards: bool) -> Device:
    devices = [
        {
            "type": "gpu",
            "minor": minor,
            "health": True,
            "id": f"GPU-{minor}",
            "resources": {
                extension.GPU_CORE: "100",
                extension.GPU_MEMORY_RATIO: "100",
                extension.GPU_MEMORY: "80Gi",
            },
            "topology": _place(minor // 2, minor * numa_nodes // _GPUS),
        }
        for minor in range(_GPUS)
    ]
    if cards:
        devices += [
            {
                "type": "rdma",
                "minor": minor,
                "health": True,
                "id": f"RDMA-{minor}",
                "resources": {extension.RDMA: "100"},
                "topology": _place(minor, minor * numa_nodes // 4),
                "vfGroups": [
                    {
                        "vfs": [
                            {"minor": at, "busID": f"0000:{minor:02}:{at:02}.0"} for at in range(_FUNCTIONS)
                        ]
                    }
                ],
            }
            for minor in range(4)
        ]
    return decode(Device, {"metadata": {"name": name}, "spec": {"devices": devices}})


def _place(switch: int, numa_node: int) -> dict[str, Any]:
    return {"nodeID": numa_node, "pcieID": str(switch), "socketID": switch // 2}


def _running(rng: random.Random, node: str, numa_nodes: int, *, is_reserved: bool) -> list[Pod]:
    """Up to four pods with whole cores and GPUs of one NUMA node each, without those that are reserved."""
    cores = [each.tolist() for each in np.array_split(range(_CORES), numa_nodes)]
    gpus = [each.tolist() for each in np.array_split(range(_GPUS), numa_nodes)]
    if is_reserved:
        del cores[-1][-4:], gpus[-1][-1:]
    pods = []
    for number in range(rng.randrange(5)):
        zone, has, many = rng.randrange(numa_nodes), rng.randrange(3), rng.randrange(1, 9)
        taken = [gpus[zone].pop(rng.randrange(len(gpus[zone]))) for _ in range(min(has, len(gpus[zone])))]
        many = min(many, len(cores[zone]))
        of_pod = [cores[zone].pop(rng.randrange(len(cores[zone]))) for _ in range(many)]
        pods.append(_bound(f"{node}-{number}", node, zone, of_pod, taken))
    return pods


def _sharing(rng: random.Random, node: str) -> list[Pod]:
    """Two pods of two cores, with a part of each of up to three GPUs of their NUMA node."""
    pods = []
    for zone in range(2):
        gpus = rng.sample(range(zone * 4, (zone + 1) * 4), rng.randrange(4))
        cores = [zone * 32, zone * 32 + 1]
        pods.append(_bound(f"{node}-{zone}", node, zone, cores, gpus, rng.randrange(10, 91)))
    return pods


def _reserved(node: str, allocates: str) -> tuple[Reservation, Pod]:
    """A Reservation of the last four cores and the last GPU, and a pod that has half of both."""
    name = f"reservation-{node}"
    held = _bound(name, node, 1, [60, 61, 62, 63], [7])
    document = {
        "metadata": {"name": name, "uid": name, "annotations": dict(held.metadata.annotations)},
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": _RESERVED}}]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": _OWNER}}}],
            "ttl": "0s",
            "allocateOnce": False,
            "allocatePolicy": allocates,
        },
        "status": {"phase": "Available", "nodeName": node, "allocatable": _RESERVED},
    }
    owner = _bound(f"owner-{node}", node, 1, [60, 61], [7], 50)
    owner.metadata.annotations[extension.ANNOTATION_RESERVATION_ALLOCATED] = json.dumps(
        {"name": name, "uid": name}
    )
    return decode(Reservation, document), owner


def _bound(name: str, node: str, zone: int, cores: list[int], gpus: list[int], percent: int = 100) -> Pod:
    cpus = sorted(cpu for core in cores for cpu in (2 * core, 2 * core + 1))
    amounts = {"cpu": str(len(cpus)), "memory": "8Gi"}
    status = {
        "cpuset": ",".join(map(str, cpus)),
        "numaNodeResources": [{"node": zone, "resources": amounts}],
    }
    annotations = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps(status)}
    if gpus:
        each = {
            extension.GPU_CORE: str(percent),
            extension.GPU_MEMORY_RATIO: str(percent),
            extension.GPU_MEMORY: f"{80 * percent * 1024 // 100}Mi",
        }
        annotations[extension.ANNOTATION_DEVICE_ALLOCATED] = json.dumps(
            {"gpu": [{"minor": minor, "resources": each} for minor in gpus]}
        )
    document = _document(name, amounts, annotations)
    document["spec"]["nodeName"] = node
    return decode(Pod, document)


def _pod(gpus: int, cpus: int = 32, *, with_function: bool = False) -> Pod:
    amounts = {"cpu": str(cpus), "memory": "64Gi"}
    if gpus:
        amounts["koordinator.sh/gpu"] = str(100 * gpus)
    policy = "SpreadByPCPUs" if cpus % 2 else "FullPCPUs"
    spec = {"preferredCPUBindPolicy": policy, "requiredCPUBindPolicy": policy}
    annotations = {extension.ANNOTATION_RESOURCE_SPEC: json.dumps(spec)}
    if with_function:
        amounts[extension.RDMA] = "1"
        annotations[extension.ANNOTATION_DEVICE_ALLOCATE_HINT] = json.dumps({"rdma": {"vfSelector": {}}})
        joint = {"deviceTypes": ["gpu", "rdma"]}
        annotations[extension.ANNOTATION_DEVICE_JOINT_ALLOCATE] = json.dumps(joint)
    return decode(Pod, _document("pod", amounts, annotations))


def _document(name: str, amounts: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": annotations}
    metadata["labels"] = {extension.LABEL_POD_QOS: "LSR"}
    containers = [{"name": "main", "resources": {"requests": amounts}}]
    return {"metadata": metadata, "spec": {"priority": 9500, "containers": containers}}
