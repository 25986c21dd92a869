"""The nodes that a strategy is for, and the check that no two strategies are for the same node.

Source: Koordinator, `pkg/webhook/cm/plugins/sloconfig/{selector,checker}.go`.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import lcm
from typing import Any

import msgspec

from koordpy.api.label_selector import Selector, SelectorError, of
from koordpy.api.meta import LabelSelector
from koordpy.api.scheme import decode

from .refusal import CONFIG_PARAM_INVALID, refusal


class NodeStrategy:
    """The name and the selector of a node strategy."""

    def __init__(self, name: str, wire: LabelSelector, selector: Selector) -> None:
        self.name = name
        self.wire = wire
        self.selector = selector


def decode_selector(document: Any) -> LabelSelector | None:
    """Read the JSON of a selector. Raises DecodeError."""
    return None if document is None else decode(LabelSelector, msgspec.json.encode(document))


def strategy_of(key: str, name: str, wire: LabelSelector | None) -> NodeStrategy:
    """Check the selector of a strategy. Raises ConfigRefused."""
    if wire is None or not (wire.match_labels or wire.match_expressions):
        raise refusal(
            CONFIG_PARAM_INVALID,
            f"nodeConfigs NodeSelector must not empty error! configType: {key},nodeConfig name:{name}",
        )
    try:
        return NodeStrategy(name, wire, of(wire))
    except SelectorError as error:
        raise refusal(
            CONFIG_PARAM_INVALID,
            f"failed to parse node selector {go_text(wire)},configType: {key},nodeConfig name:{name}, "
            f"err: {error}",
        ) from None


def matching(strategies: Iterable[NodeStrategy], labels: Mapping[str, str]) -> list[str]:
    """Return the names of the strategies that select a node with these labels."""
    return [strategy.name for strategy in strategies if strategy.selector.matches(labels)]


def overlap(strategies: list[NodeStrategy]) -> list[str]:
    """Return the names of strategies that would select one node, empty if none is found.

    Only nodes that follow from one selector are tried: they have its labels, and the values of its
    expressions side by side (not every combination of them).
    """
    for strategy in strategies:
        for labels in _nodes_of(strategy.wire):
            names = matching(strategies, labels)
            if len(names) > 1:
                return names
    return []


def _nodes_of(wire: LabelSelector) -> Iterator[dict[str, str]]:
    expressions = [expression for expression in wire.match_expressions if expression.values]
    for index in range(lcm(*(len(expression.values) for expression in expressions))):
        labels = dict(wire.match_labels)
        for expression in expressions:
            labels[expression.key] = expression.values[index % len(expression.values)]
        yield labels


def go_text(wire: LabelSelector) -> str:
    """Write a selector as Kubernetes prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(wire.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{item.key},Operator:{item.operator},"
        f"Values:[{' '.join(item.values)}],}},"
        for item in wire.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
