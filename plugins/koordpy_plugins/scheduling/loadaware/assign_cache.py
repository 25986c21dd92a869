"""What runs on a node and what of it the last NodeMetric has not seen yet.

A NodeMetric is up to a minute old and pods were bound since. Each pod on a node counts with what was measured
of it and, while that cannot be trusted yet, with what its estimate exceeds the measurement by. The sums are
kept current by events; rebuilding them from the same objects gives the same numbers.

Source: Koordinator, `pkg/scheduler/plugins/loadaware/pod_assign_cache.go`. Times are whole microseconds
since 1970.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.extension import ANNOTATION_RESERVE_POD
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import parse_time
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.lib import duration

from . import annotations
from .estimator import Estimator, Vector, surely_alike
from .settings import LoadSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000

ZERO_TIME = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""Where no time is known: before everything."""

DEFAULT_REPORT_INTERVAL = 60


def micros(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def micros_of(text: str | None) -> int | None:
    """Read an API object's time, None when it is absent or not readable."""
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
    """When it was bound, or else first seen."""
    estimate: Vector | None
    deadline: int | None
    """Until when its estimate counts even if it was measured."""
    prod: bool


@dataclass(slots=True)
class NodeLoad:
    """The pods of a node, its NodeMetric, and the sums."""

    zero: Vector
    pods: dict[str, AssignedPod] = field(default_factory=dict)
    metric: NodeMetric | None = None
    update_time: int = ZERO_TIME
    """The latest time that a NodeMetric had; sums are kept by it."""
    reported: int = ZERO_TIME
    """The time that the present NodeMetric has."""
    report_interval: int = DEFAULT_REPORT_INTERVAL * _SECOND
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
    """By name: one that was replaced may be there for a moment beside the other."""
    prod_delta_pods: Counter[str] = field(default_factory=Counter)
    node_estimated_pods: Counter[str] = field(default_factory=Counter)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known any more."""
        return self.metric is None and not self.pods

    def existing(self, prod: bool, aggregation_type: str, aggregated_duration: int) -> Vector | None:
        """Return the usage of what is there already; None when there is no NodeMetric."""
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

    # --- sums ------------------------------------------------------------------------------------

    def set_metric(self, metric: NodeMetric, estimator: Estimator, *, include_system: bool) -> None:
        """Take a new NodeMetric and work the sums out again."""
        status = metric.status
        self.metric = metric
        updated = micros_of(status.update_time)
        self.reported = ZERO_TIME if updated is None else updated
        if updated is not None:
            self.update_time = updated
        policy = metric.spec.metric_collect_policy
        interval = policy.report_interval_seconds if policy is not None else None
        self.report_interval = (DEFAULT_REPORT_INTERVAL if interval is None else interval) * _SECOND
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

    def count(self, assigned: AssignedPod, sign: int) -> None:
        """Add a pod to the sums (sign 1), or take it out exactly (-1). Without a metric there are no sums."""
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


class AssignCache(DerivedState):
    """The loads of all nodes, and what each kind of event does to them.

    Derived from pods and NodeMetrics, but for pods that are reserved and not yet seen bound. Without a
    NodeMetric nobody reads the sums that the last one has left, and they are not part of the snapshot.
    """

    def __init__(self, cluster: Cluster, settings: LoadSettings) -> None:
        super().__init__(cluster)
        self.estimator = Estimator(settings)
        self._settings, self._clock = settings, cluster.clock
        self._zero = [0] * len(settings.names)
        self._loads: dict[str, NodeLoad] = {}
        self._on_change: list[Callable[[str], None]] = []
        self.follow(Pod, self.add_pod, self.update_pod, self.delete_pod)
        self.follow(NodeMetric, self.set_metric, lambda _, new: self.set_metric(new), self.delete_metric)

    def snapshot(self) -> Snapshot:
        """Return by node its pods with what is known of each, and where there is a NodeMetric the sums."""
        return {name: _snapshot(load) for name, load in self._loads.items()}

    def unconfirmed(self) -> Collection[str]:
        """Return the UIDs of pods that are reserved on a node and not yet seen there."""
        return [
            uid
            for load in self._loads.values()
            for uid, assigned in load.pods.items()
            if not assigned.pod.spec.node_name
        ]

    def on_change(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call a handler with the name of each node whose load changes, known ones first; return its end."""
        self._on_change.append(changed)
        for name in self._loads:
            changed(name)
        return lambda: self._on_change.remove(changed)

    def get(self, node_name: str) -> NodeLoad | None:
        """Return what is known of a node."""
        return self._loads.get(node_name)

    def assign(self, node_name: str, pod: Pod, estimate: Vector | None = None) -> None:
        """Put a pod on a node; pods that have ended, reserve pods and an empty name are ignored.

        `estimate` is that of the pod, where it is known already.
        """
        if not node_name or pod.is_terminal or _is_reserve_pod(pod):
            return
        load = self._loads.get(node_name)
        if load is None:
            load = self._loads[node_name] = NodeLoad(self._zero)
        uid = pod.metadata.uid
        known = load.pods.get(uid)
        if known is not None:
            self._drop(load, uid)
            if estimate is None and surely_alike(known.pod, pod):
                estimate = known.estimate or self._zero
        assigned = self._assigned(pod, estimate)
        load.pods[pod.metadata.uid] = assigned
        load.count(assigned, 1)
        self._tell(node_name)

    def unassign(self, node_name: str, uid: str) -> None:
        """Take a pod off a node, if it is there."""
        load = self._loads.get(node_name)
        if load is not None and self._drop(load, uid):
            self._discard_if_empty(node_name, load)
            self._tell(node_name)

    def _tell(self, node_name: str) -> None:
        for changed in self._on_change:
            changed(node_name)

    # --- objects as the API server has them ------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """The API server has a new pod."""
        self.assign(pod.spec.node_name, pod)

    def update_pod(self, old: Pod, pod: Pod) -> None:
        """The API server has a changed pod; changes of metadata alone are ignored.

        Only the pod itself leaves a node: stores tell of a pod that takes the name of another one as of a pod
        that is gone and a new one.
        """
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        if old.spec.node_name and old.spec.node_name != node_name:
            self.unassign(old.spec.node_name, uid)
        load = self._loads.get(node_name)
        known = load.pods.get(uid) if load is not None else None
        if known is None:
            self.assign(node_name, pod)
        elif pod.is_terminal:
            self.unassign(node_name, uid)
        elif pod.spec != known.pod.spec or pod.status.conditions != known.pod.status.conditions:
            self.assign(node_name, pod)

    def delete_pod(self, pod: Pod) -> None:
        """The API server no longer has a pod."""
        self.unassign(pod.spec.node_name, pod.metadata.uid)

    def set_metric(self, metric: NodeMetric) -> None:
        """A NodeMetric came or changed."""
        name = metric.metadata.name
        load = self._loads.get(name)
        if load is None:
            load = self._loads[name] = NodeLoad(self._zero)
        load.set_metric(metric, self.estimator, include_system=self._settings.prod_usage_includes_system)
        self._tell(name)

    def delete_metric(self, metric: NodeMetric) -> None:
        """A NodeMetric is gone; its time stays with the node as long as pods do."""
        name = metric.metadata.name
        load = self._loads.get(name)
        if load is not None:
            load.metric = None
            self._discard_if_empty(name, load)
            self._tell(name)

    def _assigned(self, pod: Pod, estimate: Vector | None) -> AssignedPod:
        if estimate is None:
            estimate = self.estimator.of_pod(pod)
        timestamp = _condition_time(pod, "PodScheduled")
        if timestamp is None:
            timestamp = micros(self._clock.now())
        return AssignedPod(
            pod,
            timestamp,
            estimate if any(estimate) else None,
            self._deadline(pod, timestamp),
            qos.priority_class(pod) is qos.PriorityClass.PROD,
        )

    def _deadline(self, pod: Pod, timestamp: int) -> int | None:
        settings = self._settings
        after_scheduled = after_initialized = -1
        if settings.allow_customize_estimation:
            after_scheduled = annotations.seconds_after_pod_scheduled(pod)
            after_initialized = annotations.seconds_after_initialized(pod)
        if after_scheduled < 0 and settings.seconds_after_scheduled is not None:
            after_scheduled = settings.seconds_after_scheduled
        if after_initialized < 0 and settings.seconds_after_initialized is not None:
            after_initialized = settings.seconds_after_initialized
        if after_initialized > 0:
            initialized = _condition_time(pod, "Initialized")
            if initialized is not None:
                return initialized + after_initialized * _SECOND
        return timestamp + after_scheduled * _SECOND if after_scheduled > 0 else None

    @staticmethod
    def _drop(load: NodeLoad, uid: str) -> bool:
        assigned = load.pods.pop(uid, None)
        if assigned is None:
            return False
        load.count(assigned, -1)
        return True

    def _discard_if_empty(self, node_name: str, load: NodeLoad) -> None:
        if load.is_empty:
            del self._loads[node_name]


def _snapshot(load: NodeLoad) -> Snapshot:
    pods = {uid: (each.timestamp, each.estimate, each.deadline, each.prod) for uid, each in load.pods.items()}
    if load.metric is None:
        return {"pods": pods}
    sums = (load.prod_usage, load.node_delta, load.prod_delta, load.node_estimated)
    counted = (load.node_delta_pods, load.prod_delta_pods, load.node_estimated_pods)
    return {"pods": pods, "sums": [*map(list, sums)], "counted": [*map(dict, counted)]}


def _condition_time(pod: Pod, type_: str) -> int | None:
    for condition in pod.status.conditions:
        if condition.type == type_:
            return micros_of(condition.last_transition_time) if condition.status == "True" else None
    return None


def _is_reserve_pod(pod: Pod) -> bool:
    return pod.metadata.annotations.get(ANNOTATION_RESERVE_POD) == "true"


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
