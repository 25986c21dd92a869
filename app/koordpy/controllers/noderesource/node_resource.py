"""What plugins compute for one node: quantities, resets, labels, annotations, and the reasons.

Source: Koordinator, `pkg/slo-controller/noderesource/framework/noderesource.go`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from koordpy.api.quantity import Quantity


@dataclass(frozen=True, kw_only=True)
class ResourceItem:
    """One result of a plugin.

    `name` is a resource, or the plugin's name where it computes only labels or annotations. With `reset` the
    resource is removed from the node. `zones` are quantities by NUMA zone.
    """

    name: str
    quantity: Quantity | None = None
    message: str = ""
    zones: Mapping[str, Quantity] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    reset: bool = False


@dataclass
class NodeResource:
    """The results of all plugins; of several items with one name the last counts."""

    quantities: dict[str, Quantity | None] = field(default_factory=dict)
    resets: dict[str, bool] = field(default_factory=dict)
    zones: dict[str, dict[str, Quantity]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    """By name; a later empty message leaves the former."""

    def set(self, items: Iterable[ResourceItem]) -> None:
        """Add results."""
        for item in items:
            self.quantities[item.name] = item.quantity
            self.resets[item.name] = item.reset
            for zone, quantity in item.zones.items():
                self.zones.setdefault(zone, {})[item.name] = quantity
            self.labels.update(item.labels)
            self.annotations.update(item.annotations)
            if item.message:
                self.messages[item.name] = item.message

    def quantity(self, name: str) -> Quantity | None:
        """Return the quantity of a resource that is neither missing nor reset."""
        return None if self.resets.get(name) else self.quantities.get(name)
