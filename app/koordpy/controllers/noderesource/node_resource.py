"""What plugins compute for one node: quantities, resets, labels, annotations, and the reasons.

Source: Koordinator, `pkg/slo-controller/noderesource/framework/noderesource.go`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from koordpy.api.quantity import Quantity


class ResourceItem(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a plugin.

    `name` is a resource, or the plugin's name where it computes only labels or annotations. With `reset` the
    resource is removed from the node. `zones` are quantities by NUMA zone. `message` may be a function, which
    is called when somebody reads the message: most are never read.
    """

    name: str
    quantity: Quantity | None = None
    message: str | Callable[[], str] = ""
    zones: Mapping[str, Quantity] = {}
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    reset: bool = False


@dataclass
class NodeResource:
    """The results of all plugins; of several items with one name the last counts."""

    quantities: dict[str, Quantity | None] = field(default_factory=dict)
    resets: dict[str, bool] = field(default_factory=dict)
    zones: dict[str, dict[str, Quantity]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    _messages: dict[str, str | Callable[[], str]] = field(default_factory=dict)

    @property
    def messages(self) -> dict[str, str]:
        """The messages by name; a later empty one leaves the former."""
        return {
            name: message if isinstance(message, str) else message()
            for name, message in self._messages.items()
        }

    def set(self, items: Iterable[ResourceItem]) -> None:
        """Add results."""
        for item in items:
            self.quantities[item.name] = item.quantity
            self.resets[item.name] = item.reset
            if item.zones:
                for zone, quantity in item.zones.items():
                    self.zones.setdefault(zone, {})[item.name] = quantity
            if item.labels:
                self.labels.update(item.labels)
            if item.annotations:
                self.annotations.update(item.annotations)
            if item.message:
                self._messages[item.name] = item.message

    def quantity(self, name: str) -> Quantity | None:
        """Return the quantity of a resource that is neither missing nor reset."""
        return None if self.resets.get(name) else self.quantities.get(name)
