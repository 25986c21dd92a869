"""Refuse pods with an invalid combination of QoS class, priority class and resources, or with a change of it.

The QoS class and the priority class of a pod determine its treatment on the node from its start, so an update
must not change them. Source: Koordinator, `pkg/webhook/pod/validating/cluster_colocation_profile.go`.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from koordpy.admission.handler import UPDATE, Errored, Handle, Request, ValidatingHandler
from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.field_error import FieldError, aggregate, forbidden, invalid, required
from koordpy.api.plugin import PluginArgs
from koordpy.api.qos import PriorityClass, QoSClass, priority_class_raw, qos_class_raw
from koordpy.api.quantity import Quantity
from koordpy.api.resources import pod_requests
from koordpy.lib import int64

_QOS: Final = f"labels.{extension.LABEL_POD_QOS}"
_PRIORITY: Final = "spec.priority"
_SUB_PRIORITY: Final = f"labels.{extension.LABEL_POD_PRIORITY}"
_REQUESTS: Final = "pod.spec.containers[*].resources.requests"

_IMMUTABLE: Final = "field is immutable"
_NEEDS_BE: Final = "must specify koordinator QoS BE with koordinator colocation resources"
_NEEDS_CPU: Final = "LSR Pod must declare the requested CPUs"
_NEEDS_WHOLE_CPU: Final = "the requested CPUs of LSR Pod must be integer"

_FORBIDDEN: Final = {
    QoSClass.BE: frozenset((PriorityClass.NONE, PriorityClass.PROD)),
    QoSClass.LSR: frozenset(PriorityClass) - {PriorityClass.PROD},
}
_ZERO: Final = Quantity.of(0)


class ClusterColocationProfileValidation(ValidatingHandler):
    """The QoS and priority check of pod admission."""

    name: ClassVar[str] = "ClusterColocationProfile"
    path: ClassVar[str] = "/validate-pod"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._sub_priority_is_fixed = not handle.gates.enabled("ColocationProfileSkipValidatingPriority")

    def validate(self, request: Request) -> None:
        """Refuse the pod with all its errors."""
        pod = request.object(Pod)
        errors: list[FieldError] = []
        if request.operation == UPDATE:
            errors += self._changes(pod, request.old_object(Pod))
        errors += _contradictions(pod)
        if errors:
            raise Errored(400, aggregate(errors))

    def _changes(self, pod: Pod, old: Pod) -> Iterator[FieldError]:
        """Yield changes of immutable fields. A priority's value may change within its class."""
        if (new_qos := qos_class_raw(pod)) != qos_class_raw(old):
            yield invalid(_QOS, new_qos, _IMMUTABLE)
        if (new_class := priority_class_raw(pod)) != priority_class_raw(old):
            yield invalid(_PRIORITY, new_class, _IMMUTABLE)
        if self._sub_priority_is_fixed and (priority := _sub_priority(pod)) != _sub_priority(old):
            yield invalid(_SUB_PRIORITY, priority, _IMMUTABLE)


def _sub_priority(pod: Pod) -> str:
    return pod.metadata.labels.get(extension.LABEL_POD_PRIORITY, "")


def _contradictions(pod: Pod) -> Iterator[FieldError]:
    """Yield invalid combinations."""
    requests = pod_requests(pod)
    qos, priority = qos_class_raw(pod), priority_class_raw(pod)
    if qos is not QoSClass.BE and not all(
        requests.get(name, _ZERO).is_zero for name in (extension.BATCH_CPU, extension.BATCH_MEMORY)
    ):
        yield required(_QOS, _NEEDS_BE)
    if priority in _FORBIDDEN.get(qos, ()):
        pair = f"{extension.LABEL_POD_QOS}={qos} and priorityClass={priority}"
        yield forbidden("Pod", f"{pair} cannot be used in combination")
    if qos in (QoSClass.LSR, QoSClass.LSE):
        cpu = requests.get(extension.CPU, _ZERO)
        if cpu.is_zero:
            yield required(_REQUESTS, _NEEDS_CPU)
        elif int64.wrap(cpu.value() * 1000) != cpu.milli_value():
            yield invalid(_REQUESTS, str(cpu), _NEEDS_WHOLE_CPU)
