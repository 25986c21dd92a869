"""The pods of each node, and the estimated usage that the last NodeMetric does not include yet.

A NodeMetric is up to a minute old, and pods were bound since. Each pod on a node counts with its measured
usage and, while that is not reliable yet, with the excess of its estimate over the measurement. The sums are
updated by events; rebuilding them from the same objects gives the same numbers.

Source: Koordinator, `pkg/scheduler/plugins/loadaware/pod_assign_cache.go`. Times are whole microseconds
since 1970.
"""

from collections.abc import Callable, Collection

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.extension import ANNOTATION_RESERVE_POD
from koordpy.api.koordinator import NodeMetric
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot

from . import annotations
from .estimator import Estimator, Vector, surely_same
from .node_load import SECOND, AssignedPod, NodeLoad, micros, micros_of
from .settings import LoadSettings


class AssignCache(DerivedState):
    """The loads of all nodes, and their event handlers.

    Derived from pods and NodeMetrics, except for reserved pods that are not yet observed as bound. Without a
    NodeMetric the sums from the last one are not used, and they are not part of the snapshot.
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
        """Return by node its pods and, where there is a NodeMetric, the sums."""
        return {name: load.snapshot() for name, load in self._loads.items()}

    def unconfirmed(self) -> Collection[str]:
        """Return the UIDs of pods that are reserved on a node and not yet observed there."""
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
        """Return the load of a node."""
        return self._loads.get(node_name)

    def assign(self, node_name: str, pod: Pod, estimate: Vector | None = None) -> None:
        """Add a pod to a node; pods that have ended, reserve pods and an empty name are ignored.

        `estimate` is the pod's estimate, if it is known already.
        """
        if not node_name or pod.is_terminal or _is_reserve_pod(pod):
            return
        load = self._loads.get(node_name)
        if load is None:
            load = self._loads[node_name] = NodeLoad(self._zero)
        uid = pod.metadata.uid
        known = load.pods.get(uid)
        if known is not None and estimate is None and surely_same(known.pod, pod):
            estimate = known.estimate or self._zero
        assigned = self._assigned(pod, estimate)
        if known is not None:
            if load.counts_alike(known, assigned):  # as when the API server confirms what was reserved
                load.pods[uid] = assigned
                return
            self._drop(load, uid)
        load.pods[uid] = assigned
        load.count(assigned, 1)
        self._tell(node_name)

    def unassign(self, node_name: str, uid: str) -> None:
        """Remove a pod from a node, if it is there."""
        load = self._loads.get(node_name)
        if load is not None and self._drop(load, uid):
            self._discard_if_empty(node_name, load)
            self._tell(node_name)

    def forget(self, node_name: str, uid: str) -> None:
        """Remove a reserved pod from its node, unless it was observed as bound there."""
        load = self._loads.get(node_name)
        assigned = load.pods.get(uid) if load is not None else None
        if assigned is not None and not assigned.pod.spec.node_name:
            self.unassign(node_name, uid)

    def _tell(self, node_name: str) -> None:
        for changed in self._on_change:
            changed(node_name)

    # --- events ----------------------------------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """The API server has a new pod."""
        self.assign(pod.spec.node_name, pod)

    def update_pod(self, old: Pod, pod: Pod) -> None:
        """The API server has a changed pod; changes of metadata alone are ignored.

        Only the pod itself leaves a node: stores report a pod that reuses the name of another one as a
        deletion and an addition.
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
        """A NodeMetric was added or changed."""
        name = metric.metadata.name
        load = self._loads.get(name)
        if load is None:
            load = self._loads[name] = NodeLoad(self._zero)
        load.set_metric(metric, self.estimator, include_system=self._settings.prod_usage_includes_system)
        self._tell(name)

    def delete_metric(self, metric: NodeMetric) -> None:
        """A NodeMetric was deleted; its time is kept as long as the node has pods."""
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
                return initialized + after_initialized * SECOND
        return timestamp + after_scheduled * SECOND if after_scheduled > 0 else None

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


def _condition_time(pod: Pod, type_: str) -> int | None:
    for condition in pod.status.conditions:
        if condition.type == type_:
            return micros_of(condition.last_transition_time) if condition.status == "True" else None
    return None


def _is_reserve_pod(pod: Pod) -> bool:
    return pod.metadata.annotations.get(ANNOTATION_RESERVE_POD) == "true"
