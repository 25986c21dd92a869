"""Which nodes the strategies of a section select, and whether two select the same node.

Source: Koordinator, `pkg/util/sloconfig` and `pkg/webhook/cm/plugins/sloconfig/{selector,checker}.go`.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import lcm
from typing import Any, Final, TypeVar

from koordpy.api.label_selector import SelectorError
from koordpy.api.meta import LabelSelector

from .config import NodeConfig
from .strategy import Strategy

S = TypeVar("S", bound=Strategy)

_MOST_NODES: Final = 10_000


def first_for(nodes: Sequence[NodeConfig[S]], labels: Mapping[str, str]) -> NodeConfig[S] | None:
    """Return the first node configuration that selects a node; one with an invalid selector selects none."""
    return next((node for node in nodes if _selects(node, labels)), None)


def _selects(node: NodeConfig[Any], labels: Mapping[str, str]) -> bool:
    try:
        return node.selector.matches(labels)
    except SelectorError:
        return False


def names_for(nodes: Sequence[NodeConfig[Any]], labels: Mapping[str, str]) -> list[str]:
    """Return the names of all node configurations that select a node. Raises SelectorError."""
    return [node.name for node in nodes if node.selector.matches(labels)]


def overlap(nodes: Sequence[NodeConfig[Any]]) -> list[str]:
    """Return the names of configurations that would select one node, empty if none is found.

    Only nodes derived from one selector are tried, and no more than 10,000 for each: they have its labels,
    and the values of its expressions in parallel (not every combination of them). Raises SelectorError.
    """
    for node in nodes:
        for labels in _labels_of(node.profile.node_selector or LabelSelector()):
            names = names_for(nodes, labels)
            if len(names) > 1:
                return names
    return []


def _labels_of(wire: LabelSelector) -> Iterator[dict[str, str]]:
    expressions = [expression for expression in wire.match_expressions if expression.values]
    for index in range(min(lcm(*(len(expression.values) for expression in expressions)), _MOST_NODES)):
        labels = dict(wire.match_labels)
        for expression in expressions:
            labels[expression.key] = expression.values[index % len(expression.values)]
        yield labels
