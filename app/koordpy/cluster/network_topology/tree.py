"""The network as a tree, built from a ClusterNetworkTopology and the labels of all nodes.

A tree is rebuilt when something has changed, and is itself immutable: callers may keep it.
Source: Koordinator, `pkg/scheduler/frameworkext/networktopology` (`tree.go`, `tree_manager.go`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from koordpy.api.core import Node
from koordpy.api.network_topology import (
    CLUSTER_TOPOLOGY_LAYER,
    NODE_TOPOLOGY_LAYER,
    ClusterNetworkTopology,
    DetailStatus,
    NetworkTopologySpec,
    TopologyInfo,
)


class TopologyError(ValueError):
    """The layers of a ClusterNetworkTopology do not form a path from the nodes to the cluster."""


@dataclass(slots=True, eq=False)
class TreeNode:
    """A member of a layer: the cluster, a switch, a node."""

    layer: str
    name: str
    parent: "TreeNode | None" = None
    children: dict[str, "TreeNode"] = field(default_factory=dict)
    """By name; all are of one layer."""

    @property
    def info(self) -> TopologyInfo:
        """The member as shown in the status."""
        return TopologyInfo(topology_layer=self.layer, topology_name=self.name)


@dataclass(frozen=True)
class Tree:
    """The members of all layers, below `root`, which is the cluster."""

    root: TreeNode
    layers: Sequence[str]
    """The layers below the cluster, down to that of the nodes."""

    def is_ancestor(self, layer: str, other: str) -> bool:
        """Return whether a layer is above another one; an unknown layer counts as the highest."""
        index = {name: place for place, name in enumerate(self.layers)}
        return index.get(layer, 0) < index.get(other, 0)

    def status(self) -> list[DetailStatus]:
        """Return the status of all members except nodes: each before its children, by name."""
        details: list[DetailStatus] = []
        _describe(self.root, details)
        return details


def build(topology: ClusterNetworkTopology, nodes: Iterable[Node]) -> Tree:
    """Place all nodes; those that lack the label of a layer are left out. Raises TopologyError.

    A node that lacks only the label of the layer directly above it gets its own member there. A member is
    identified by layer and name: if nodes give it several parents, that of the first node is used.
    """
    layers = _from_top(topology.spec.network_topology_spec)
    root = TreeNode(CLUSTER_TOPOLOGY_LAYER, "")
    members = {(root.layer, root.name): root}
    for node in nodes:
        path = _path(node, layers)
        if path is None:
            continue
        parent = root
        for key in path:
            member = members.get(key)
            if member is None:
                member = members[key] = TreeNode(*key, parent)
                parent.children[member.name] = member
            parent = member
    return Tree(root, tuple(layer.topology_layer for layer in layers))


def _from_top(layers: Sequence[NetworkTopologySpec]) -> list[NetworkTopologySpec]:
    """Sort layers by walking up from the nodes' layer; every entry must be reached."""
    by_name = {layer.topology_layer: layer for layer in layers}
    upward: list[NetworkTopologySpec] = []
    name = NODE_TOPOLOGY_LAYER
    for _ in layers:
        if name not in by_name:
            raise TopologyError(f'topology layer "{name}" not found in spec')
        upward.append(by_name[name])
        name = upward[-1].parent_topology_layer
    return upward[::-1]


def _path(node: Node, layers: Sequence[NetworkTopologySpec]) -> list[tuple[str, str]] | None:
    """Return layer and name of all members that a node is below, from the top, itself included."""
    labels = node.metadata.labels
    path = []
    for place, layer in enumerate(layers):
        if layer.topology_layer == NODE_TOPOLOGY_LAYER:
            name = node.metadata.name
        else:
            name = next((labels[key] for key in layer.label_key if labels.get(key)), "")
        if not name:
            if place != len(layers) - 2:
                return None
            name = node.metadata.name
        path.append((layer.topology_layer, name))
    return path


def _describe(member: TreeNode, details: list[DetailStatus]) -> int:
    """Add a member and what is below it; return its number of nodes."""
    if member.layer == NODE_TOPOLOGY_LAYER:
        return 1
    names = sorted(member.children)
    layer = member.children[names[0]].layer if names else UNSET
    detail = DetailStatus(
        topology_info=member.info,
        parent_topology_info=UNSET if member.parent is None else member.parent.info,
        child_topology_layer=layer,
        child_topology_names=names if names and layer != NODE_TOPOLOGY_LAYER else UNSET,
    )
    details.append(detail)
    detail.node_num = sum(_describe(member.children[name], details) for name in names)
    return detail.node_num
