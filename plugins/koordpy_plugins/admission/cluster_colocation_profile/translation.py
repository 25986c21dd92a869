"""Translate cpu and memory of a pod into the resources of its priority class.

A batch or mid pod does not request cpu and memory but the overcommitted resources of the node, which have
other names. Source: Koordinator, `pkg/webhook/pod/mutating/cluster_colocation_profile.go`
(`mutatePodResourceSpec`), `apis/extension/resource.go`.
"""

from typing import Any, Final

from koordpy.admission.handler import Request
from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.document import Document, Path
from koordpy.api.qos import PriorityClass, priority_class, priority_class_of_value
from koordpy.api.quantity import Quantity, from_wire
from koordpy.lib.bounded_cache import cached, text_size

_NAMES: Final = {
    PriorityClass.BATCH: (extension.BATCH_CPU, extension.BATCH_MEMORY),
    PriorityClass.MID: (extension.MID_CPU, extension.MID_MEMORY),
}
_CPU: Final = extension.CPU
_MEMORY: Final = extension.MEMORY
_CONTAINERS: Final = ("initContainers", "containers")


def translate(request: Request, document: Document) -> PriorityClass:
    """Rename cpu and memory of init containers, containers and overhead; return the priority class.

    A pod of class prod, free or none does not change. cpu becomes an integer of milli-cores, memory keeps its
    text. A container that has only a limit of a translated resource gets an equal request.
    """
    found = _priority_class(request, document)
    names = _NAMES.get(found)
    if names is None:
        return found
    spec = document.raw.get("spec") or {}
    plain = request.has_plain_amounts
    for field in _CONTAINERS:
        for position, container in enumerate(spec.get(field) or ()):
            resources = container.get("resources") if container else None
            if resources:
                place = ("spec", field, position, "resources")
                _translate_container(request, plain, document, place, resources, names)
    overhead = spec.get("overhead")
    if overhead:
        renamed = _renamed(request, plain, ("spec", "overhead"), overhead, names)
        if renamed is not overhead:
            document.set(("spec", "overhead"), renamed)
    return found


def _priority_class(request: Request, document: Document) -> PriorityClass:
    """Return the pod's class with its defaults; for most pods without decoding them."""
    raw = document.raw
    labels = (raw.get("metadata") or {}).get("labels") or {}
    if extension.LABEL_POD_PRIORITY_CLASS not in labels:
        found = priority_class_of_value((raw.get("spec") or {}).get("priority"))
        if found:
            return found
    return priority_class(request.object(Pod))


def _translate_container(
    request: Request,
    plain: bool,
    document: Document,
    path: Path,
    resources: dict[str, Any],
    names: tuple[str, str],
) -> None:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    requests_path, limits_path = (*path, "requests"), (*path, "limits")
    new_requests = _renamed(request, plain, requests_path, requests, names)
    new_limits = _renamed(request, plain, limits_path, limits, names)
    for name in names:
        if name in new_limits and name not in new_requests:
            if new_requests is requests:
                new_requests = dict(requests)
            quantity = request.quantity((*limits_path, name), new_limits[name])
            new_requests[name] = str(quantity)
            request.note_quantity((*requests_path, name), quantity)
    if new_requests is not requests:
        # one operation per container even if both change
        if new_limits is not limits:
            changed = resources | {"requests": new_requests, "limits": new_limits}
            document.set(path, changed, copy=len(changed) > 2)
        else:
            document.set(requests_path, new_requests)
    elif new_limits is not limits:
        document.set(limits_path, new_limits)


def _renamed(
    request: Request, plain: bool, path: Path, amounts: dict[str, Any], names: tuple[str, str]
) -> dict[str, Any]:
    """Return a resource list under the class's names, or the list itself if it has no cpu and memory.

    With `plain` every quantity has the form of its wire value.
    """
    if _CPU not in amounts and _MEMORY not in amounts:
        return amounts
    renamed = dict(amounts)
    for name, new_name, convert, known in (
        (_CPU, names[0], _milli_cores, _known_milli_cores),
        (_MEMORY, names[1], _bytes, _known_bytes),
    ):
        if name in amounts:
            wire = renamed.pop(name)
            if plain and type(wire) is str:
                quantity, text = known(wire)
            else:
                quantity, text = convert(request.quantity((*path, name), wire))
            renamed[new_name] = text
            request.note_quantity((*path, new_name), quantity)
    return renamed


def _milli_cores(quantity: Quantity) -> tuple[Quantity, str]:
    cores = Quantity.of(quantity.milli_value())
    return cores, str(cores)


def _bytes(quantity: Quantity) -> tuple[Quantity, str]:
    return quantity, str(quantity)


# Pods request the same few amounts.


@cached("translated_amounts", 1 << 20, text_size)
def _known_milli_cores(wire: str) -> tuple[Quantity, str]:
    return _milli_cores(from_wire(wire))


@cached("translated_amounts", 1 << 20, text_size)
def _known_bytes(wire: str) -> tuple[Quantity, str]:
    return _bytes(from_wire(wire))
