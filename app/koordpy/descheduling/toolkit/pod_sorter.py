"""In which order pods are evicted from a node: the least important, cheapest and youngest first.

Source: Koordinator, `pkg/descheduler/utils/sorter`; Kubernetes' pod deletion cost.
"""

import re
from collections.abc import Mapping
from typing import Final

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.qos import PriorityClass, QoSClass

ANNOTATION_POD_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
ANNOTATION_EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"

_PRIORITY_CLASSES: Final = {
    PriorityClass.FREE: 1,
    PriorityClass.BATCH: 2,
    PriorityClass.MID: 3,
    PriorityClass.PROD: 4,
    PriorityClass.NONE: 5,
}
_KUBE_QOS: Final[Mapping[str, int]] = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
_QOS: Final = {
    QoSClass.BE: 1,
    QoSClass.LS: 2,
    QoSClass.LSR: 3,
    QoSClass.LSE: 4,
    QoSClass.SYSTEM: 4,
    QoSClass.NONE: 5,
}
_COST: Final = re.compile(r"0|-[0-9]+|[1-9][0-9]*", re.ASCII)

SortKey = tuple[int, int, int, int, int, int, float, float]


def cost(pod: Pod, annotation: str) -> int:
    """Return a pod's cost by annotation; 0 if it is not a 32-bit integer or has a `+` or leading zeros."""
    text = pod.metadata.annotations.get(annotation, "")
    if not _COST.fullmatch(text):
        return 0
    number = int(text)
    return number if -(1 << 31) <= number < 1 << 31 else 0


def sort_key(pod: Pod, usage_score: float | None = None) -> SortKey:
    """Return the key by which pods are evicted, lowest first.

    Ordered by Koordinator priority class, `spec.priority`, Kubernetes QoS, Koordinator QoS, pod deletion
    cost, eviction cost, then by usage score, highest first and pods without one last, then the newest first.
    """
    created = pod.metadata.creation_timestamp
    return (
        _PRIORITY_CLASSES[qos.priority_class(pod)],
        pod.spec.priority or 0,
        _KUBE_QOS.get(qos.kube_qos(pod), 0),
        _QOS[qos.qos_class(pod)],
        cost(pod, ANNOTATION_POD_DELETION_COST),
        cost(pod, ANNOTATION_EVICTION_COST),
        float("inf") if usage_score is None else -usage_score,
        -parse_time(created).timestamp() if created else float("inf"),
    )
