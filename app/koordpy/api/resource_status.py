"""The annotation resource-status: the CPUs and NUMA nodes that the scheduler allocated to a pod.

Source: Koordinator, `apis/extension/numa_aware.go` (`ResourceStatus`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from koordpy.lib import go_json

from .extension import ANNOTATION_RESOURCE_STATUS
from .quantity import Quantity, from_wire


@dataclass(frozen=True)
class NUMANodeResource:
    """What a pod got of one NUMA node; None where the annotation names no resources."""

    node: int
    resources: Mapping[str, Quantity] | None = None


@dataclass(frozen=True)
class ResourceStatus:
    """An allocation. `cpuset` is a CPU list, not checked; empty if no CPUs were allocated."""

    cpuset: str = ""
    numa_nodes: tuple[NUMANodeResource, ...] = field(default=())

    def text(self) -> str:
        """Return the text of the annotation: fields in Koordinator's order, without empty ones."""
        document: dict[str, Any] = {}
        if self.cpuset:
            document["cpuset"] = self.cpuset
        if self.numa_nodes:
            document["numaNodeResources"] = [_written(item) for item in self.numa_nodes]
        return go_json.encode(document)


_NONE = ResourceStatus()


def of(annotations: Mapping[str, str]) -> ResourceStatus:
    """Return the allocation in a pod's annotations, an empty one if there is none. Raises ValueError."""
    text = annotations.get(ANNOTATION_RESOURCE_STATUS)
    if text is None:
        return _NONE
    try:
        document = go_json.members(go_json.parse(text), "value")
        nodes = go_json.array(document.get("numanoderesources"), "numaNodeResources") or []
        return ResourceStatus(
            go_json.text(document.get("cpuset"), "cpuset"),
            tuple(_numa_node(item, f"numaNodeResources[{at}]") for at, item in enumerate(nodes)),
        )
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_RESOURCE_STATUS}: {error}") from None


def _numa_node(value: Any, place: str) -> NUMANodeResource:
    document = go_json.members(value, place)
    resources = go_json.mapping(document.get("resources"), f"{place}.resources")
    return NUMANodeResource(
        go_json.integer(document.get("node"), f"{place}.node", 32),
        None if resources is None else {name: from_wire(amount) for name, amount in resources.items()},
    )


def _written(item: NUMANodeResource) -> dict[str, Any]:
    document: dict[str, Any] = {"node": item.node}
    if item.resources:
        document["resources"] = {name: str(item.resources[name]) for name in sorted(item.resources)}
    return document
