"""The constraints of DefaultEvictor: one function per protection, built from the arguments.

A constraint returns the reason why a pod may not be evicted, or None. Source: `sigs.k8s.io/descheduler`,
`pkg/framework/plugins/defaultevictor`.
"""

from collections.abc import Callable
from datetime import timedelta

from koordpy.api import label_selector
from koordpy.api.core import PersistentVolumeClaim, Pod, PodDisruptionBudget, PriorityClass
from koordpy.api.meta import parse_time
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit import evictability
from koordpy.lib.counting import counted

from .args import DefaultEvictorArgs, NoEvictionPolicy, Protection

Constraint = Callable[[Pod], str | None]


def constraints(args: DefaultEvictorArgs, cluster: Cluster) -> list[Constraint]:
    """Return the constraints that the arguments enable, in the order of the reasons."""
    on = args.protections
    found: list[Constraint] = [
        _when(evictability.is_mirror, "it is a mirror pod"),
        _when(evictability.is_static, "it is a static pod"),
        _when(evictability.is_terminating, "it is terminating"),
    ]
    if args.no_eviction_policy == NoEvictionPolicy.MANDATORY:
        found.insert(0, _when(evictability.prefers_no_eviction, "it has the annotation prefer-no-eviction"))
    if Protection.SYSTEM_CRITICAL in on:
        found.append(_when(evictability.is_system_critical, "it has a system critical priority"))
        if args.priority_threshold is not None:
            found.append(_below_threshold(args, cluster))
    found.append(_not_bare(Protection.FAILED_BARE in on))
    if Protection.LOCAL_STORAGE in on:
        found.append(_when(evictability.has_local_storage, "it has local storage"))
    if Protection.DAEMON_SET in on:
        found.append(_when(evictability.is_daemon, "it is owned by a DaemonSet"))
    if Protection.PVC in on:
        found.append(_without_claims(args.protected_storage_classes, cluster))
    if Protection.WITHOUT_PDB in on:
        found.append(_covered_by_budget(cluster))
    if Protection.RESOURCE_CLAIMS in on:
        found.append(_when(lambda pod: bool(pod.spec.resource_claims), "it has resource claims"))
    if args.label_selector is not None:
        selector = label_selector.of(args.label_selector)
        found.append(
            _when(lambda pod: not selector.matches(pod.metadata.labels), "labelSelector does not match it")
        )
    if args.min_replicas > 1:
        found.append(_with_replicas(args.min_replicas, cluster))
    if args.min_pod_age is not None:
        found.append(_old_enough(timedelta(microseconds=args.min_pod_age / 1000), cluster))
    return found


def _when(holds: Callable[[Pod], bool], reason: str) -> Constraint:
    return lambda pod: reason if holds(pod) else None


def _not_bare(failed_too: bool) -> Constraint:
    def check(pod: Pod) -> str | None:
        if evictability.is_bare(pod) and (failed_too or pod.status.phase != "Failed"):
            return "it has no owner"
        return None

    return check


def _below_threshold(args: DefaultEvictorArgs, cluster: Cluster) -> Constraint:
    threshold = args.priority_threshold
    assert threshold is not None
    classes = cluster.store(PriorityClass)

    def check(pod: Pod) -> str | None:
        limit = threshold.value
        if limit is None and threshold.name:
            named = classes.get("", threshold.name)
            if named is None:
                return f"PriorityClass {threshold.name} of priorityThreshold does not exist"
            limit = named.value
        if limit is None or pod.spec.priority is None or pod.spec.priority < limit:
            return None
        return f"its priority {pod.spec.priority} is not below the threshold {limit}"

    return check


def _without_claims(storage_classes: frozenset[str], cluster: Cluster) -> Constraint:
    known = cluster.store(PersistentVolumeClaim) if storage_classes else None

    def check(pod: Pod) -> str | None:
        for name in evictability.claims(pod):
            if known is None:
                return f"it mounts PersistentVolumeClaim {name}"
            claim = known.get(pod.metadata.namespace, name)
            if claim is None:
                return f"its PersistentVolumeClaim {name} does not exist"
            if claim.spec.storage_class_name in storage_classes:
                return (
                    f"it mounts PersistentVolumeClaim {name} of StorageClass {claim.spec.storage_class_name}"
                )
        return None

    return check


def _covered_by_budget(cluster: Cluster) -> Constraint:
    budgets = cluster.store(PodDisruptionBudget)

    def check(pod: Pod) -> str | None:
        covered = any(
            budget.metadata.namespace == pod.metadata.namespace
            and label_selector.of(budget.spec.selector).matches(pod.metadata.labels)
            for budget in budgets
        )
        return None if covered else "no PodDisruptionBudget covers it"

    return check


def _with_replicas(at_least: int, cluster: Cluster) -> Constraint:
    pods = cluster.store(Pod).index(_owners)

    def check(pod: Pod) -> str | None:
        owners = pod.metadata.owner_references
        if len(owners) != 1:
            return None
        replicas = len(pods.get(owners[0].uid))
        return (
            f"its owner has {counted(replicas, 'pod')}, minReplicas is {at_least}"
            if replicas < at_least
            else None
        )

    return check


def _owners(pod: Pod) -> set[str]:
    return {owner.uid for owner in pod.metadata.owner_references}


def _old_enough(age: timedelta, cluster: Cluster) -> Constraint:
    def check(pod: Pod) -> str | None:
        started = pod.status.start_time
        if started is None or cluster.clock.now() - parse_time(started) < age:
            return "it is younger than minPodAge"
        return None

    return check
