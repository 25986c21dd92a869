"""The section colocation-config: what holds for the cluster, and for one node.

Source: Koordinator, `pkg/slo-controller/config/colocation_cm_event_handler.go` and
`pkg/util/sloconfig/colocation_config.go`.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from koordpy.api import extension
from koordpy.api.decoding import DecodeError
from koordpy.lib import int64
from koordpy.lib.go_number import parse_float

from . import reading
from .colocation import DEFAULT, ColocationStrategy
from .config import COLOCATION, NodeConfig
from .merge import merge
from .selection import first_for

_BY_LABEL: Final = {
    extension.LABEL_CPU_RECLAIM_RATIO: "cpu_reclaim_threshold_percent",
    extension.LABEL_MEMORY_RECLAIM_RATIO: "memory_reclaim_threshold_percent",
    extension.LABEL_MID_STATIC_CPU_RESERVED_RATIO: "mid_static_cpu_reserved_percent",
    extension.LABEL_MID_STATIC_MEMORY_RESERVED_RATIO: "mid_static_memory_reserved_percent",
}
_POSITIVE: Final = (
    "metric_aggregate_duration_seconds",
    "metric_report_interval_seconds",
    "degrade_time_minutes",
    "update_time_threshold_seconds",
    "resource_diff_threshold",
)
_NOT_NEGATIVE: Final = (
    "cpu_reclaim_threshold_percent",
    "memory_reclaim_threshold_percent",
    "mid_static_cpu_reserved_percent",
    "mid_static_memory_reserved_percent",
    "batch_cpu_threshold_percent",
    "batch_memory_threshold_percent",
)
_PERCENT: Final = ("mid_cpu_threshold_percent", "mid_memory_threshold_percent", "mid_unallocated_percent")


class InvalidStrategy(ValueError):
    """The strategy of the cluster has a value that no controller works with."""


@dataclass(frozen=True)
class ColocationConfig:
    """The strategy of the cluster, and those of nodes, each complete."""

    cluster: ColocationStrategy = DEFAULT
    nodes: tuple[NodeConfig[ColocationStrategy], ...] = ()

    @classmethod
    def read(cls, text: str, default: ColocationStrategy = DEFAULT) -> "ColocationConfig":
        """Read the section; its strategies are merged over the default, and the nodes' over the cluster's.

        A node's strategy that is invalid is replaced by the cluster's. Raises DecodeError, and
        InvalidStrategy for the cluster's.
        """
        given = COLOCATION.read(text)
        cluster = merge(default, given.cluster)
        if problem := invalid(cluster):
            raise InvalidStrategy(problem)
        nodes = []
        for node in given.nodes:
            merged = merge(cluster, node.strategy)
            nodes.append(NodeConfig(node.profile, cluster if invalid(merged) else merged))
        return cls(cluster, tuple(nodes))

    def strategy_for(
        self, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
    ) -> ColocationStrategy:
        """Return the strategy of a node: of the first node strategy that selects it, else the cluster's; then
        its annotation's, then what its labels set. Nothing is validated here.
        """
        found = first_for(self.nodes, labels) if self.nodes else None
        strategy = self.cluster if found is None or found.strategy is None else found.strategy
        text = (annotations or {}).get(extension.ANNOTATION_NODE_COLOCATION_STRATEGY)
        if text is not None:
            with suppress(DecodeError):
                strategy = merge(strategy, reading.read(ColocationStrategy, reading.parse(text)))
        changes = {
            attribute: percent
            for label, attribute in _BY_LABEL.items()
            if label in labels and (percent := _percent(labels[label])) is not None
        }
        return msgspec.structs.replace(strategy, **changes) if changes else strategy

    def is_enabled(self, strategy: ColocationStrategy) -> bool:
        """Return whether a node with this strategy gets batch and mid resources: the cluster has to have
        colocation on too.
        """
        return bool(self.cluster.enable and strategy.enable)


def invalid(strategy: ColocationStrategy) -> str:
    """Return what is wrong with a strategy for the controllers, "" if nothing is.

    This is weaker than the webhook's validation.
    """
    for name in _POSITIVE:
        value = getattr(strategy, name)
        if value is not None and value <= 0:
            return f"{name}: got {value}, expected more than 0"
    for name in _NOT_NEGATIVE:
        value = getattr(strategy, name)
        if value is not None and value < 0:
            return f"{name}: got {value}, expected at least 0"
    for name in _PERCENT:
        value = getattr(strategy, name)
        if value is not None and not 0 <= value <= 100:
            return f"{name}: got {value}, expected 0 to 100"
    if strategy.metric_memory_collect_policy == "":
        return "metric_memory_collect_policy: got an empty text, expected a policy"
    return ""


def _percent(text: str) -> int | None:
    """Return the ratio of a label as a percentage, truncated as a double; None if it is none."""
    ratio = parse_float(text)
    if ratio is None or ratio != ratio or ratio < 0:
        return None
    return int64.from_float(ratio * 100)
