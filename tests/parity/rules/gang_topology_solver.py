"""The nodes for a gang, given how many members each node holds: many rules, unusual trees, scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from koordpy.api.core import Node, Pod
from koordpy.api.gang.topology_spec import GangTopologySpec, GatherRule
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Int64
from koordpy.cluster.network_topology.tree import build
from koordpy.cluster.nodes import NodeSet
from koordpy_plugins.scheduling.coscheduling.topology.offers import Layout, Offers
from koordpy_plugins.scheduling.coscheduling.topology.requirement import requirement_of
from koordpy_plugins.scheduling.coscheduling.topology.slots import Slots
from koordpy_plugins.scheduling.coscheduling.topology.solver import solve


def run(case: dict[str, Any], tag: str | None) -> object:
    layers = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": case["topology"]}}
    tree = build(decode(ClusterNetworkTopology, layers), [decode(Node, node) for node in case["nodes"]])
    requirement = requirement_of(
        GangTopologySpec(
            tuple(
                GatherRule(rule["layer"], rule["strategy"], rule["podCountMultiple"])
                for rule in case["spec"]["gatherStrategy"]
            )
        ),
        tree,
    )
    names = list(case["slots"])

    def column(given: Mapping[str, int] | None) -> Int64 | None:
        return None if given is None else np.array([given[name] for name in names], np.int64)

    numbers = column(case["slots"])
    assert numbers is not None
    slots = Slots(NodeSet(Cluster().nodes, names, np.zeros(len(names), np.int64)), numbers)
    existing, scores = column(case["existing"]), column(case["scores"])
    layout = Layout(tree)
    pods = [decode(Pod, {"metadata": {"namespace": "ns", "name": name}}) for name in case["pods"]]
    offers = Offers(layout, requirement, names, numbers, existing, scores)
    return {
        "mustLayer": requirement.must_gather,
        "multiples": dict(requirement.multiples),
        "offered": {
            f"{layout.members[at].layer}/{layout.members[at].name}": int(offers.slots[at])
            for at in offers.gathering()
        },
        "plan": dict(solve(layout, requirement, pods, slots, existing, scores).nodes) or None,
    }
