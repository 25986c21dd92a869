"""Arguments of LowNodeLoad: their external form (`descheduler/v1alpha2`) and their internal form.

The top-level thresholds form a separate pool, the default pool, which is always the first. Source:
Koordinator, `pkg/descheduler/apis/config/v1alpha2` (`types_loadaware.go`, `defaults.go`,
`conversion_plugins.go`) and `.../validation/validation_loadaware.go`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, field_validator

from koordpy.api import config_writing
from koordpy.api.config_model import ConfigModel, Duration, Int32, Int64, Uint32
from koordpy.api.config_writing import Written
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.meta import LabelSelector
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.toolkit.pods import Namespaces, PodSelector, namespaces_errors, pod_selectors_errors
from koordpy.descheduling.toolkit.selector import Selector, selector_errors
from koordpy.lib import duration

DEFAULT_POOL = "__default_node_pool__"

Percentages = dict[str, float]
"""Resource name to percent of the node's capacity (or, with deviation, of the distance from the mean)."""


_THRESHOLDS = ("low_thresholds", "high_thresholds", "prod_low_thresholds", "prod_high_thresholds")


class AnomalyCondition(ConfigModel):
    """When a node over its thresholds counts as abnormal."""

    timeout: Duration | None = None
    consecutive_abnormalities: Annotated[Uint32, Written(empty=False)] = 0
    consecutive_normalities: Annotated[Uint32, Written(empty=False)] = 0


class PoolArgs(ConfigModel):
    """Nodes with thresholds of their own; missing maps are inherited from the top level."""

    name: str = ""
    node_selector: Selector | None = None
    use_deviation_thresholds: Annotated[bool, Written(empty=False)] = False
    high_thresholds: Percentages | None = None
    low_thresholds: Percentages | None = None
    prod_high_thresholds: Percentages | None = None
    prod_low_thresholds: Percentages | None = None
    resource_weights: dict[str, Int64] | None = None
    anomaly_condition: AnomalyCondition | None = None


class LowNodeLoadArgs(PluginArgs):
    """Arguments of the plugin. Decoding sets the defaults."""

    paused: bool = False
    dry_run: bool = False
    number_of_nodes: Int32 = 0
    node_metric_expiration_seconds: Int64 = 180
    evictable_namespaces: Namespaces | None = None
    node_selector: Selector | None = None
    pod_selectors: list[PodSelector] = []
    node_fit: bool = True
    prefer_size_fit: bool | None = None
    """Prefer the smallest pod that removes the excess of its node alone. Not an argument of Koordinator's."""
    use_deviation_thresholds: bool = False
    low_thresholds: Percentages | None = None
    high_thresholds: Percentages | None = None
    prod_low_thresholds: Percentages | None = None
    prod_high_thresholds: Percentages | None = None
    resource_weights: dict[str, Int64] | None = Field(default=None, validate_default=True)
    anomaly_condition: AnomalyCondition | None = Field(default=None, validate_default=True)
    detector_cache_timeout: Duration = 5 * duration.MINUTE
    node_pools: list[PoolArgs] = []

    @field_validator("resource_weights")
    @classmethod
    def _fill_in_weights(cls, given: dict[str, int] | None, info: ValidationInfo) -> dict[str, int]:
        """Set a weight for every resource that has a threshold."""
        weights = dict(given or {})
        low, high = info.data.get("low_thresholds"), info.data.get("high_thresholds")
        for name in ("cpu", "memory", *(low or {}), *(high or {})):
            if weights.get(name, 0) <= 0:
                weights[name] = 1
        return weights

    @field_validator("anomaly_condition")
    @classmethod
    def _fill_in_condition(cls, given: AnomalyCondition | None) -> AnomalyCondition:
        if given is None:
            return AnomalyCondition.model_construct(
                timeout=duration.MINUTE, consecutive_abnormalities=5, consecutive_normalities=3
            )
        if given.consecutive_abnormalities == 0:
            return given.model_copy(update={"consecutive_abnormalities": 5})
        if given.consecutive_normalities == 0:
            return given.model_copy(update={"consecutive_normalities": 3})
        return given

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does; pool 0 in the paths is the default pool."""
        return _problems(self)

    def written(self) -> dict[str, Any]:
        """Return the arguments with every pool spelled out, the default pool first.

        The top level keeps the thresholds of prod pods, which have no effect there, as in Koordinator.
        """
        moved = (
            "node_selector",
            "high_thresholds",
            "low_thresholds",
            "resource_weights",
            "anomaly_condition",
        )
        rest = dict.fromkeys(moved) | {"use_deviation_thresholds": False, "node_pools": []}
        top = config_writing.written(self.model_copy(update=rest))
        return top | {"nodePools": [_written_pool(pool) for pool in node_pools(self)]}

    def adapted_to_interval(self, interval: int) -> Self:
        """Keep detectors from expiring between two cycles."""
        timeout = max(self.detector_cache_timeout, interval)
        return self.model_copy(update={"detector_cache_timeout": timeout})

    def copied_whole(self) -> Self:
        """Give every pool its own copy of the thresholds that it inherits."""
        own = {field: _copied(getattr(self, field)) for field in _THRESHOLDS}
        pools = [
            pool.model_copy(
                update={field: _copied(_or(getattr(pool, field), own[field])) for field in _THRESHOLDS}
            )
            for pool in self.node_pools
        ]
        return self.model_copy(update={**own, "node_pools": pools})


@dataclass(frozen=True)
class Anomaly:
    """When a node becomes abnormal and normal again; timeout in nanoseconds, 0: the detector's default."""

    timeout: int
    consecutive_abnormalities: int
    consecutive_normalities: int


@dataclass(frozen=True)
class NodePool:
    """A pool of nodes and its thresholds in percent.

    Pools that inherited a map share the dict of the default pool, and `thresholds.complete` adds missing
    resources in place: an addition for one pool applies to all that share the map, as in Koordinator. The
    pools of a descheduler's file share none (`LowNodeLoadArgs.copied_whole`).
    """

    name: str
    node_selector: LabelSelector | None
    use_deviation_thresholds: bool
    low: Percentages | None
    high: Percentages | None
    prod_low: Percentages | None
    prod_high: Percentages | None
    weights: Mapping[str, int]
    anomaly: Anomaly


def node_pools(args: LowNodeLoadArgs) -> list[NodePool]:
    """Return the pools in the order in which they are processed: the default pool, then the configured."""
    inherited = args.anomaly_condition or AnomalyCondition()
    default = NodePool(
        DEFAULT_POOL,
        args.node_selector,
        args.use_deviation_thresholds,
        args.low_thresholds,
        args.high_thresholds,
        args.prod_low_thresholds,
        args.prod_high_thresholds,
        args.resource_weights or {},
        _anomaly(inherited, inherited),
    )
    return [
        default,
        *(
            NodePool(
                pool.name,
                pool.node_selector,
                pool.use_deviation_thresholds,
                _or(pool.low_thresholds, default.low),
                _or(pool.high_thresholds, default.high),
                _or(pool.prod_low_thresholds, default.prod_low),
                _or(pool.prod_high_thresholds, default.prod_high),
                default.weights if pool.resource_weights is None else pool.resource_weights,
                _anomaly(pool.anomaly_condition or inherited, inherited),
            )
            for pool in args.node_pools
        ),
    ]


def _written_pool(pool: NodePool) -> dict[str, Any]:
    return config_writing.written(
        PoolArgs.model_construct(
            name=pool.name,
            node_selector=pool.node_selector,
            use_deviation_thresholds=pool.use_deviation_thresholds,
            high_thresholds=pool.high,
            low_thresholds=pool.low,
            prod_high_thresholds=pool.prod_high,
            prod_low_thresholds=pool.prod_low,
            resource_weights=dict(pool.weights),
            anomaly_condition=AnomalyCondition.model_construct(
                timeout=pool.anomaly.timeout,
                consecutive_abnormalities=pool.anomaly.consecutive_abnormalities,
                consecutive_normalities=pool.anomaly.consecutive_normalities,
            ),
        )
    )


def _problems(args: LowNodeLoadArgs) -> list[FieldError]:
    errors = []
    if args.number_of_nodes < 0:
        errors.append(invalid("numberOfNodes", args.number_of_nodes, "must be greater than or equal to 0"))
    if args.node_metric_expiration_seconds <= 0:
        errors.append(
            invalid(
                "nodeMetricExpiredSeconds",
                args.node_metric_expiration_seconds,
                "nodeMetricExpiredSeconds should be a positive value",
            )
        )
    errors += namespaces_errors("evictableNamespaces", args.evictable_namespaces)
    errors += pod_selectors_errors("podSelectors", args.pod_selectors)
    for index, pool in enumerate(node_pools(args)):
        errors += _pool_errors(f"nodePools[{index}]", pool)
    return errors


def _pool_errors(path: str, pool: NodePool) -> list[FieldError]:
    errors = selector_errors(f"{path}.nodeSelector", pool.node_selector)
    low, high = pool.low or {}, pool.high or {}
    prod_low, prod_high = pool.prod_low or {}, pool.prod_high or {}
    for field, percentages in (
        ("highThresholds", high),
        ("lowThresholds", low),
        ("ProdHighThresholds", prod_high),
        ("ProdLowThresholds", prod_low),
    ):
        errors += [
            invalid(f"{path}.{field}[{name}]", percent, "percentage must be greater than or equal to 0")
            for name, percent in percentages.items()
            if percent < 0
        ]
    for field, lower, upper, detail in (
        ("lowThresholds", low, high, "low percentage must be less than or equal to highThresholds"),
        (
            "ProdHighThresholds",
            prod_high,
            high,
            "node percentage must be greater than or equal to prodHighThresholds",
        ),
        (
            "ProdLowThresholds",
            prod_low,
            prod_high,
            "low percentage must be less than or equal to prodHighThresholds",
        ),
    ):
        errors += [
            invalid(f"{path}.{field}[{name}]", percent, detail)
            for name, percent in lower.items()
            if name in upper and percent > upper[name]
        ]
    for field, count in (
        ("consecutiveAbnormalities", pool.anomaly.consecutive_abnormalities),
        ("consecutiveNormalities", pool.anomaly.consecutive_normalities),
    ):
        if count == 0:
            errors.append(
                invalid(f"{path}.anomalyDetectionThresholds.{field}", 0, f"{field} must be greater than 0")
            )
    return errors


def _anomaly(own: AnomalyCondition, inherited: AnomalyCondition) -> Anomaly:
    """A pool inherits counts of 0, never the timeout."""
    return Anomaly(
        own.timeout or 0,
        own.consecutive_abnormalities or inherited.consecutive_abnormalities,
        own.consecutive_normalities or inherited.consecutive_normalities,
    )


def _or(own: Any, inherited: Any) -> Any:
    return inherited if own is None else own


def _copied(thresholds: Percentages | None) -> Percentages | None:
    return None if thresholds is None else dict(thresholds)
