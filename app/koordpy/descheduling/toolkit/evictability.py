"""Properties of a pod that protect it from eviction.

Plugins combine them into their filters. Source: Koordinator, `pkg/descheduler/evictions/evictions.go`;
`sigs.k8s.io/descheduler`, `pkg/descheduler/pod`.
"""

from koordpy.api.core import Pod

ANNOTATION_EVICT = "descheduler.alpha.kubernetes.io/evict"
ANNOTATION_PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
ANNOTATION_MIRROR = "kubernetes.io/config.mirror"
ANNOTATION_SOURCE = "kubernetes.io/config.source"

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000


def is_asked_for(pod: Pod) -> bool:
    """Return whether the pod has the annotation that overrides all protection, with any value."""
    return ANNOTATION_EVICT in pod.metadata.annotations


def prefers_no_eviction(pod: Pod) -> bool:
    """Return whether the pod has the annotation against eviction, with any value."""
    return ANNOTATION_PREFER_NO_EVICTION in pod.metadata.annotations


def is_mirror(pod: Pod) -> bool:
    """Return whether the pod is the mirror of a static pod."""
    return ANNOTATION_MIRROR in pod.metadata.annotations


def is_static(pod: Pod) -> bool:
    """Return whether a kubelet got the pod from another source than the API server."""
    return pod.metadata.annotations.get(ANNOTATION_SOURCE, "api") != "api"


def is_terminating(pod: Pod) -> bool:
    """Return whether the pod is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_daemon(pod: Pod) -> bool:
    """Return whether a DaemonSet of any API group owns the pod."""
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def is_bare(pod: Pod) -> bool:
    """Return whether no controller would recreate the pod."""
    return not pod.metadata.owner_references


def is_system_critical(pod: Pod) -> bool:
    """Return whether the pod's priority is one of the system's own."""
    return pod.spec.priority is not None and pod.spec.priority >= SYSTEM_CRITICAL_PRIORITY


def has_local_storage(pod: Pod) -> bool:
    """Return whether the pod would lose data: a hostPath or emptyDir volume."""
    return any(volume.host_path is not None or volume.empty_dir is not None for volume in pod.spec.volumes)


def claims(pod: Pod) -> list[str]:
    """Return the names of the PersistentVolumeClaims that the pod mounts (not of generic ephemeral ones)."""
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]
