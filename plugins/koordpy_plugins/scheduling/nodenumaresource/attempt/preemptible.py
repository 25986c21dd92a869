"""What a preemption dry run takes from a node and adds to it.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/preempt.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.api.resource_amounts import Amounts, minus, plus

_NO_CPUS: Final[frozenset[int]] = frozenset()

NUMAResources = Mapping[int, Amounts]
"""Amounts by NUMA node."""


def sum_up(*lists: NUMAResources) -> dict[int, Amounts]:
    """Return the sum of amounts by NUMA node, as a mapping of its own."""
    result: dict[int, Amounts] = {}
    for resources in lists:
        for node, amounts in resources.items():
            result[node] = plus(result.get(node, {}), amounts)
    return result


@dataclass(slots=True)
class Preemptible:
    """The CPUs and amounts of removed pods, without those of added pods."""

    cpus_to_add: frozenset[int] = _NO_CPUS
    cpus_to_remove: frozenset[int] = _NO_CPUS
    numa_resources: NUMAResources = field(default_factory=dict)

    def remove_pod(self, cpus: frozenset[int], resources: NUMAResources) -> None:
        """Count what a removed pod has."""
        if resources:
            self.numa_resources = sum_up(self.numa_resources, resources)
        back = self.cpus_to_remove & cpus
        self.cpus_to_remove -= back
        self.cpus_to_add |= cpus - back

    def add_pod(self, cpus: frozenset[int], resources: NUMAResources) -> None:
        """Count what an added pod has; amounts may become negative."""
        left = dict(self.numa_resources)
        for node, amounts in resources.items():
            left[node] = minus(left.get(node, {}), amounts)
        self.numa_resources = left
        back = self.cpus_to_add & cpus
        self.cpus_to_add -= back
        self.cpus_to_remove |= cpus - back

    def cpus_with(self, cpus: frozenset[int]) -> frozenset[int]:
        """Return a set of CPUs with those of removed and without those of added pods."""
        return (cpus | self.cpus_to_add) - self.cpus_to_remove

    def resources_with(self, resources: NUMAResources) -> dict[int, Amounts]:
        """Return amounts with those of removed and without those of added pods."""
        return sum_up(self.numa_resources, resources)

    def clone(self) -> "Preemptible":
        """Return an independent copy: nothing in it is changed in place."""
        return Preemptible(self.cpus_to_add, self.cpus_to_remove, self.numa_resources)


@dataclass(slots=True)
class NodePreemptible:
    """What a dry run changes on one node, and in its reservations by UID."""

    node: Preemptible | None = None
    reservations: dict[str, Preemptible] = field(default_factory=dict)

    def clone(self) -> "NodePreemptible":
        """Return an independent copy."""
        return NodePreemptible(
            None if self.node is None else self.node.clone(),
            {uid: each.clone() for uid, each in self.reservations.items()},
        )
