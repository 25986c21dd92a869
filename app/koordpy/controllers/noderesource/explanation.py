"""How a node's resources came about: for `koordpy colocate explain` and the debug API."""

from typing import Any, Protocol, runtime_checkable

import msgspec

from koordpy.api.output_model import OutputModel

from ..slo.node_state import NodeState
from .engine import Needs
from .evaluation import Evaluation, patch


class ExplainedResource(OutputModel):
    """One resource: what was computed now, what the node should have (scaled by the normalization ratio,
    without what other schedulers took), what it has, and why.

    `message` is the formula with its terms, in Koordinator's words, or the reason of a reset.
    """

    name: str
    computed: str | None
    due: str | None
    reset: bool
    on_node: str | None
    message: str
    zones: dict[str, str]


class NodeResourceExplanation(OutputModel):
    """The resources of a node.

    `status_reason` and `meta_reason` say why a write is due, "" where nothing would change. `strategy` is the
    one that holds for the node, `report_age_seconds` the age of its NodeMetric.
    """

    node: str
    enabled: bool
    problem: str
    report_age_seconds: float | None
    strategy: dict[str, Any]
    resources: list[ExplainedResource]
    annotations: dict[str, str]
    labels: dict[str, str]
    status_reason: str
    meta_reason: str


@runtime_checkable
class NodeExplainer(Protocol):
    """A controller that can say how the resources of a node came about."""

    def explain(self, name: str) -> NodeResourceExplanation | None:
        """Return the explanation, None if there is no such node. Nothing is written."""
        ...


def explained(
    node: NodeState, prepared: NodeState, evaluation: Evaluation, needed: Needs, report_age: float | None
) -> NodeResourceExplanation:
    """Return the explanation of an evaluation."""
    result, allocatable = evaluation.result, node.allocatable or {}
    messages = result.messages
    due = prepared.allocatable or {}
    changes = patch(node, prepared, with_status=True)
    resources = [
        ExplainedResource(
            name=name,
            computed=None if result.quantity(name) is None else str(result.quantities[name]),
            due=str(due[name]) if name in due else None,
            reset=result.resets[name],
            on_node=str(allocatable[name]) if name in allocatable else None,
            message=messages.get(name, ""),
            zones={zone: str(items[name]) for zone, items in sorted(result.zones.items()) if name in items},
        )
        for name in sorted(result.quantities)
        if "/" in name
    ]
    return NodeResourceExplanation(
        node=node.name,
        enabled=evaluation.is_enabled,
        problem="",
        report_age_seconds=report_age,
        strategy=msgspec.to_builtins(evaluation.strategy),
        resources=resources,
        annotations=result.annotations,
        labels=result.labels,
        status_reason=needed.status if "status" in changes else "",
        meta_reason=needed.meta if "metadata" in changes else "",
    )


def unavailable(node: str) -> NodeResourceExplanation:
    """Return the explanation of a node that is left as it is, because colocation-config cannot be read."""
    return NodeResourceExplanation(
        node=node,
        enabled=False,
        problem="colocation-config cannot be read: nodes are left as they are",
        report_age_seconds=None,
        strategy={},
        resources=[],
        annotations={},
        labels={},
        status_reason="",
        meta_reason="",
    )
