"""Gangs written with Kubernetes' own API: pods that name a group of `scheduling.k8s.io`.

A group with the policy `gang` is a gang whose minimum, `minCount`, counts members that wait or run, as in
kube-scheduler; annotations of its Workload or PodGroup say the rest, as those of other PodGroups do. A group
with the policy `basic` is a gang with a minimum of one, for which no pod ever waits. Source: KEP-4671, and
`pkg/scheduler/framework/plugins/gangscheduling` of Kubernetes 1.35 to 1.37.
"""

from dataclasses import replace
from typing import Final

import msgspec

from koordpy.api.core import Pod
from koordpy.api.meta import ObjectMeta
from koordpy.api.pod_groups import KubernetesPodGroup, SchedulingPolicy, Workload

from .membership import ANNOTATION_GANG_NAME, ANNOTATION_SCHEDULED_BY, own_gang_name
from .settings import (
    NON_STRICT,
    WAITING_AND_RUNNING,
    GangDefaults,
    GangSettings,
    GangSource,
    settings_of_metadata,
)

KUBE_SCHEDULER: Final = "kube-scheduler"

WAIT_SECONDS: Final = 300.0
"""How long kube-scheduler lets members wait for each other."""

_POD_GROUP: Final = "PodGroup"


def of_workload(workload: str, pod_group: str, replica_key: str = "") -> str:
    """Return the name of the gang of a group of a Workload, in one of its replicas."""
    return ":".join((workload, pod_group, replica_key) if replica_key else (workload, pod_group))


def of_pod_group(pod_group: str) -> str:
    """Return the name of the gang of a PodGroup of Kubernetes. Those of CRD have bare names."""
    return f"{_POD_GROUP}:{pod_group}"


def names_group(pod: Pod) -> bool:
    """Return whether a pod names a group of Kubernetes."""
    return pod.spec.workload_ref is not None or pod.spec.scheduling_group is not None


def group_name(pod: Pod, *, workload_ref: bool = True, scheduling_group: bool = True) -> str:
    """Return the name of the gang that the chosen fields of a pod's spec say, empty if none does."""
    reference, group = pod.spec.workload_ref, pod.spec.scheduling_group
    if workload_ref and reference is not None and reference.name:
        return of_workload(reference.name, reference.pod_group, reference.pod_group_replica_key)
    if scheduling_group and group is not None and group.pod_group_name:
        return of_pod_group(group.pod_group_name)
    return ""


def as_member(pod: Pod, name: str, *, left_to_kube_scheduler: bool) -> Pod:
    """Return a pod with annotations for what its group means here, which are never written.

    `name` is the name of its gang, unless labels or annotations of its own name another one. Where
    kube-scheduler gates the group, the pod is in no gang of ours, whatever names one.
    """
    notes = {key: value for key, value in pod.metadata.annotations.items() if key != ANNOTATION_SCHEDULED_BY}
    if left_to_kube_scheduler:
        notes[ANNOTATION_SCHEDULED_BY] = KUBE_SCHEDULER
    if name and not own_gang_name(pod):
        notes[ANNOTATION_GANG_NAME] = name
    if notes == pod.metadata.annotations:
        return pod
    metadata = msgspec.structs.replace(pod.metadata, annotations=notes)
    return msgspec.structs.replace(pod, metadata=metadata)


def settings_of_group(pod: Pod, group: Workload | KubernetesPodGroup, id_: str) -> GangSettings | None:
    """Return how the gang of a pod is scheduled, from the object that its spec names.

    None if a Workload has no group of that name.
    """
    if isinstance(group, KubernetesPodGroup):
        return _settings(group.spec.scheduling_policy, group.metadata, id_)
    reference = pod.spec.workload_ref
    for item in group.spec.pod_groups:
        if reference is not None and item.name == reference.pod_group:
            return _settings(item.policy, group.metadata, id_)
    return None


def _settings(policy: SchedulingPolicy, meta: ObjectMeta, id_: str) -> GangSettings:
    defaults = GangDefaults(WAIT_SECONDS, WAITING_AND_RUNNING)
    minimum = max(policy.gang.min_count, 1) if policy.gang is not None else 1
    told = settings_of_metadata(meta, id_, minimum, WAIT_SECONDS, GangSource.KUBERNETES, defaults)
    if policy.gang is not None:
        return told
    return replace(told, total=1, mode=NON_STRICT, match_policy=WAITING_AND_RUNNING, group=(id_,))
