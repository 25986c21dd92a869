"""Amplify the allocatable resources that kubelets report by the ratios in the node's annotation.

The kubelet's report is kept in an annotation, since status updates of other clients have the amplified
amounts. A change of allocatable cpu or memory is treated as a new report. Source: Koordinator,
`pkg/webhook/node/plugins/resourceamplification/resource_amplification.go`.
"""

from typing import Any, ClassVar, Final

import msgspec

from koordpy.admission.handler import UPDATE, Errored, MutatingHandler, Request
from koordpy.api import extension, resource_list
from koordpy.api.amplification import parse_ratios
from koordpy.api.document import Document
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.scheme import DecodeError

from .amplification import SUPPORTED, amplify

_ANNOTATIONS: Final = ("metadata", "annotations")
_ALLOCATABLE: Final = ("status", "allocatable")
_RATIO: Final = extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO
_RAW: Final = extension.ANNOTATION_NODE_RAW_ALLOCATABLE


class ResourceAmplificationPlugin(MutatingHandler):
    """The resource amplification handler of node status updates."""

    name: ClassVar[str] = "ResourceAmplification"
    metric_name: ClassVar[str] = "NodeResourceAmplificationPlugin"
    path: ClassVar[str] = "/mutate-node-status"

    def mutate(self, request: Request, document: Document) -> None:
        """Save the reported amounts and amplify them; without a ratio remove the saved amounts."""
        if request.operation != UPDATE:
            return
        annotations = document.get(_ANNOTATIONS, {})
        ratio = annotations.get(_RATIO) or ""
        if not ratio:
            _forget(document, annotations)
            return
        reported = document.get(_ALLOCATABLE)
        if reported is None:
            return
        allocatable = _supported(reported)
        if _RAW in annotations and allocatable == _supported(_reported(request.raw_old_object)):
            raw = _parse_raw(annotations[_RAW] or "")
            if raw is None:
                return
        else:
            raw = allocatable
            if raw:
                document.set((*_ANNOTATIONS, _RAW), resource_list.text(raw))
        try:
            ratios = parse_ratios(ratio) or {}
        except ValueError as error:
            raise Errored(500, str(error)) from None
        for name, amount in amplify(raw, ratios).items():
            if name not in reported or str(from_wire(reported[name])) != str(amount):
                document.set((*_ALLOCATABLE, name), str(amount))


def _forget(document: Document, annotations: dict[str, Any]) -> None:
    """Remove the annotation, and `annotations` if it was the only one."""
    if _RAW in annotations:
        document.remove((*_ANNOTATIONS, _RAW) if len(annotations) > 1 else _ANNOTATIONS)


def _reported(raw: bytes) -> dict[str, Any]:
    """Return the allocatable resources of a node in JSON."""
    node = msgspec.json.decode(raw, type=dict[str, Any])
    return (node.get("status") or {}).get("allocatable") or {}


def _supported(allocatable: dict[str, Any]) -> dict[str, Quantity]:
    return {name: from_wire(allocatable[name]) for name in SUPPORTED if name in allocatable}


def _parse_raw(text: str) -> resource_list.Quantities | None:
    try:
        return resource_list.parse(text)
    except DecodeError as error:
        raise Errored(500, f"failed to unmarshal node raw allocatable: {error}") from None
