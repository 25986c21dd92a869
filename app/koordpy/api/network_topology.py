"""ClusterNetworkTopology: the layers of a cluster's network, and the place of each node.

The status is also written, and its schema requires some members even if they are empty.
Source: Koordinator, `apis/scheduling/v1alpha1/cluster_network_topology_types.go`.
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from .meta import KubeObject, Struct

CLUSTER_TOPOLOGY_LAYER = "ClusterTopologyLayer"
"""The layer above all others: the cluster."""

NODE_TOPOLOGY_LAYER = "NodeTopologyLayer"
"""The layer below all others: the nodes."""

DEFAULT_NAME = "default"
"""The name of the only object that is used."""

ANNOTATION_INDEX: Final = "gang.scheduling.koordinator.sh/network-topology-index"
"""The place of a pod in its gang, its rank in a training job, say."""

ANNOTATION_SELECTOR: Final = "scheduling.koordinator.sh/network-topology-selector"
"""Pods with equal values want to be near each other in the network."""


class NetworkTopologySpec(Struct):
    """A layer, the layer above it, and the node labels that name its members, first choice first."""

    topology_layer: str = ""
    parent_topology_layer: str = ""
    label_key: list[str] = []


class TopologyInfo(Struct, omit_defaults=False):
    """A member of a layer. The cluster has no name."""

    topology_layer: str = ""
    topology_name: str = ""


class DetailStatus(Struct, omit_defaults=False):
    """The status of a member of a layer: its neighbours in the tree, and the number of nodes below it."""

    topology_info: TopologyInfo = msgspec.field(default_factory=TopologyInfo)
    parent_topology_info: TopologyInfo | UnsetType = UNSET
    child_topology_layer: str | UnsetType = UNSET
    child_topology_names: list[str] | UnsetType = UNSET
    node_num: int = 0


class ClusterNetworkTopology(KubeObject):
    """The network of the cluster; cluster-scoped."""

    class Spec(Struct):
        """The layers, in any order."""

        network_topology_spec: list[NetworkTopologySpec] = []

    class TopologyStatus(Struct):
        """The members of all layers except the lowest."""

        detail_status: list[DetailStatus] = []

    spec: Spec = msgspec.field(default_factory=Spec)
    status: TopologyStatus = msgspec.field(default_factory=TopologyStatus)
