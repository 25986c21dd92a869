"""One node's resources worked out: with what strategy, from what, and what would be written.

Source: Koordinator, `pkg/slo-controller/noderesource/{noderesource_controller,resource_calculator}.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.api.slo.colocation_config import ColocationConfig

from ..slo.node_state import NodeState
from .engine import Engine, Needs
from .interface import Inputs, NodeResource

_Map = Mapping[str, Any]

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
    changes: dict[str, Any] = {}
    metadata = _differences(
        ("labels", old.labels, new.labels), ("annotations", old.annotations, new.annotations)
    )
    if metadata:
        changes["metadata"] = metadata
    if with_status:
        status = _differences(
            ("capacity", old.capacity, new.capacity), ("allocatable", old.allocatable, new.allocatable)
        )
        if status:
            changes["status"] = status
    return changes


def _differences(*maps: tuple[str, _Map | None, _Map | None]) -> dict[str, Any]:
    found = {}
    for name, old, new in maps:
        if old == new or new is None:
            continue
        before: _Map = old or {}
        changes: dict[str, Any] = {key: None for key in before if key not in new}
        changes.update((key, value) for key, value in new.items() if before.get(key) != value)
        found[name] = changes
    return found
