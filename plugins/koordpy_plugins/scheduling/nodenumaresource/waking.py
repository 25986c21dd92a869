"""When a pod that the plugin refused is worth another attempt.

It is when a NodeResourceTopology changes, or a pod is deleted or ends that has CPUs or NUMA resources.
Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/plugin.go` (`EventsToRegister`), which has any
deleted pod.
"""

from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.api.extension import ANNOTATION_RESOURCE_STATUS
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.meta import KubeObject
from koordpy.scheduling.interface import ChangeHelps


def topology_may_help(old: NodeResourceTopology | None, new: NodeResourceTopology | None) -> bool:
    """Return whether what is read of a topology is different: what is available of it changes often."""
    if old is None or new is None:
        return True
    return (
        old.metadata.annotations != new.metadata.annotations
        or old.topology_policies != new.topology_policies
        or _offers(old) != _offers(new)
    )


def _offers(topology: NodeResourceTopology) -> list[tuple[str, str, list[tuple[str, object]]]]:
    return [
        (zone.name, zone.type, [(each.name, each.allocatable) for each in zone.resources])
        for zone in topology.zones
    ]


def pod_may_help(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a pod releases CPUs or NUMA resources, possibly before it was bound."""
    if old is None:
        return False
    if ANNOTATION_RESOURCE_STATUS not in old.metadata.annotations:
        return new is None and not old.spec.node_name
    return new is None or (new.is_terminal and not old.is_terminal)


EVENTS: Mapping[type[KubeObject], ChangeHelps] = {
    NodeResourceTopology: topology_may_help,
    Pod: pod_may_help,
}
"""The changes after which refused pods are tried again."""

REASONS = (
    "CPU Topology",
    "NUMA",
    "not enough cpus available",
    "insufficient CPUs to satisfy required cpu bind policy",
    "Insufficient amplified cpu",
    "cpu bind policy conflicts",
    "not multiple cpus per core",
)
"""Parts of the plugin's reasons."""
