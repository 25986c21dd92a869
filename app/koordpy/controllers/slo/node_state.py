"""What the SLO controllers read and write of a node, in a form that they may change.

Source: Koordinator, `pkg/slo-controller/nodemetric/node_event_handler.go`.
"""

from dataclasses import dataclass
from typing import Any, Self

from koordpy.api.core import Node
from koordpy.api.meta import ResourceList


@dataclass(slots=True)
class NodeState:
    """A node. A map that a node does not have is None; as the API server stores nodes, an empty one too."""

    name: str
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None

    @classmethod
    def of(cls, node: Node) -> Self:
        """Return the state of a node of a store. The maps are shared with it until `copy`."""
        meta, status = node.metadata, node.status
        return cls(
            meta.name,
            meta.labels or None,
            meta.annotations or None,
            status.capacity or None,
            status.allocatable or None,
        )

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> Self:
        """Return the state of a node in JSON, in which an empty map is one."""
        meta, status = document["metadata"], document.get("status") or {}
        return cls(
            meta["name"],
            meta.get("labels"),
            meta.get("annotations"),
            status.get("capacity"),
            status.get("allocatable"),
        )

    def copy(self) -> Self:
        """Return a copy with maps of its own."""
        return type(self)(
            self.name,
            None if self.labels is None else self.labels.copy(),
            None if self.annotations is None else self.annotations.copy(),
            None if self.capacity is None else self.capacity.copy(),
            None if self.allocatable is None else self.allocatable.copy(),
        )


def concerns_specs(old: NodeState, new: NodeState) -> bool:
    """Return whether an update of a node may change its NodeMetric or NodeSLO: of allocatable or labels."""
    return old.allocatable != new.allocatable or old.labels != new.labels
