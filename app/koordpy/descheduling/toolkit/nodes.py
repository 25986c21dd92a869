"""Which nodes a cycle processes. Source: Koordinator, `pkg/descheduler/node/node.go`."""

from collections.abc import Iterable, Sequence

from koordpy.api import label_selector
from koordpy.api.core import Node
from koordpy.api.meta import LabelSelector


def selected(nodes: Iterable[Node], selector: LabelSelector | None) -> list[Node]:
    """Return the nodes that a selector matches, by name; None selects all."""
    matcher = label_selector.EVERYTHING if selector is None else label_selector.of(selector)
    found = [node for node in nodes if matcher.matches(node.metadata.labels)]
    return sorted(found, key=lambda node: node.metadata.name)


def matching(nodes: Sequence[Node], selector: LabelSelector | None) -> Sequence[Node]:
    """Return the nodes that a selector matches, in their order; None matches all. Raises SelectorError."""
    if selector is None:
        return nodes
    matcher = label_selector.of(selector)
    return [node for node in nodes if matcher.matches(node.metadata.labels)]


def is_ready(node: Node) -> bool:
    """Return whether a node is ready; one without a Ready condition counts as ready, cordoned or not."""
    return all(item.status == "True" for item in node.status.conditions if item.type == "Ready")
