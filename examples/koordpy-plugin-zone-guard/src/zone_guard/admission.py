"""The admission side: pods get the zones of their namespace, and may request fewer but not others."""

from typing import ClassVar

from koordpy.admission.handler import CREATE, Denied, Handle, MutatingHandler, Request
from koordpy.api.document import Document
from koordpy.api.plugin import PluginArgs

from . import zones

_ANNOTATION = ("metadata", "annotations", zones.ANNOTATION)


class ZoneGuardHandlerArgs(PluginArgs):
    """`zonesByNamespace`: the zones that a namespace's pods may run in; other namespaces are free."""

    zones_by_namespace: dict[str, list[str]] = {}


class ZoneGuardHandler(MutatingHandler):
    """Writes the zones of the namespace into new pods."""

    name: ClassVar[str] = "ZoneGuard"
    path: ClassVar[str] = "/mutate-pod"
    args: ZoneGuardHandlerArgs

    def __init__(self, args: ZoneGuardHandlerArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.zones_by_namespace = {
            namespace: frozenset(names) for namespace, names in args.zones_by_namespace.items()
        }

    def mutate(self, request: Request, document: Document) -> None:
        """Set the annotation where the pod has none; deny zones that are not the namespace's."""
        allowed = self.zones_by_namespace.get(request.namespace)
        if request.operation != CREATE or allowed is None:
            return
        annotations = document.get(("metadata", "annotations")) or {}
        asked = zones.read(annotations)
        if asked is None:
            document.set(_ANNOTATION, zones.write(allowed))
        elif not asked <= allowed:
            raise Denied(
                f"annotation {zones.ANNOTATION}: {zones.write(asked - allowed)} is not among the zones of "
                f"namespace {request.namespace}: {zones.write(allowed)}"
            )
