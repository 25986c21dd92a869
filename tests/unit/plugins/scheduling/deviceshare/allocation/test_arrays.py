"""The answers for all nodes at once are those of the allocator for each node."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import AllocatedFunction, DeviceAllocation
from koordpy.api.extension import FPGA, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from koordpy.api.label_selector import of_labels
from koordpy.api.quantity import parse
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.status import SUCCESS
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY
from koordpy_plugins.scheduling.deviceshare.allocation import arrays, reasons
from koordpy_plugins.scheduling.deviceshare.allocation.allocator import allocate, score
from koordpy_plugins.scheduling.deviceshare.allocation.requests import (
    APPLY_FOR_ALL,
    DEVICE_LEVEL,
    REQUESTS_AS_COUNT,
    DeviceHint,
    GPURequirements,
    JointAllocation,
    Requests,
)
from koordpy_plugins.scheduling.deviceshare.attempt import hints
from koordpy_plugins.scheduling.deviceshare.attempt.hint_arrays import hint_groups
from koordpy_plugins.scheduling.deviceshare.attempt.node_attempt import NodeAttempt
from koordpy_plugins.scheduling.deviceshare.attempt.prepared import Prepared
from koordpy_plugins.scheduling.deviceshare.reservations.restored import RestoredNode
from koordpy_plugins.scheduling.deviceshare.scoring import Scorer
from koordpy_plugins.scheduling.deviceshare.state.columns import DeviceColumns
from koordpy_plugins.scheduling.deviceshare.state.ledger import DeviceLedger
from koordpy_plugins.scheduling.deviceshare.state.minors import bits_of

from ..nodes import amounts, card, device, gpu

NODES = [f"n{number}" for number in range(4)]
TABLES = (
    "{}",
    '{"1":[{"minors":[0]},{"minors":[2],"allocationScore":1}],"2":[{"minors":[0,1]},{"minors":[2,3]}]}',
    '{"2":[{"minors":[1,2],"ringBusBandwidth":"4"},{"minors":[0,3],"allocationScore":-1}]}',
    '{"1":[{"minors":[]}],"2":[{"minors":[40,41]}]}',
    '{"1":[{"minors":[0]},{"minors":[1]},{"minors":[2]},{"minors":[3]}],'
    '"2":[{"minors":[0,1],"allocationScore":3},{"minors":[2,3],"allocationScore":3},{"minors":[1,2]}],'
    '"4":[{"minors":[0,1,2,3],"allocationScore":5}]}',
)
SIZES: tuple[dict[str, str], ...] = (
    {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"},
    {GPU_MEMORY_RATIO: "50"},
    {GPU_MEMORY: "4Gi"},
    {},
)


LABELS: tuple[dict[str, str], ...] = ({}, {"a": "b"}, {"a": "c"})
KINDS = ("", "", "a", "ab", "aa", "b")
"""Groups of virtual functions, by the first letter of a label."""


def functions(rng: Random, minor: int, kind: str) -> dict[str, Any]:
    """A group with up to two virtual functions."""
    listed = [{"minor": at, "busID": f"{minor}{kind}{at}"} for at in range(rng.randint(0, 2))]
    return {"labels": {"type": kind}, "vfs": listed}


def random_device(rng: Random, name: str) -> Device:
    """A few GPUs and cards with everything that decides."""
    gpus = []
    numa_nodes = rng.choice(((-1, 0, 1), (-1, 0, 1), range(8), (0, 62, 63)))
    for minor in rng.sample([0, 1, 2, 3, 4, 5], rng.randint(0, 6)) + [rng.choice((16, 31, 32, 63, 70))] * (
        rng.random() < 0.05
    ):
        place = {"nodeID": rng.choice(numa_nodes), "pcieID": rng.choice("ab")}
        resources = rng.choice(
            (
                {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"},
                {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"},
                {GPU_MEMORY: "16Gi"},
                {GPU_CORE: rng.choice(("100", "0", "500m")), "a.io/b": "1"},
                {GPU_CORE: "100", RDMA: rng.choice(("0", "1"))},
            )
        )
        more = {"topology": place, "labels": rng.choice(LABELS)}
        gpus.append(gpu(minor, resources=resources, health=rng.random() < 0.8, **more))
    if gpus and rng.random() < 0.2:
        gpus[0]["topology"] = None
    cards = [
        card(
            minor,
            health=rng.random() < 0.8,
            labels=rng.choice(LABELS),
            vfGroups=[functions(rng, minor, kind) for kind in rng.choice(KINDS)],
        )
        for minor in range(rng.randint(0, 3))
    ]
    labels = {"node.koordinator.sh/gpu-partition-policy": rng.choice(("Honor", "Prefer"))}
    annotations = (
        {"scheduling.koordinator.sh/gpu-partitions": rng.choice(TABLES)} if rng.random() < 0.6 else {}
    )
    return device([*gpus, *cards], name=name, labels=labels, annotations=annotations)


def random_node(rng: Random, name: str) -> Node:
    labels = {
        "node.koordinator.sh/gpu-vendor": rng.choice(("", "nvidia", "v")),
        "node.koordinator.sh/gpu-model": rng.choice(("H800", "m")),
        "node.koordinator.sh/gpu-partition-policy": rng.choice(("Honor", "")),
    }
    return decode(Node, {"metadata": {"name": name, "labels": labels}})


def random_use(rng: Random) -> dict[str, tuple[DeviceAllocation, ...]]:
    gpus = (DeviceAllocation(rng.randint(0, 6), amounts(rng.choice(SIZES))),)
    if rng.random() < 0.6:
        return {"gpu": gpus}
    taken = [AllocatedFunction(f"0{kind}{at}", at) for kind in "ab" for at in range(2) if rng.random() < 0.5]
    return {"rdma": (DeviceAllocation(0, amounts({RDMA: "60"}), virtual_functions=tuple(taken)),)}


def random_requests(rng: Random) -> Requests:
    asked, hints, wanted = {}, {}, None
    if rng.random() < 0.8:
        per_gpu = amounts(rng.choice((SIZES[0], SIZES[0], *SIZES[:3])))
        asked["gpu"] = per_gpu
        shared = per_gpu.get(GPU_MEMORY_RATIO) != parse("100")
        wanted = GPURequirements(
            per_gpu,
            rng.choice((1, 1, 2, 3)),
            shared,
            honors_partitions=rng.random() < 0.4,
            restricted=rng.random() < 0.3,
            bandwidth=rng.choice((None, None, parse("4"), parse("5"))),
            required_scope=rng.choice(("", "", "", "", "PCIe", "NUMANode", "Node", "Device", "x")),
            enforces_templates=shared and rng.random() < 0.3,
            templates={"v-m": ("a",), "nvidia-m": ("a", "b")},
        )
    if wanted is not None and rng.random() < 0.3:
        hints["gpu"] = DeviceHint(selector=of_labels({"a": "b"}))
    for type_, name in (("rdma", RDMA), ("fpga", FPGA)):
        if rng.random() < (0.5 if type_ == "rdma" else 0.1) or (type_ == "fpga" and not asked):
            asked[type_] = amounts({name: rng.choice(("1", "40", "100", "200"))})
            hints[type_] = DeviceHint(
                strategy=rng.choice(("", APPLY_FOR_ALL, REQUESTS_AS_COUNT)),
                exclusive_policy=rng.choice(("", DEVICE_LEVEL)),
                selector=rng.choice((None, None, None, of_labels({"a": "b"}))),
                vf_selector=rng.choice((None, None, of_labels({}), of_labels({"type": "a"}))),
            )
    return Requests(asked, wanted, hints)


def random_cluster(rng: Random) -> Cluster:
    cluster = Cluster()
    ledger, _ = cluster.shared(DeviceLedger), cluster.nodes
    for name in NODES:
        cluster.store(Node).apply(random_node(rng, name))
        if rng.random() < 0.9:
            cluster.store(Device).apply(random_device(rng, name))
        for number in range(rng.randint(0, 3)):
            if rng.random() < 0.7:
                ledger.reserve(name, f"x/{name}-{number}", random_use(rng))
        if rng.random() < 0.1:
            cluster.store(Device).discard(name)
    return cluster


@given(st.integers(0, 1 << 32))
@settings(max_examples=200, deadline=None)
def test_arrays_and_allocator_agree_on_devices_of_some_numa_nodes(seed: int) -> None:
    rng = Random(seed)
    cluster = random_cluster(rng)
    ledger, columns = cluster.shared(DeviceLedger), cluster.shared(DeviceColumns)
    nodes = cluster.nodes.all()
    masks = [rng.choice((ANY, 1, 2, 3, 4)) for _ in nodes.names]
    for _ in range(3):
        requests = random_requests(rng)
        allocation = arrays.allocation_of(requests)
        assert allocation is not None
        views, which = arrays.views_of(columns, nodes, allocation.demands, np.array(masks))
        answers, gpus = allocation.choose(views)
        for at, name, mask in zip(which.tolist(), nodes.names, masks, strict=True):
            devices, node = ledger.node(name), cluster.store(Node).by_key(name)
            if devices is None or answers.unknown[at]:
                continue
            assert node is not None
            within = None if mask == ANY else mask
            found, expected = allocate(devices, node.metadata.labels, requests, numa_mask=within)
            assert answers.statuses[answers.keys[at]] == expected, (name, mask, devices.summary(), requests)
            if expected.is_success:
                assert bits_of(each.minor for each in found.get("gpu", ())) == gpus[at]


@given(st.integers(0, 1 << 32))
@settings(max_examples=200, deadline=None)
def test_hints_of_groups_are_those_of_each_node(seed: int) -> None:
    rng = Random(seed)
    cluster = random_cluster(rng)
    ledger, columns = cluster.shared(DeviceLedger), cluster.shared(DeviceColumns)
    nodes = cluster.nodes.all()
    for _ in range(3):
        requests = random_requests(rng)
        groups = hint_groups(columns, nodes, requests, np.zeros(len(nodes), np.bool_))
        assert groups is not None
        for name, number in zip(nodes.names, groups.numbers.tolist(), strict=True):
            node = cluster.store(Node).by_key(name)
            assert node is not None
            prepared, devices = Prepared(requests), ledger.node(name)
            attempt = None
            if devices is not None:
                attempt = NodeAttempt(prepared, RestoredNode(), devices, node, Pod())
            if number >= 0:
                assert groups.hints[number] == hints.of_node(attempt, prepared)


@given(st.integers(0, 1 << 32))
@settings(max_examples=200, deadline=None)
def test_arrays_and_allocator_agree(seed: int) -> None:
    rng = Random(seed)
    cluster = random_cluster(rng)
    ledger, columns = cluster.shared(DeviceLedger), cluster.shared(DeviceColumns)
    nodes = cluster.nodes.all()
    scorer = Scorer({GPU_MEMORY_RATIO: 1, GPU_MEMORY: 3, RDMA: 2}, rng.random() < 0.5)
    for _ in range(3):
        requests = random_requests(rng)
        answers = arrays.feasible(columns, nodes, requests)
        scored = arrays.scores(columns, nodes, requests, scorer)
        assert answers is not None
        assert scored is not None
        for at, name in enumerate(nodes.names):
            devices = ledger.node(name)
            found = answers.statuses[answers.keys[at]]
            if devices is None:
                assert (found, scored[0][at], answers.unknown[at]) == (SUCCESS, 0, False)
            elif not answers.unknown[at]:
                node = cluster.store(Node).by_key(name)
                assert node is not None
                _, expected = allocate(devices, node.metadata.labels, requests)
                assert found == expected, (name, devices.summary(), requests)
                if expected.is_success:
                    assert scored[0][at] == score(devices, requests, scorer)[0]
        name = rng.choice(NODES)
        ledger.reserve(name, "x/more", random_use(rng))


def test_a_partition_with_a_used_gpu_is_no_partition() -> None:
    cluster = Cluster()
    columns = cluster.shared(DeviceColumns)
    labels = {"node.koordinator.sh/gpu-model": "H20", "node.koordinator.sh/gpu-partition-policy": "Honor"}
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n", "labels": labels}}))
    cluster.store(Device).apply(device(map(gpu, range(8))))
    cluster.shared(DeviceLedger).reserve("n", "x/p", {"gpu": (DeviceAllocation(0, amounts(SIZES[1])),)})
    for count, refused in ((8, True), (4, False)):
        wanted = GPURequirements(amounts(SIZES[0]), count)
        answers = arrays.feasible(columns, cluster.nodes.all(), Requests({"gpu": wanted.per_gpu}, wanted))
        assert answers is not None
        (status,) = (answers.statuses[key] for key in answers.keys)
        assert status == (reasons.NO_PARTITION if refused else SUCCESS)


def test_few_rows_are_left_to_the_allocator() -> None:
    inexact = rows = 0
    for seed in range(50):
        rng = Random(seed)
        cluster = random_cluster(rng)
        requests = Requests({"gpu": amounts(SIZES[0])}, GPURequirements(amounts(SIZES[0])))
        columns = cluster.shared(DeviceColumns)
        answers = arrays.feasible(columns, cluster.nodes.all(), requests)
        assert answers is not None
        inexact += int(np.count_nonzero(answers.unknown))
        rows += len(answers.unknown)
    assert 0 < inexact < rows / 2


def test_what_arrays_cannot_decide_is_left_to_the_allocator() -> None:
    cluster = random_cluster(Random(1))
    columns = cluster.shared(DeviceColumns)
    nodes = cluster.nodes.all()
    cards = {"rdma": amounts({RDMA: "1"})}
    assert arrays.feasible(columns, nodes, Requests(cards)) is not None
    functions = {"rdma": DeviceHint(vf_selector=of_labels({}))}
    assert arrays.feasible(columns, nodes, Requests(cards, hints=functions)) is not None
    some = {"rdma": DeviceHint(selector=of_labels({"a": "b"}))}
    assert arrays.feasible(columns, nodes, Requests(cards, hints=some)) is not None
    recorded = {"rdma": {0: ("0a0",)}}
    assert arrays.feasible(columns, nodes, Requests(cards, designated_functions=recorded)) is None
    assert arrays.feasible(columns, nodes, Requests(cards, joint=JointAllocation(("rdma",)))) is None
    assert arrays.feasible(columns, nodes, Requests({"rdma": amounts({RDMA: "500m"})})) is None
    assert arrays.scores(columns, nodes, Requests(cards), Scorer({"a.io/b": 1})) is None
