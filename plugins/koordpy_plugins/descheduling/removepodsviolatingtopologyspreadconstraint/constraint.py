"""Topology spread constraints of pods, as the descheduler tells them apart.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from koordpy.api import label_selector, node_affinity, taints
from koordpy.api.core import Node, Pod, Toleration, TopologySpreadConstraint
from koordpy.api.label_selector import NOTHING, Selector
from koordpy.api.node_affinity import RequiredNodeAffinity

HONOR: Final = "Honor"
IGNORE: Final = "Ignore"


@dataclass(frozen=True, slots=True)
class Nodes:
    """Which nodes count for a constraint. Pods with the same key mean the same nodes."""

    topology_key: str
    affinity: RequiredNodeAffinity | None
    tolerations: Sequence[Toleration] | None

    def include(self, node: Node) -> bool:
        """Return whether a node passes the constraint's inclusion policies."""
        if self.affinity is not None and not self.affinity.matches_node(node):
            return False
        return self.tolerations is None or not taints.find_untolerated(
            node.spec.taints, self.tolerations, comparison_operators=True
        )


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint with everything of its pod that it depends on."""

    key: bytes
    """Equal for equal constraints."""
    nodes_key: bytes
    nodes: Nodes
    max_skew: int
    selector: Selector

    @property
    def topology_key(self) -> str:
        """The label whose values are the domains."""
        return self.nodes.topology_key


def key_of(constraint: TopologySpreadConstraint, pod: Pod) -> tuple[bytes, bytes]:
    """Return what tells a constraint of a pod from others, and what tells the nodes that count."""
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    placed = (
        constraint.topology_key,
        (spec.node_selector, affinity and affinity.required_during_scheduling_ignored_during_execution)
        if _honors_affinity(constraint)
        else None,
        spec.tolerations if _honors_taints(constraint) else None,
    )
    labels = [(name, pod.metadata.labels.get(name)) for name in constraint.match_label_keys]
    nodes_key = msgspec.msgpack.encode(placed)
    return (
        msgspec.msgpack.encode((nodes_key, constraint.max_skew, constraint.label_selector, labels)),
        nodes_key,
    )


def read(constraint: TopologySpreadConstraint, pod: Pod, key: tuple[bytes, bytes]) -> Constraint:
    """Read a constraint of a pod. Raises SelectorError."""
    nodes = Nodes(
        constraint.topology_key,
        node_affinity.required(pod.spec) if _honors_affinity(constraint) else None,
        pod.spec.tolerations if _honors_taints(constraint) else None,
    )
    return Constraint(*key, nodes, constraint.max_skew, _selector(constraint, pod))


def _honors_affinity(constraint: TopologySpreadConstraint) -> bool:
    return (constraint.node_affinity_policy or HONOR) == HONOR


def _honors_taints(constraint: TopologySpreadConstraint) -> bool:
    return (constraint.node_taints_policy or IGNORE) == HONOR


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    """The constraint's selector, with the pod's values of `matchLabelKeys`."""
    selector = label_selector.of(constraint.label_selector)
    labels = pod.metadata.labels
    own = {name: labels[name] for name in constraint.match_label_keys if name in labels}
    if not own or selector == NOTHING:
        return selector
    return Selector((*label_selector.of_labels(own).requirements, *selector.requirements))
