"""Which gang a pod belongs to. Source: Koordinator, `apis/extension/coscheduling.go`."""

from typing import Final

from koordpy.api.core import Pod

LABEL_POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
LABEL_LIGHTWEIGHT_POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io/name"
ANNOTATION_GANG_NAME: Final = "gang.scheduling.koordinator.sh/name"


ANNOTATION_SCHEDULED_BY: Final = "gang.scheduling.koordpy.dev/scheduled-by"
"""What gates the pod's group instead of Coscheduling; only in memory, see `kubernetes_group`."""


def gang_name(pod: Pod) -> str:
    """Return the name of a pod's gang, empty if it has none, or one that kube-scheduler itself schedules."""
    if ANNOTATION_SCHEDULED_BY in pod.metadata.annotations:
        return ""
    return own_gang_name(pod)


def own_gang_name(pod: Pod) -> str:
    """Return the name that a pod's labels and annotations say, empty without."""
    meta = pod.metadata
    return (
        meta.labels.get(LABEL_POD_GROUP)
        or meta.labels.get(LABEL_LIGHTWEIGHT_POD_GROUP)
        or meta.annotations.get(ANNOTATION_GANG_NAME, "")
    )


def gang_id(pod: Pod) -> str:
    """Return the ID of a pod's gang, `namespace/name`; empty if it has none."""
    name = gang_name(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def names_pod_group(pod: Pod) -> bool:
    """Return whether a pod names a PodGroup, which alone then describes the gang."""
    return bool(pod.metadata.labels.get(LABEL_POD_GROUP))
