"""Clusters of spines, blocks and nodes, and gangs for them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.gang.topology_spec import GangTopologySpec, GatherRule
from koordpy.api.network_topology import (
    ANNOTATION_INDEX,
    ANNOTATION_SELECTOR,
    ClusterNetworkTopology,
)
from koordpy.api.scheme import decode
from koordpy.cluster.network_topology.tree import Tree, build

SPINE, BLOCK, NODE = "SpineLayer", "BlockLayer", "NodeTopologyLayer"
LAYERS = [
    {"topologyLayer": SPINE, "labelKey": ["spine"]},
    {"topologyLayer": BLOCK, "parentTopologyLayer": SPINE, "labelKey": ["block"]},
    {"topologyLayer": NODE, "parentTopologyLayer": BLOCK},
]

Places = Mapping[str, Mapping[str, Sequence[str]]]
"""The names of nodes by spine and block."""

KOORDINATORS: Places = {
    "s1": {"b1": ["node-1", "node-8"], "b2": ["node-2", "node-7"]},
    "s2": {"b3": ["node-3", "node-6"], "b4": ["node-4", "node-5"]},
}
"""The network of Koordinator's own tests."""


def network() -> ClusterNetworkTopology:
    document = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": LAYERS}}
    return decode(ClusterNetworkTopology, document)


def node(name: str, spine: str, block: str, cpu: str = "16", pods: str = "110") -> Node:
    labels = {key: value for key, value in (("spine", spine), ("block", block)) if value}
    return decode(
        Node,
        {
            "metadata": {"name": name, "uid": name, "labels": labels},
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": pods}},
        },
    )


def nodes_of(places: Places, cpu: str = "16") -> list[Node]:
    return [
        node(name, spine, block, cpu)
        for spine, blocks in places.items()
        for block, names in blocks.items()
        for name in names
    ]


def tree_of(nodes: Iterable[Node]) -> Tree:
    return build(network(), nodes)


def member(name: str, cpu: str = "1", *, index: str = "", selector: str = "", **spec: Any) -> Pod:
    annotations = {ANNOTATION_INDEX: index, ANNOTATION_SELECTOR: selector}
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "labels": {"pod-group.scheduling.sigs.k8s.io": "gang", "app": "gang"},
        "annotations": {key: value for key, value in annotations.items() if value},
    }
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}]
    return decode(Pod, {"metadata": metadata, "spec": {"containers": containers, **spec}})


def rules(*given: tuple[str, str] | tuple[str, str, int]) -> GangTopologySpec:
    return GangTopologySpec(tuple(GatherRule(*rule) for rule in given))


def annotation(spec: GangTopologySpec) -> str:
    found = [
        {"layer": rule.layer, "strategy": rule.strategy, "podCountMultiple": rule.pod_count_multiple}
        for rule in spec.gather_strategy
    ]
    return json.dumps({"gatherStrategy": found})
