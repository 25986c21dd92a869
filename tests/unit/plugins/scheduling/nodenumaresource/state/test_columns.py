import json
from random import Random

import numpy as np
import pytest

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.testing.objects import NOW, node, pod
from koordpy.testing.random_objects import KINDS
from koordpy_plugins.scheduling.nodenumaresource.cpus.policies import filter_by_required
from koordpy_plugins.scheduling.nodenumaresource.state.columns import (
    BIND_POLICIES,
    MOST_RESOURCES,
    NUMA_NODES,
    NUMA_POLICIES,
    CPUColumns,
)
from koordpy_plugins.scheduling.nodenumaresource.state.ledger import CPULedger
from koordpy_plugins.scheduling.nodenumaresource.state.node_allocation import NodeAllocation
from koordpy_plugins.scheduling.nodenumaresource.topology.options import amplified

from ..machines import detail, nrt

FREE = {"free_cpus": "", "free_whole": "FullPCPUs", "free_cores": "SpreadByPCPUs"}
"""Which required policy leaves the CPUs of a column."""


class World:
    """A cluster and its columns."""

    def __init__(self):
        self.cluster = Cluster(FakeClock(NOW))
        self.columns = self.cluster.shared(CPUColumns)

    def put(self, *objects):
        for obj in objects:
            self.cluster.store(type(obj)).apply(obj)

    @property
    def rows(self):
        return self.columns.of(self.cluster.nodes.all())


def one(machine=(1, 2, 2, 2), labels=None, annotations=None, **topology):
    """A world with a node n0 that has NUMA nodes 0 and 1 with four CPUs each."""
    world = World()
    zones = {"node-0": {"cpu": "4", "memory": "8Gi"}, "node-1": {"cpu": "4"}}
    world.put(
        nrt("n0", **{"cpus": detail(*machine), "zones": zones, **topology}),
        node("n0", labels=labels, annotations=annotations),
    )
    return world


def holding(name, cpus="", **zones):
    nodes = [{"node": int(zone[1:]), "resources": amounts} for zone, amounts in zones.items()]
    text = json.dumps({"cpuset": cpus, "numaNodeResources": nodes})
    return pod(name, on="n0", annotations={extension.ANNOTATION_RESOURCE_STATUS: text})


def first(values, count=2):
    return values[0, :count].tolist()


def test_free_and_allocated_cpus_are_counted_by_numa_node():
    world = one(reservation={"reservedCPUs": "7"})
    world.put(holding("p", "0,4-5"))
    rows = world.rows
    assert first(rows.count("free_cpus")) == [3, 1]
    assert first(rows.count("free_whole")) == [2, 0]
    assert first(rows.count("free_cores")) == [2, 1]
    assert [int(rows.number(f"all_{name}")[0]) for name in ("free_cpus", "free_whole", "free_cores")] == [
        4,
        2,
        3,
    ]
    assert rows.number("allocated").tolist() == [3]
    assert rows.number("cpus_per_core").tolist() == [2]
    assert rows.number("zones").tolist() == [3]
    assert rows.flag("exact").tolist() == [True]


def test_zones_have_what_is_left_of_them():
    world = one(reservation={"reservedCPUs": "7"})
    world.put(holding("p", n0={"cpu": "1500m", "memory": "1Gi", "other": "1"}))
    rows = world.rows
    assert rows.resources == ("cpu", "memory")
    assert first(rows.capacity[:, 0]) == [4000, 3000]
    assert first(rows.available[:, 0]) == [2500, 3000]
    assert first(rows.available[:, 1]) == [7 << 30, 0]
    assert first(rows.offered[:, 1]) == [True, False]


def test_cpus_that_pods_have_count_amplified_where_amounts_were_allocated():
    world = one(annotations={extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: '{"cpu":1.5}'})
    world.put(holding("p", "0-1,4"), holding("q", n0={"cpu": "1"}))
    assert first(world.rows.capacity[:, 0]) == [6000, 6000]
    assert first(world.rows.available[:, 0]) == [4000, 6000]
    world.cluster.store(Pod).discard("default/q")
    assert first(world.rows.held[:, 0]) == [1000, 0]
    assert world.rows.ratio("ratio").tolist() == world.rows.ratio("node_ratio").tolist() == [1.5]


@pytest.mark.parametrize(
    ("labels", "bind", "numa"),
    [
        ({}, "None", "Restricted"),
        ({extension.LABEL_NODE_CPU_BIND_POLICY: "SpreadByPCPUs"}, "SpreadByPCPUs", "Restricted"),
        ({extension.LABEL_NODE_CPU_BIND_POLICY: "FullPCPUsOnly"}, "FullPCPUsOnly", "Restricted"),
        ({extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "BestEffort"}, "None", "BestEffort"),
    ],
)
def test_policies_of_labels_come_first(labels, bind, numa):
    rows = one(labels=labels, policies=("Restricted",)).rows
    assert BIND_POLICIES[rows.number("bind_policy")[0]] == bind
    assert NUMA_POLICIES[rows.number("numa_policy")[0]] == numa


@pytest.mark.parametrize(
    "changes",
    [
        {"zones": {f"node-{NUMA_NODES}": {"cpu": "1"}}},
        {"machine": (1, NUMA_NODES + 1, 1, 1), "zones": {}},
        {"zones": {"node-0": {"memory": "1m"}}},
        {"zones": {"node-0": {"memory": "4E"}}},
        {"zones": {"node-0": {f"x{number}": "1" for number in range(MOST_RESOURCES)}}},
        {"labels": {extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "Other"}},
    ],
)
def test_rows_that_do_not_say_everything_are_not_exact(changes):
    assert one(**changes).rows.flag("exact").tolist() == [False]


def test_a_node_without_topology_or_readable_ratios_is_marked():
    world = one(cpus="{}", annotations={extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: "{"})
    world.put(node("n1"))
    rows = world.rows
    order = [world.cluster.nodes.all().names.index(name) for name in ("n0", "n1")]
    assert rows.flag("has_topology")[order].tolist() == [True, False]
    assert rows.flag("is_valid")[order].tolist() == [False, False]
    assert rows.flag("has_readable_ratios")[order].tolist() == [False, True]


def test_a_row_follows_its_node_topology_and_pods():
    world = one()
    assert first(world.rows.count("free_cpus")) == [4, 4]
    world.put(holding("p", "0"))
    assert first(world.rows.count("free_cpus")) == [3, 4]
    world.put(nrt("n0", cpus=detail(1, 1, 2, 2)))
    assert first(world.rows.count("free_cpus")) == [3, 0]
    assert world.rows.number("zones").tolist() == [0]
    world.cluster.store(NodeResourceTopology).discard("n0")
    assert not world.rows.flag("has_topology").any()
    world.cluster.store(Pod).discard("default/p")
    world.cluster.store(Node).discard("n0")
    world.put(node("n1"))
    assert not world.rows.count("free_cpus").any()


@pytest.mark.parametrize("seed", range(30))
def test_rows_are_what_the_ledger_computes_for_each_node(seed):
    world, rng = World(), Random(seed)
    ledger = world.cluster.shared(CPULedger)
    for number in range(40):
        kind = KINDS[rng.choice((Node, Pod, NodeResourceTopology))]
        key = rng.choice(kind.keys)
        store = world.cluster.store(kind.type)
        if rng.random() < 0.2:
            store.discard(key)
        else:
            store.apply(kind.random(rng, key, f"{kind.type.__name__}-{key}", number + 1))
        if number % 7 == 0:
            _ = world.rows
    nodes, rows = world.cluster.nodes.all(), world.rows
    for at, name in enumerate(nodes.names):
        its = world.cluster.store(Node).by_key(name)
        assert its is not None
        options = amplified(ledger.options(name), its.metadata.annotations)
        state = ledger.node(name) or NodeAllocation()
        available, _ = state.available_numa_resources(options, {})
        for numa_node, amounts in available.items():
            found = dict(zip(rows.resources, rows.available[at, :, numa_node].tolist(), strict=True))
            offered = dict(zip(rows.resources, rows.offered[at, :, numa_node].tolist(), strict=True))
            for resource, amount in amounts.items():
                if offered.get(resource):
                    milli = resource == "cpu"
                    assert found[resource] == (amount.milli_value() if milli else amount.value())
        topology = options.cpu_topology
        if topology is None or not topology.is_valid:
            continue
        free, _ = state.available_cpus(options)
        for column, policy in FREE.items():
            expected = topology.count_by_node(filter_by_required(topology, free, policy))
            counts = rows.count(column)[at]
            assert {node: int(counts[node]) for node in np.flatnonzero(counts)} == dict(expected)
