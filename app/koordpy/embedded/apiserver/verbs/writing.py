"""POST, PUT, PATCH: from a change to a stored record, through admission and validation.

The order is kube-apiserver's: read and default, mutating admission, prepare, validate, validating admission,
store. Admission may wait for webhooks; if the stored object has changed meanwhile, the change is applied
again to the current one, unless the client required a resource version.
"""

import random
from collections.abc import Callable
from typing import Any

import msgspec

from koordpy.api import json_merge, json_patch, strategic_merge
from koordpy.api.field_cause import invalid_value, required
from koordpy.api.patch import PatchError
from koordpy.lib.clock import Clock

from .. import metadata as meta
from ..admission.admission import Admission
from ..attributes import Attributes
from ..errors import (
    ApiError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    unsupported_media_type,
)
from ..representation import bodies, presentation
from ..representation.presentation import Form
from ..storage import Record, key_of
from ..wire import Request, Response
from . import apply

Document = dict[str, Any]
Change = Callable[[Document], Document]
"""Makes the wanted document from a fresh copy of the stored one. Raises ApiError."""

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

ATTEMPTS = 8
"""How often a change is retried if the object has changed meanwhile."""


class Writer:
    """Executes writes on any resource."""

    def __init__(self, admission: Admission, clock: Clock, rng: random.Random) -> None:
        self._admission = admission
        self._clock = clock
        self._rng = rng

    # create

    async def create(self, request: Request, attrs: Attributes) -> Response:
        """POST to a collection."""
        form = presentation.form_of(request)
        document = _read(request, attrs)
        raw = await self.store_new(attrs, document)
        return presentation.answer(form, attrs, raw, self._clock.now(), 201)

    async def store_new(self, attrs: Attributes, document: Document) -> bytes:
        """Admit, validate and store a new document; return its stored form. Raises ApiError."""
        served, strategy = attrs.served, attrs.served.strategy
        metadata = document["metadata"]
        meta.match_namespace(metadata, attrs.namespace)
        meta.wipe_system_fields(metadata)
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        attrs.name = attrs.name or metadata.get("name", "")
        document = await self._admission.mutate(attrs, document, None)
        metadata = document["metadata"]
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        for attempt in range(ATTEMPTS):
            if generated:
                metadata["name"] = ""
            meta.fill_system_fields(metadata, self._clock.now(), self._rng)
            if attempt == 0:
                strategy.prepare_create(document)
                causes = list(strategy.validate(document))
                if not causes:
                    strategy.allocate(document, served.table)
                causes += meta.validate(metadata, strategy.name_rule, served.namespaced)
                if causes:
                    raise invalid(served.kind, served.group, metadata.get("name", ""), causes)
            key = key_of(metadata.get("namespace", ""), metadata["name"])
            if served.table.get(key) is None:
                break
            if not generated:
                raise already_exists(served.plural, served.group, metadata["name"])
        attrs.name = metadata["name"]
        await self._admission.validate(attrs, document, None)
        if served.table.get(key) is not None:
            raise already_exists(served.plural, served.group, metadata["name"])
        if attrs.dry_run:
            return msgspec.json.encode(document)
        return served.table.put(key, document).raw

    # update

    async def update(self, request: Request, attrs: Attributes) -> Response:
        """PUT of an object or its status."""
        served = attrs.served
        form = presentation.form_of(request)
        document = _read(request, attrs)
        metadata = document["metadata"]
        meta.match_namespace(metadata, attrs.namespace)
        if not metadata.get("name"):
            raise bad_request("name must be provided")
        if metadata["name"] != attrs.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match "
                f"the name on the URL ({attrs.name})"
            )
        uid = metadata.get("uid")
        version = metadata.get("resourceVersion", "")
        if version and not version.isdigit():
            cause = invalid_value("metadata.resourceVersion", version, "must be a whole number")
            raise invalid(served.kind, served.group, attrs.name, [cause])
        if not served.strategy.unconditional_update and version in ("", "0"):
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(served.kind, served.group, attrs.name, [cause])
        if version == "0":
            metadata.pop("resourceVersion")

        def change(old: Document) -> Document:
            if uid and uid != old["metadata"]["uid"]:
                told = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
                told += old["metadata"]["uid"]
                raise conflict(served.plural, served.group, attrs.name, told)
            return {**document, "metadata": {**metadata}}

        raw = await self.change(attrs, change)
        return presentation.answer(form, attrs, raw, self._clock.now(), 200)

    async def change(self, attrs: Attributes, change: Change) -> bytes:
        """Change a stored object; return what is stored afterwards. Raises ApiError."""
        served = attrs.served
        table = served.table
        key = key_of(attrs.namespace, attrs.name)
        for attempt in range(ATTEMPTS):
            record = table.get(key)
            if record is None:
                raise not_found(served.plural, served.group, attrs.name)
            old = record.document()
            new = change(record.document())
            insisted = new["metadata"].get("resourceVersion", "")
            if insisted and insisted != old["metadata"]["resourceVersion"]:
                raise conflict(served.plural, served.group, attrs.name)
            new = await self._admitted(attrs, new, old)
            if table.get(key) is record:
                return self._store(attrs, key, record, old, new)
            if attempt == ATTEMPTS - 1:
                break
        raise conflict(served.plural, served.group, attrs.name)

    async def _admitted(self, attrs: Attributes, new: Document, old: Document) -> Document:
        served, strategy = attrs.served, attrs.served.strategy
        meta.carry_over(new["metadata"], old["metadata"])
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        new = await self._admission.mutate(attrs, new, old)
        meta.carry_over(new["metadata"], old["metadata"])
        if attrs.subresource == "status":
            new = strategy.prepare_status(new, old)
            causes = list(strategy.validate_status(new, old))
        elif attrs.subresource and attrs.subresource != "scale":
            new = strategy.prepare_subresource(attrs.subresource, new, old)
            causes = list(strategy.validate(new))
        else:
            strategy.prepare_update(new, old)
            causes = [*strategy.validate(new), *strategy.validate_update(new, old)]
            if not causes:
                strategy.allocate(new, served.table)
        causes += meta.validate_update(new["metadata"], old["metadata"])
        if new["metadata"] != old["metadata"]:
            causes += meta.validate(new["metadata"], meta.path_segment, served.namespaced)
        if causes:
            raise invalid(served.kind, served.group, attrs.name, causes)
        await self._admission.validate(attrs, new, old)
        return new

    def _store(self, attrs: Attributes, key: str, record: Record, old: Document, new: Document) -> bytes:
        if new == old:
            return record.raw
        if attrs.dry_run:
            return msgspec.json.encode(new)
        table, metadata = attrs.served.table, new["metadata"]
        is_over = "deletionTimestamp" in metadata and not metadata.get("finalizers")
        is_over = is_over and not attrs.served.strategy.holds(new)
        if is_over and not metadata.get("deletionGracePeriodSeconds"):
            table.remove(key)  # reported as last stored
            return msgspec.json.encode(new)
        return table.put(key, new).raw

    # patch

    async def patch(self, request: Request, attrs: Attributes) -> Response:
        """PATCH of an object or its status."""
        served = attrs.served
        form = presentation.form_of(request)
        media = bodies.media_type(request)
        if media == APPLY_PATCH:
            return await self._apply(request, attrs, form)
        if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
            raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH))
        if media == STRATEGIC_PATCH and (served.custom or not strategic_merge.supports(served.kind)):
            raise unsupported_media_type((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
        patch = bodies.load_json(request)
        expected = list if media == JSON_PATCH else dict
        if not isinstance(patch, expected):
            kinds = {dict: "object", list: "array", str: "string", bool: "bool"}
            wanted = "jsonpatch.Patch" if media == JSON_PATCH else "map[string]interface {}"
            found = kinds.get(type(patch), "number")
            raise bad_request(f"json: cannot unmarshal {found} into Go value of type {wanted}")
        told: list[str] = []

        def change(old: Document) -> Document:
            whole = {
                "kind": served.kind,
                "apiVersion": served.api_version,
                **served.strategy.reveal(served, old),
            }
            try:
                if media == JSON_PATCH:
                    new = json_patch.apply(whole, patch)
                elif media == MERGE_PATCH:
                    new = json_merge.apply(whole, patch)
                else:
                    new = strategic_merge.apply(whole, patch, served.kind)
            except PatchError as error:
                raise bodies.check_patchable(error, error.code) from None
            if not isinstance(new, dict):
                raise bad_request("the patched document is not an object")
            return self._patched(request, attrs, new, old, told)

        raw = await self.change(attrs, change)
        attrs.warnings += told
        return presentation.answer(form, attrs, raw, self._clock.now(), 200)

    def _patched(
        self, request: Request, attrs: Attributes, new: Document, old: Document, told: list[str]
    ) -> Document:
        served = attrs.served
        bodies.take_type(served, new)
        unknown: list[str] = []
        try:
            new = served.strategy.read(served, new, unknown)
        except ApiError as error:
            if error.code != 400:
                raise
            cause = invalid_value("patch", request.body.decode("utf-8", "replace"), error.status["message"])
            raise invalid("", "", "", [cause]) from None
        told[:] = bodies.report_unknown(request, served, unknown, is_patch=True)
        name = new["metadata"].get("name", "")
        if name != attrs.name:
            raise bad_request(
                f"the name of the object ({name}) does not match the name on the URL ({attrs.name})"
            )
        namespace = new["metadata"].get("namespace", "")
        if namespace != attrs.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return new

    # apply

    async def _apply(self, request: Request, attrs: Attributes, form: Form) -> Response:
        served = attrs.served
        manager = request.query.get("fieldManager", "")
        if not manager:
            cause = required("fieldManager", "is required for apply patch")
            raise invalid("PatchOptions", "meta.k8s.io", "", [cause])
        document = bodies.load_yaml(request)
        if not isinstance(document, dict):
            raise bad_request("the body of an apply patch must be an object")
        for field in ("kind", "apiVersion"):
            if not document.get(field):
                raise bad_request(f"an apply patch must have {field}")
        bodies.take_type(served, document)
        metadata = document.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request("metadata must be an object")
        if metadata.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if metadata.setdefault("name", attrs.name) != attrs.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match "
                f"the name on the URL ({attrs.name})"
            )
        meta.match_namespace(metadata, attrs.namespace)
        unknown: list[str] = []
        checked = served.strategy.prune(served, document, unknown)
        attrs.warnings += bodies.report_unknown(request, served, unknown, is_patch=True)
        force = request.flag("force")
        attrs.manager = manager
        applied = apply.Applied(manager, served, checked, force, self._clock.now(), attrs.subresource)
        key = key_of(attrs.namespace, attrs.name)
        if served.table.get(key) is None and not attrs.subresource:
            attrs.operation = "CREATE"
            created = served.strategy.read(served, applied.onto({"metadata": {}}), [])
            raw = await self.store_new(attrs, created)
            return presentation.answer(form, attrs, raw, self._clock.now(), 201)

        def change(old: Document) -> Document:
            new = applied.onto(old)
            return served.strategy.read(served, new, [])

        raw = await self.change(attrs, change)
        return presentation.answer(form, attrs, raw, self._clock.now(), 200)


def _read(request: Request, attrs: Attributes) -> Document:
    """Read a whole object from a body, with its defaults; unknown fields become warnings. Raises ApiError."""
    served = attrs.served
    document = bodies.load_object(request, served)
    bodies.take_type(served, document)
    unknown: list[str] = []
    document = served.strategy.read(served, document, unknown)
    attrs.warnings += bodies.report_unknown(request, served, unknown)
    return document
