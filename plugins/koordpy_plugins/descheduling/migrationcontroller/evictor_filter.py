"""Which pods may never be evicted: a list of constraints that the arguments enable.

A constraint returns the reason why a pod may not be evicted, or None. A pod that fails one of them is refused
for good: its job fails in arbitration. Source: Koordinator, `pkg/descheduler/evictions/evictions.go`
(`NewEvictorFilter`) and `pkg/descheduler/controllers/migration/arbitrator/filter.go`. Unlike there,
`priorityThreshold.name` works.
"""

from collections.abc import Callable
from typing import Final

from koordpy.api import label_selector
from koordpy.api.core import Pod, PriorityClass
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit import evictability, pods
from koordpy.descheduling.toolkit.pod_sorter import ANNOTATION_EVICTION_COST, cost

from .args import EvictionGate, MigrationControllerArgs

NEVER: Final = (1 << 31) - 1
"""The eviction cost of pods that are never evicted."""

Constraint = Callable[[Pod], str | None]


def constraints(args: MigrationControllerArgs, cluster: Cluster) -> list[Constraint]:
    """Return the constraints of the arguments, in the order in which they are checked.

    Raises ValueError for a threshold among the priorities of the system.
    """
    skipped = args.skipped_gates
    found: list[Constraint] = []
    if args.namespaces is not None and EvictionGate.NAMESPACES not in skipped:
        selected = pods.in_namespaces(args.namespaces)
        found.append(_unless(selected, "its namespace is not selected by namespaces"))
    found.append(_when(_has_maximal_cost, "it has the maximal eviction cost, which forbids eviction"))
    found += [
        _when(evictability.is_daemon, "it is owned by a DaemonSet"),
        _when(evictability.is_mirror, "it is a mirror pod"),
        _when(evictability.is_static, "it is a static pod"),
        _when(evictability.is_terminating, "it is terminating"),
    ]
    if not args.evict_all_bare_pods and EvictionGate.BARE_PODS not in skipped:
        found.append(_not_bare(failed_too=not args.evict_failed_bare_pods))
    if not args.evict_system_critical_pods and EvictionGate.SYSTEM_CRITICAL not in skipped:
        found.append(_when(evictability.is_system_critical, "it has a system critical priority"))
        threshold = args.priority_threshold
        if threshold is not None and EvictionGate.PRIORITY_THRESHOLD not in skipped:
            if threshold.value is not None:
                if threshold.value > evictability.SYSTEM_CRITICAL_PRIORITY:
                    raise ValueError(
                        f"priorityThreshold.value is {threshold.value}, expected at most "
                        f"{evictability.SYSTEM_CRITICAL_PRIORITY}"
                    )
                found.append(_below(threshold.value))
            elif threshold.name:
                found.append(_below_class(threshold.name, cluster))
    if not args.evict_local_storage_pods and EvictionGate.LOCAL_STORAGE not in skipped:
        found.append(_when(evictability.has_local_storage, "it has local storage"))
    if args.ignore_pvc_pods and EvictionGate.PVC not in skipped:
        found.append(_when(lambda pod: bool(evictability.claims(pod)), "it mounts a PersistentVolumeClaim"))
    if args.label_selector is not None and EvictionGate.LABEL_SELECTOR not in skipped:
        selector = label_selector.of(args.label_selector)
        found.append(
            _unless(lambda pod: selector.matches(pod.metadata.labels), "labelSelector does not match it")
        )
    return found


def _when(holds: Callable[[Pod], bool], reason: str) -> Constraint:
    return lambda pod: reason if holds(pod) else None


def _unless(holds: Callable[[Pod], bool], reason: str) -> Constraint:
    return lambda pod: None if holds(pod) else reason


def _has_maximal_cost(pod: Pod) -> bool:
    return (
        ANNOTATION_EVICTION_COST in pod.metadata.annotations and cost(pod, ANNOTATION_EVICTION_COST) == NEVER
    )


def _not_bare(*, failed_too: bool) -> Constraint:
    def check(pod: Pod) -> str | None:
        if evictability.is_bare(pod) and (failed_too or pod.status.phase != "Failed"):
            return "it has no owner"
        return None

    return check


def _below_class(name: str, cluster: Cluster) -> Constraint:
    classes = cluster.store(PriorityClass)

    def check(pod: Pod) -> str | None:
        found = classes.get("", name)
        if found is None:
            return f"PriorityClass {name} of priorityThreshold does not exist"
        return _below(found.value)(pod)

    return check


def _below(limit: int) -> Constraint:
    def check(pod: Pod) -> str | None:
        priority = pod.spec.priority
        if priority is None or priority < limit:
            return None
        return f"its priority {priority} is not below the threshold {limit}"

    return check
