"""The scale subresource: the replicas of a workload, and nothing else of it."""

from typing import Any

import msgspec

from koordpy.api import json_merge, json_patch, label_selector
from koordpy.api.field_cause import Cause, invalid_value
from koordpy.api.meta import LabelSelector
from koordpy.api.patch import PatchError

from ..attributes import Attributes
from ..errors import bad_request, conflict, invalid, not_found, unsupported_media_type
from ..representation import bodies
from ..storage import key_of
from ..wire import Request, Response
from .writing import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Writer

Document = dict[str, Any]

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class Scaler:
    """Reads and writes Scale objects."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def handle(self, request: Request, attrs: Attributes) -> Response:
        """GET, PUT or PATCH of NAME/scale."""
        served = attrs.served
        record = served.table.get(key_of(attrs.namespace, attrs.name))
        if record is None:
            raise not_found(served.plural, served.group, attrs.name)
        if request.method == "GET":
            return Response(msgspec.json.encode(_scale(record.document())))

        def change(old: Document) -> Document:
            scale = self._wanted(request, _scale(old))
            metadata = scale.get("metadata") or {}
            if metadata.get("name") != attrs.name:
                raise bad_request("the name of the object does not match the name on the URL")
            version = metadata.get("resourceVersion")
            if version and version != old["metadata"]["resourceVersion"]:
                raise conflict(served.plural, served.group, attrs.name)
            replicas = (scale.get("spec") or {}).get("replicas", 0)
            if not isinstance(replicas, int) or replicas < 0:
                causes: list[Cause] = [
                    invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
                ]
                raise invalid("Scale", "autoscaling", attrs.name, causes)
            return {**old, "spec": {**old["spec"], "replicas": replicas}}

        raw = await self._writer.change(attrs, change)
        return Response(msgspec.json.encode(_scale(msgspec.json.decode(raw))))

    @staticmethod
    def _wanted(request: Request, current: Document) -> Document:
        if request.method == "PUT":
            return bodies.load_object(request)
        patch, media = bodies.load_json(request), bodies.media_type(request)
        try:
            if media == JSON_PATCH:
                found: Document = json_patch.apply(current, patch)
            elif media in (MERGE_PATCH, STRATEGIC_PATCH):
                found = json_merge.apply(current, patch)
            else:
                raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH))
        except PatchError as error:
            raise bodies.check_patchable(error, error.code) from None
        return found


def _scale(document: Document) -> Document:
    spec, status = document.get("spec") or {}, document.get("status") or {}
    selector = spec.get("selector") or {}
    if "matchLabels" in selector or "matchExpressions" in selector:
        text = str(label_selector.of(msgspec.convert(selector, LabelSelector)))
    else:
        text = str(label_selector.of_labels(selector))
    found: Document = {"replicas": status.get("replicas", 0)}
    if text:
        found["selector"] = text
    metadata = {name: document["metadata"][name] for name in _KEPT if name in document["metadata"]}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": found,
    }
