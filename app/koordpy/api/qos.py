"""Quality of service and priority of a pod, by Kubernetes and by Koordinator.

Koordinator reads both from labels with fallbacks: its priority class to the range of spec.priority and then
to the QoS class, its QoS class to Kubernetes' own. The *raw* functions stop before that last step. Sources:
Kubernetes, `k8s.io/kubectl/pkg/util/qos`; Koordinator, `apis/extension` (`qos.go`, `qos_utils.go`,
`priority.go`, `priority_utils.go`, `resource.go`).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from koordpy.lib import int64

from . import extension
from .core import Pod, ResourceRequirements
from .meta import ResourceList
from .quantity import nano_value
from .resource_names import CPU, MEMORY


class QoSClass(StrEnum):
    """Koordinator's QoS classes; NONE if a pod has none."""

    NONE = ""
    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"


class PriorityClass(StrEnum):
    """Koordinator's priority classes; NONE if a pod has none."""

    NONE = ""
    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"


class KubeQoS:
    """Kubernetes' QoS classes. A pod's status may hold any other text."""

    GUARANTEED: Final = "Guaranteed"
    BURSTABLE: Final = "Burstable"
    BEST_EFFORT: Final = "BestEffort"


_QOS_BY_LABEL: Final = {item.value: item for item in QoSClass if item}
_PRIORITY_BY_LABEL: Final = {item.value: item for item in PriorityClass if item}
_PRIORITY_RANGES: Final = (
    (9000, 9999, PriorityClass.PROD),
    (7000, 7999, PriorityClass.MID),
    (5000, 5999, PriorityClass.BATCH),
    (3000, 3999, PriorityClass.FREE),
)
_DEFAULT_PRIORITIES: Final = {
    PriorityClass.PROD: 9500,
    PriorityClass.MID: 7500,
    PriorityClass.BATCH: 5500,
    PriorityClass.FREE: 3500,
    PriorityClass.NONE: 0,
}
_QOS_BY_KUBE_QOS: Final = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}
_PRIORITY_BY_QOS: Final = {
    QoSClass.SYSTEM: PriorityClass.PROD,
    QoSClass.LSE: PriorityClass.PROD,
    QoSClass.LSR: PriorityClass.PROD,
    QoSClass.LS: PriorityClass.PROD,
    QoSClass.BE: PriorityClass.BATCH,
    QoSClass.NONE: PriorityClass.NONE,
}
_TRANSLATED: Final = {
    PriorityClass.BATCH: {CPU: extension.BATCH_CPU, MEMORY: extension.BATCH_MEMORY},
    PriorityClass.MID: {CPU: extension.MID_CPU, MEMORY: extension.MID_MEMORY},
    PriorityClass.FREE: {},
}


def kube_qos(pod: Pod) -> str:
    """Return the Kubernetes QoS class: that of the status, even if unknown, else the computed one."""
    return pod.status.qos_class or computed_kube_qos(pod)


def computed_kube_qos(pod: Pod) -> str:
    """Return the Kubernetes QoS class by cpu and memory of all containers, init containers too.

    If the spec has pod-level resources, even empty ones, containers are ignored.
    """
    spec = pod.spec
    if spec.resources is not None:
        return _kube_qos_of((spec.resources,))
    return _kube_qos_of(item.resources for item in (*spec.containers, *spec.init_containers))


def kube_qos_of_containers(pod: Pod) -> str:
    """Return the Kubernetes QoS class: that of the status, else computed without pod-level resources.

    As components compute it that do not know resources of whole pods, such as the descheduler.
    """
    spec = pod.spec
    return pod.status.qos_class or _kube_qos_of(
        item.resources for item in (*spec.containers, *spec.init_containers)
    )


def _kube_qos_of(every: Iterable[ResourceRequirements]) -> str:
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    fully_limited = True
    for resources in every:
        _sum_positive(requests, resources.requests)
        if _sum_positive(limits, resources.limits) != 2:
            fully_limited = False
    if not requests and not limits:
        return KubeQoS.BEST_EFFORT
    if fully_limited and requests == limits:
        return KubeQoS.GUARANTEED
    return KubeQoS.BURSTABLE


def _sum_positive(total: dict[str, int], amounts: ResourceList) -> int:
    """Add cpu and memory, in billionths, if above 0; return how many of the two were."""
    found = 0
    for name in (CPU, MEMORY):
        amount = amounts.get(name)
        if amount is not None and (nanos := nano_value(amount)) > 0:
            total[name] = total.get(name, 0) + nanos
            found += 1
    return found


def qos_class_raw(pod: Pod) -> QoSClass:
    """Return the QoS class that a pod's label names; NONE for a missing or unknown one."""
    return _QOS_BY_LABEL.get(pod.metadata.labels.get(extension.LABEL_POD_QOS, ""), QoSClass.NONE)


def qos_class(pod: Pod) -> QoSClass:
    """Return the QoS class by label, else by the Kubernetes QoS class."""
    return qos_class_raw(pod) or _QOS_BY_KUBE_QOS.get(kube_qos(pod), QoSClass.NONE)


def priority_class_of_value(priority: int | None) -> PriorityClass:
    """Return the class in whose range a numeric priority lies, NONE if there is none."""
    if priority is not None:
        for low, high, priority_class in _PRIORITY_RANGES:
            if low <= priority <= high:
                return priority_class
    return PriorityClass.NONE


def priority_class_raw(pod: Pod) -> PriorityClass:
    """Return the priority class by label or, only if there is no such label, by spec.priority."""
    label = pod.metadata.labels.get(extension.LABEL_POD_PRIORITY_CLASS)
    if label is not None:
        return _PRIORITY_BY_LABEL.get(label, PriorityClass.NONE)
    return priority_class_of_value(pod.spec.priority)


def priority_class(pod: Pod) -> PriorityClass:
    """Return the priority class by label or spec.priority, else by QoS class with its default."""
    return priority_class_raw(pod) or _PRIORITY_BY_QOS[qos_class(pod)]


def default_priority(priority_class: PriorityClass) -> int:
    """Return the numeric priority that stands for a class: the middle of its range, 0 for NONE."""
    return _DEFAULT_PRIORITIES[priority_class]


def priority_value(pod: Pod) -> int:
    """Return spec.priority, or if it is absent or 0 the default of the priority class."""
    return pod.spec.priority or default_priority(priority_class(pod))


def sub_priority(pod: Pod) -> int:
    """Return the sub-priority that a pod's label holds, 0 where it is absent or empty.

    Raises:
        ValueError: the label is not a 32-bit integer (base prefixes `0x`, `0b`, `0o`, `0` and `_` are
        allowed).
    """
    label = pod.metadata.labels.get(extension.LABEL_POD_PRIORITY, "")
    if not label:
        return 0
    number = int64.parse_any_base(label, bits=32)
    if number is None:
        raise ValueError(
            f"pod {pod.metadata.key}: {extension.LABEL_POD_PRIORITY}={label!r}: expected a 32-bit integer"
        )
    return number


def translate_resource(priority_class: PriorityClass, name: str) -> str:
    """Return the name under which a class gets a resource, empty if it gets none of it.

    Prod and NONE use the name as it is; batch and mid have their own cpu and memory, and nothing else.
    """
    table = _TRANSLATED.get(priority_class)
    return name if table is None else table.get(name, "")
