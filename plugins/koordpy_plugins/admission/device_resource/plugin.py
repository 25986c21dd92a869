"""Refuse GPU requests that no device can satisfy.

Source: Koordinator, `pkg/webhook/pod/validating/verify_device_resource.go`.
"""

from collections.abc import Iterator
from typing import ClassVar, Final

from koordpy.admission.handler import CREATE, UPDATE, Errored, Request, ValidatingHandler
from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.field_error import FieldError, aggregate, forbidden, invalid
from koordpy.api.meta import ResourceList
from koordpy.api.quantity import from_wire

_REQUESTS: Final = "pod.spec.containers[*].resources.requests"
_WHOLE_GPU: Final = 100

_BOTH_FORMS: Final = "Forbidden declare GPU and GPU share at same time"
_NOTHING: Final = "the requested GPU must be greater than zero"
_NOT_WHOLE: Final = "the requested GPU must be percentage of 100"
_NO_MEMORY: Final = "GPU memory and GPU memory ratio all is zero"
_BOTH_MEMORIES: Final = "declare GPU memory and GPU memory ratio at same time"
_UNEVEN_CORE: Final = "the requested gpuCore must multiple of shared"
_UNEVEN_RATIO: Final = "the requested gpuMemoryRatio must multiple of shared"


class DeviceResourcePlugin(ValidatingHandler):
    """The GPU check of pod admission."""

    name: ClassVar[str] = "DeviceResource"
    path: ClassVar[str] = "/validate-pod"
    feature: ClassVar[str | None] = "ValidatePodDeviceResource"

    def validate(self, request: Request) -> None:
        """Refuse the pod with all errors of its containers' requests."""
        if request.operation not in (CREATE, UPDATE):
            return
        containers = request.object(Pod).spec.containers
        errors = [error for container in containers for error in _errors(container.resources.requests)]
        if errors:
            raise Errored(400, aggregate(errors))


def _errors(requests: ResourceList) -> Iterator[FieldError]:
    if extension.GPU in requests:
        if extension.GPU_SHARED in requests:
            yield forbidden(_REQUESTS, _BOTH_FORMS)
            return
        gpu = _value(requests, extension.GPU)
        if gpu == 0:
            yield _invalid(requests, extension.GPU, _NOTHING)
        if gpu > _WHOLE_GPU and gpu % _WHOLE_GPU:
            yield _invalid(requests, extension.GPU, _NOT_WHOLE)
    if extension.GPU_SHARED in requests:
        yield from _share_errors(requests)


def _share_errors(requests: ResourceList) -> Iterator[FieldError]:
    """Check shares of GPUs. NPUs can be shared too, with different rules."""
    shared = _value(requests, extension.GPU_SHARED)
    if shared == 0:
        yield _invalid(requests, extension.GPU_SHARED, _NOTHING)
    if _value(requests, extension.HUAWEI_NPU_CORE) != 0:
        return
    memory, ratio = _value(requests, extension.GPU_MEMORY), _value(requests, extension.GPU_MEMORY_RATIO)
    if memory == 0 and ratio == 0:
        yield forbidden(_REQUESTS, _NO_MEMORY)
    if memory != 0 and ratio != 0:
        yield forbidden(_REQUESTS, _BOTH_MEMORIES)
    if shared != 0:
        if _value(requests, extension.GPU_CORE) % shared:
            yield _invalid(requests, extension.GPU_CORE, _UNEVEN_CORE)
        if ratio % shared:
            yield _invalid(requests, extension.GPU_MEMORY_RATIO, _UNEVEN_RATIO)


def _value(requests: ResourceList, name: str) -> int:
    return from_wire(requests.get(name, 0)).value()


def _invalid(requests: ResourceList, name: str, detail: str) -> FieldError:
    return invalid(_REQUESTS, str(from_wire(requests[name])), detail)
