"""Normalize GPU requests for device scheduling: cores, memory ratio and number of shares.

`koordinator.sh/gpu: 200` means two whole GPUs: 200 percent of the cores and of the memory, in two shares. A
container that requests only shares of GPUs gets the number of shares. Source: Koordinator,
`pkg/webhook/pod/mutating/device_resource_spec.go`.
"""

from typing import Any, ClassVar, Final

from koordpy.admission.handler import CREATE, MutatingHandler, Request
from koordpy.api import extension
from koordpy.api.document import Document, Path
from koordpy.api.quantity import Quantity

_GPU_RESOURCES: Final = frozenset(
    (
        extension.GPU,
        extension.GPU_CORE,
        extension.GPU_MEMORY,
        extension.GPU_MEMORY_RATIO,
        extension.GPU_SHARED,
    )
)
_WHOLE_GPU: Final = 100
_LISTS: Final = ("requests", "limits")


class DeviceResourceSpecPlugin(MutatingHandler):
    """The GPU handler of pod admission."""

    name: ClassVar[str] = "DeviceResourceSpec"
    path: ClassVar[str] = "/mutate-pod"
    disabled_by: ClassVar[str | None] = "DisableDeviceResourceSpec"

    def mutate(self, request: Request, document: Document) -> None:
        """Rewrite the GPU resources of the pod's containers; init containers are not changed."""
        if request.operation == CREATE:
            _rewrite_containers(request, document, ("spec", "containers"))


class ReservationDeviceResourceSpecPlugin(MutatingHandler):
    """The GPU handler of Reservation admission, which Koordinator does not have.

    A Reservation serves pods whose requests name the same resources, so its template is rewritten as its
    owners are.
    """

    name: ClassVar[str] = "DeviceResourceSpec"
    path: ClassVar[str] = "/mutate-reservation"
    feature: ClassVar[str | None] = "ReservationDeviceResourceSpec"

    def mutate(self, request: Request, document: Document) -> None:
        """Rewrite the GPU resources of the template's containers; init containers are not changed."""
        if request.operation == CREATE and document.get(("spec", "template", "spec")):
            _rewrite_containers(request, document, ("spec", "template", "spec", "containers"))


def _rewrite_containers(request: Request, document: Document, containers: Path) -> None:
    for position, container in enumerate(document.get(containers, ())):
        resources = container.get("resources") if container else None
        if resources and any(not _GPU_RESOURCES.isdisjoint(resources.get(name) or ()) for name in _LISTS):
            _rewrite(request, document, (*containers, position, "resources"))


def _rewrite(request: Request, document: Document, resources: Path) -> None:
    requests: dict[str, Any] = document.get((*resources, "requests"), {})
    has_shares = extension.GPU_SHARED in requests
    if extension.GPU in requests:
        percent = _amount(request, (*resources, "requests", extension.GPU), requests)
        _put(request, document, resources, extension.GPU_CORE, percent)
        _put(request, document, resources, extension.GPU_MEMORY_RATIO, percent)
        for name in _LISTS:
            document.remove((*resources, name, extension.GPU))
    if not has_shares:
        _put(request, document, resources, extension.GPU_SHARED, _shares(request, document, resources))


def _shares(request: Request, document: Document, resources: Path) -> int:
    """Return the number of requested GPUs, 1 unless several whole ones are requested."""
    requests: dict[str, Any] = document.get((*resources, "requests"), {})
    for name in (extension.GPU_MEMORY_RATIO, extension.GPU_CORE):
        if name in requests:
            percent = _amount(request, (*resources, "requests", name), requests)
            whole = percent > _WHOLE_GPU and percent % _WHOLE_GPU == 0
            return percent // _WHOLE_GPU if whole else 1
    return 1


def _amount(request: Request, path: Path, requests: dict[str, Any]) -> int:
    return request.quantity(path, requests[str(path[-1])]).value()


def _put(request: Request, document: Document, resources: Path, name: str, amount: int) -> None:
    """Set a quantity in requests and limits; an equal one keeps its text."""
    text = str(Quantity.of(amount))
    for field in _LISTS:
        path = (*resources, field, name)
        known = document.get(path)
        if known is None or str(request.quantity(path, known)) != text:
            document.set(path, text)
