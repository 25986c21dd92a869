"""Refuse pods of users with Koordinator's annotation of reserve pods.

The scheduler represents every Reservation by a reserve pod, which has an annotation. A real pod with that
annotation would be treated as a reserve pod. Source: Koordinator,
`pkg/webhook/pod/validating/verify_annotations.go`.
"""

from typing import ClassVar

from koordpy.admission.handler import CREATE, UPDATE, Errored, Request, ValidatingHandler
from koordpy.api import extension, field_error
from koordpy.api.core import Pod


class ClusterReservationPlugin(ValidatingHandler):
    """The reserved-annotation check of pod admission."""

    name: ClassVar[str] = "ClusterReservation"
    path: ClassVar[str] = "/validate-pod"

    def validate(self, request: Request) -> None:
        """Refuse a pod that has the annotation, whatever its value."""
        if request.operation not in (CREATE, UPDATE):
            return
        if extension.ANNOTATION_RESERVE_POD in request.object(Pod).metadata.annotations:
            path = f"annotations.{extension.ANNOTATION_RESERVE_POD}"
            raise Errored(400, str(field_error.forbidden(path, "cannot set in annotations")))
