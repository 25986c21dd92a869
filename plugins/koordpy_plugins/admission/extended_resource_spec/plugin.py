"""Write the batch resources of a pod's containers into the annotation that node agents read.

The kubelet does not pass extended resources to the container runtime, so koordlet takes cgroup values from
this annotation. Source: Koordinator, `pkg/webhook/pod/mutating/extended_resource_spec.go`.
"""

from typing import Any, ClassVar, Final

from koordpy.admission.handler import CREATE, Errored, MutatingHandler, Request
from koordpy.api import extended_resource_spec as spec
from koordpy.api import extension
from koordpy.api.document import Document

_ANNOTATION: Final = ("metadata", "annotations", extension.ANNOTATION_EXTENDED_RESOURCE_SPEC)
_COLLECTED: Final = (extension.BATCH_CPU, extension.BATCH_MEMORY)


class ExtendedResourceSpecPlugin(MutatingHandler):
    """The extended-resource-spec handler of pod admission."""

    name: ClassVar[str] = "ExtendedResourceSpec"
    path: ClassVar[str] = "/mutate-pod"
    disabled_by: ClassVar[str | None] = "DisableExtendedResourceSpec"

    def mutate(self, request: Request, document: Document) -> None:
        """Update the annotation; keep one that is equal already."""
        if request.operation != CREATE:
            return
        collected = collect(request, document)
        try:
            annotation = document.get(_ANNOTATION)
            if annotation is None and _is_null(document):
                annotation = ""
            current = None if annotation is None else spec.parse(annotation)
        except ValueError as error:
            raise Errored(500, f"failed to get current extended resource spec, err: {error}") from None
        if not spec.same(current, collected):
            document.set(_ANNOTATION, spec.text(collected))


def collect(request: Request, document: Document) -> spec.Containers | None:
    """Return the batch resources of the pod's containers; None if there are none."""
    collected: spec.Containers = {}
    for position, container in enumerate(document.get(("spec", "containers"), ())):
        resources = container.get("resources") if container else None
        if resources:
            limits, requests = (
                _amounts(request, position, field, resources.get(field)) for field in ("limits", "requests")
            )
            if limits or requests:
                collected[container.get("name") or ""] = spec.ContainerSpec(limits, requests)
    return collected or None


def _amounts(request: Request, position: int, field: str, amounts: dict[str, Any] | None) -> spec.Amounts:
    if not amounts:
        return {}
    return {
        name: request.quantity(("spec", "containers", position, "resources", field, name), amounts[name])
        for name in _COLLECTED
        if name in amounts
    }


def _is_null(document: Document) -> bool:
    """Return whether the annotation has a null value, which decodes as an empty string."""
    annotations = document.get(("metadata", "annotations"))
    return annotations is not None and extension.ANNOTATION_EXTENDED_RESOURCE_SPEC in annotations
