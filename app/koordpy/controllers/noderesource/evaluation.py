"""One node's resources worked out: with what strategy, from what, and what would be written.

Source: Koordinator, `pkg/slo-controller/noderesource/{noderesource_controller,resource_calculator}.go`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from koordpy.api import json_merge
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.api.slo.colocation_config import ColocationConfig

from ..slo.node_state import NodeState
from .engine import Engine, Needs
from .interface import Inputs, NodeResource

DISABLED: Final = "node colocation is disabled in Config, reason: DisableInConfig"


@dataclass(frozen=True)
class Evaluation:
    """What holds for a node now."""

    strategy: ColocationStrategy
    is_enabled: bool
    result: NodeResource


def evaluate(engine: Engine, config: ColocationConfig, node: NodeState, inputs: Inputs) -> Evaluation:
    """Return what the plugins make of a node; where colocation is off, what they reset."""
    strategy = config.strategy_for(node.labels or {}, node.annotations)
    if not config.is_enabled(strategy):
        return Evaluation(strategy, False, engine.reset(node, DISABLED))
    return Evaluation(strategy, True, engine.calculate(strategy, node, inputs))


def needs(
    engine: Engine, evaluation: Evaluation, node: NodeState, last_written: datetime | None, now: datetime
) -> tuple[NodeState, Needs]:
    """Return the node as it would be written, and why it has to be."""
    prepared = engine.prepare(evaluation.strategy, node, evaluation.result)
    return prepared, engine.needs(evaluation.strategy, node, prepared, last_written, now)


def patch(old: NodeState, new: NodeState, *, with_status: bool) -> dict[str, Any]:
    """Return the merge patch between two states of a node, empty if they are equal."""
    difference = json_merge.diff(_document(old, with_status), _document(new, with_status))
    return dict(difference)


def _document(node: NodeState, with_status: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"metadata": _present(labels=node.labels, annotations=node.annotations)}
    if with_status:
        document["status"] = _present(capacity=node.capacity, allocatable=node.allocatable)
    return document


def _present(**maps: dict[str, Any] | None) -> dict[str, Any]:
    return {name: map_ for name, map_ in maps.items() if map_ is not None}
