"""The load of one node: its pods, its NodeMetric, and the usage that the NodeMetric does not include yet.

Each pod counts with its measured usage and, while that is not reliable yet, with the excess of its estimate
over the measurement. Times are whole microseconds since 1970. Source: Koordinator,
`pkg/scheduler/plugins/loadaware/pod_assign_cache.go`.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import parse_time
from koordpy.cluster.derived_state import Snapshot
from koordpy.lib import duration

from .estimator import Estimator, Vector

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
SECOND = 1_000_000
"""In microseconds."""

ZERO_TIME = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""Stands for an unknown time: before all others."""

DEFAULT_REPORT_INTERVAL = 60


def micros(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def micros_of(text: str | None) -> int | None:
    """Read an API object's time, None when it is absent or invalid."""
    if not text:
        return None
    try:
        return micros(parse_time(text))
    except ValueError:
        return None


@dataclass(slots=True)
class AssignedPod:
    """A pod on a node."""

    pod: Pod
    timestamp: int
    """When it was bound, or else first observed."""
    estimate: Vector | None
    deadline: int | None
    """The time until which its estimate counts even if it was measured."""
    prod: bool


@dataclass(slots=True)
class NodeLoad:
    """The pods of a node, its NodeMetric, and the sums."""

    zero: Vector
    pods: dict[str, AssignedPod] = field(default_factory=dict)
    metric: NodeMetric | None = None
    update_time: int = ZERO_TIME
    """The latest time of any NodeMetric; the sums are computed with it."""
    reported: int = ZERO_TIME
    """The time of the present NodeMetric."""
    report_interval: int = DEFAULT_REPORT_INTERVAL * SECOND
    usage: Vector | None = None
    pod_usage: dict[str, Vector] = field(default_factory=dict)
    prod_pods: set[str] = field(default_factory=set)
    aggregated: dict[tuple[str, int], Vector] = field(default_factory=dict)
    """By aggregation type and duration in nanoseconds; duration 0 is the longest reported."""
    prod_usage: Vector = field(default_factory=list)
    node_delta: Vector = field(default_factory=list)
    prod_delta: Vector = field(default_factory=list)
    node_estimated: Vector = field(default_factory=list)
    node_delta_pods: Counter[str] = field(default_factory=Counter)
    """By name: a replaced pod may be there for a moment besides the new one."""
    prod_delta_pods: Counter[str] = field(default_factory=Counter)
    node_estimated_pods: Counter[str] = field(default_factory=Counter)

    @property
    def is_empty(self) -> bool:
        """Whether there are neither pods nor a NodeMetric."""
        return self.metric is None and not self.pods

    def existing(self, prod: bool, aggregation_type: str, aggregated_duration: int) -> Vector | None:
        """Return the existing usage; None without a NodeMetric."""
        if self.metric is None:
            return None
        if prod:
            return _plus(self.prod_usage, self.prod_delta)
        base = self.usage
        if aggregation_type:
            base = self.aggregated.get((aggregation_type, aggregated_duration))
            if base is None and aggregated_duration == 0:
                base = self.usage
        return self.node_estimated if base is None else _plus(base, self.node_delta)

    def snapshot(self) -> Snapshot:
        """Return the pods and, where there is a NodeMetric, the sums."""
        pods = {
            uid: (each.timestamp, each.estimate, each.deadline, each.prod) for uid, each in self.pods.items()
        }
        if self.metric is None:
            return {"pods": pods}
        sums = (self.prod_usage, self.node_delta, self.prod_delta, self.node_estimated)
        counted = (self.node_delta_pods, self.prod_delta_pods, self.node_estimated_pods)
        return {"pods": pods, "sums": [*map(list, sums)], "counted": [*map(dict, counted)]}

    # --- sums ------------------------------------------------------------------------------------

    def set_metric(self, metric: NodeMetric, estimator: Estimator, *, include_system: bool) -> None:
        """Take a new NodeMetric and compute the sums again."""
        status = metric.status
        self.metric = metric
        updated = micros_of(status.update_time)
        self.reported = ZERO_TIME if updated is None else updated
        if updated is not None:
            self.update_time = updated
        policy = metric.spec.metric_collect_policy
        interval = policy.report_interval_seconds if policy is not None else None
        self.report_interval = (DEFAULT_REPORT_INTERVAL if interval is None else interval) * SECOND
        info = status.node_metric
        self.usage = None if info is None else estimator.vector(info.node_usage.resources)
        self.prod_usage = list(self.zero)
        if include_system and info is not None:
            self.prod_usage = estimator.vector(info.system_usage.resources)
        self.pod_usage, self.prod_pods = {}, set()
        for measured in status.pods_metric:
            if measured is None or not measured.pod_usage.resources:
                continue
            key = f"{measured.namespace}/{measured.name}"
            self.pod_usage[key] = estimator.vector(measured.pod_usage.resources)
            if measured.priority == qos.PriorityClass.PROD:
                self.prod_pods.add(key)
        self.aggregated = {}
        longest: dict[str, int] = {}
        for usages in info.aggregated_node_usages if info is not None else ():
            period = _period(usages.duration)
            for kind, usage in usages.usage.items():
                if not usage.resources:
                    continue
                vector = estimator.vector(usage.resources)
                self.aggregated[kind, period] = vector
                if period >= longest.get(kind, -1):
                    longest[kind] = period
        for kind, period in longest.items():
            self.aggregated[kind, 0] = self.aggregated[kind, period]
        self.node_delta, self.prod_delta = list(self.zero), list(self.zero)
        self.node_estimated = list(self.zero)
        for names in (self.node_delta_pods, self.prod_delta_pods, self.node_estimated_pods):
            names.clear()
        for assigned in self.pods.values():
            self.count(assigned, 1)

    def counts_alike(self, known: AssignedPod, assigned: AssignedPod) -> bool:
        """Return whether a pod that is not measured yet adds the same to the sums as before."""
        key = assigned.pod.metadata.key
        return (
            key not in self.pod_usage
            and known.pod.metadata.key == key
            and known.estimate == assigned.estimate
            and known.prod == assigned.prod
        )

    def count(self, assigned: AssignedPod, sign: int) -> None:
        """Add a pod to the sums (sign 1), or subtract it exactly (-1). Without a metric there are no sums."""
        if self.metric is None:
            return
        key = assigned.pod.metadata.key
        used = self.pod_usage.get(key)
        active = assigned.prod and key in self.prod_pods
        if active and used is not None:
            _add(self.prod_usage, used, sign)
        estimate = assigned.estimate
        if estimate is None:
            return
        must = (
            used is None
            or self.update_time - self.report_interval < assigned.timestamp
            or (assigned.deadline is not None and assigned.deadline > self.update_time)
        )
        excess = _excess(estimate, used) if must else self.zero
        _add(self.node_delta, excess, sign)
        _mark(self.node_delta_pods, key, any(excess), sign)
        _add(self.node_estimated, estimate, sign)
        _mark(self.node_estimated_pods, key, True, sign)
        if assigned.prod:
            if used is not None and not active:
                used, must = None, True
            excess = _excess(estimate, used) if must else self.zero
            _add(self.prod_delta, excess, sign)
            _mark(self.prod_delta_pods, key, any(excess), sign)


def _period(text: str) -> int:
    try:
        return duration.parse(text)
    except ValueError:
        return 0


def _excess(estimate: Vector, used: Vector | None) -> Vector:
    if used is None:
        return [max(0, e) for e in estimate]
    return [max(0, e - u) for e, u in zip(estimate, used, strict=True)]


def _plus(first: Vector, second: Vector) -> Vector:
    return [a + b for a, b in zip(first, second, strict=True)]


def _add(total: Vector, amounts: Vector, sign: int) -> None:
    for index, amount in enumerate(amounts):
        total[index] += sign * amount


def _mark(names: Counter[str], key: str, contributes: bool, sign: int) -> None:
    if contributes:
        number = names.get(key, 0) + sign
        if number:
            names[key] = number
        else:
            names.pop(key, None)
