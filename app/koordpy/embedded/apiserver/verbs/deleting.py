"""DELETE: preconditions, admission, time to terminate, finalizers.

An object is deleted immediately, or marked and deleted with its last finalizer or by the node.
"""

import re
from typing import Any

import msgspec

from koordpy.api.field_cause import invalid_value
from koordpy.api.meta import format_time, parse_time
from koordpy.lib import duration
from koordpy.lib.clock import Clock

from ..admission.admission import Admission
from ..attributes import Attributes, attributes, is_dry_run
from ..errors import ApiError, bad_request, conflict, invalid, not_found, success
from ..kinds import forms
from ..representation import bodies, presentation
from ..representation.presentation import Form
from ..storage import Record, key_of
from ..wire import Request, Response
from .writing import ATTEMPTS

Document = dict[str, Any]


class Deleter:
    """Deletes objects of any resource."""

    def __init__(self, admission: Admission, clock: Clock) -> None:
        self._admission, self._clock = admission, clock

    async def delete(self, request: Request, attrs: Attributes) -> Response:
        """DELETE of an object."""
        form = presentation.form_of(request)
        options = delete_options(request)
        attrs.dry_run = is_dry_run(request, options)
        record, gone = await self.remove(attrs, options)
        served = attrs.served
        if gone and not served.strategy.returns_deleted:
            body = success(attrs.name, served.group, served.plural, record.uid)
            return presentation.respond(Form(yaml=form.yaml), msgspec.json.encode(body))
        return presentation.answer(form, attrs, record.raw, self._clock.now(), 200)

    async def delete_collection(self, request: Request, attrs: Attributes, records: list[Record]) -> Response:
        """DELETE of a collection."""
        form = presentation.form_of(request)
        options = delete_options(request)
        served = attrs.served
        raws = []
        for record in records:
            namespace, _, name = record.key.rpartition("/")
            one = attributes(request, "DELETE", served, namespace, name)
            one.dry_run = is_dry_run(request, options)
            try:
                found, _gone = await self.remove(one, options)
            except ApiError as error:
                if error.code == 404:
                    continue
                raise
            attrs.warnings += one.warnings
            raws.append(found.raw)
        list_meta = {"resourceVersion": str(served.table.revision)}
        body = presentation.list_body(form, served, raws, list_meta, self._clock.now())
        return presentation.respond(form, body)

    async def remove(self, attrs: Attributes, options: Document) -> tuple[Record, bool]:
        """Delete an object; return its record and whether it is gone (else it is terminating)."""
        served = attrs.served
        table, strategy = served.table, served.strategy
        key = key_of(attrs.namespace, attrs.name)
        attrs.options = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **options}
        admitted = False
        for _ in range(ATTEMPTS):
            record = table.get(key)
            if record is None:
                raise not_found(served.plural, served.group, attrs.name)
            check_preconditions(attrs, record, options.get("preconditions") or {})
            if not admitted:
                old = record.document()
                await self._admission.mutate(attrs, None, old)
                await self._admission.validate(attrs, None, old)
                admitted = True
                if table.get(key) is not record:
                    continue
            return self._remove(attrs, strategy, key, record, options)
        raise conflict(served.plural, served.group, attrs.name)

    def _remove(
        self, attrs: Attributes, strategy: Any, key: str, record: Record, options: Document
    ) -> tuple[Record, bool]:
        table = attrs.served.table
        document = record.document()
        metadata = document["metadata"]
        _add_propagation(metadata, options)
        grace = strategy.grace_period(document, options.get("gracePeriodSeconds"))
        now = self._clock.now()
        if stamp := metadata.get("deletionTimestamp"):
            current = metadata.get("deletionGracePeriodSeconds", 0)
            if grace < current:
                moved = parse_time(stamp) + duration.of_seconds(grace) - duration.of_seconds(current)
                metadata["deletionTimestamp"] = format_time(moved)
                metadata["deletionGracePeriodSeconds"] = grace
            else:
                grace = current
        elif grace or metadata.get("finalizers") or strategy.holds(document):
            metadata["deletionTimestamp"] = format_time(now + duration.of_seconds(grace))
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
            strategy.terminate(document)
        gone = not grace and not metadata.get("finalizers") and not strategy.holds(document)
        if attrs.dry_run:
            return record, gone
        if gone:
            return table.remove(key, document), True
        if msgspec.json.encode(document) == record.raw:
            return record, False
        return table.put(key, document), False


def delete_options(request: Request) -> Document:
    """Read DeleteOptions from body and query; raise ApiError."""
    options: Document = {}
    if request.body:
        options = bodies.load_object(request)
        if options.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(f"expected DeleteOptions, got {options['kind']}")
        forms.check("DeleteOptions", options, forms.DeleteOptions)
    if (text := request.query.get("gracePeriodSeconds")) and "gracePeriodSeconds" not in options:
        if not re.fullmatch("-?[0-9]{1,18}", text):
            raise bad_request(f"gracePeriodSeconds: Invalid value: {text!r}: must be a whole number")
        options["gracePeriodSeconds"] = int(text)
    if policy := request.query.get("propagationPolicy"):
        options.setdefault("propagationPolicy", policy)
    grace = options.get("gracePeriodSeconds")
    if grace is not None and grace < 0:
        options["gracePeriodSeconds"] = 1
    policy = options.get("propagationPolicy")
    if policy not in (None, "", "Orphan", "Background", "Foreground"):
        cause = invalid_value(
            "propagationPolicy", policy, "must be one of Background, Foreground, Orphan or nil"
        )
        raise invalid("DeleteOptions", "meta.k8s.io", "", [cause])
    return options


def check_preconditions(attrs: Attributes, record: Record, preconditions: Document) -> None:
    """Raise ApiError (409) if a deletion's preconditions name another object, or another version of it."""
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    served, told = attrs.served, ""
    if uid and uid != record.uid:
        told = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({record.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif version and version != str(record.revision):
        told = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({record.revision}). The object might have been modified"
        )
    if told:
        raise conflict(served.plural, served.group, attrs.name, told)


def _add_propagation(metadata: Document, options: Document) -> None:
    finalizers = [f for f in metadata.get("finalizers", []) if f not in ("orphan", "foregroundDeletion")]
    policy = options.get("propagationPolicy")
    if policy == "Orphan" or options.get("orphanDependents") is True:
        finalizers.append("orphan")
    elif policy == "Foreground":
        finalizers.append("foregroundDeletion")
    elif not policy:
        finalizers = metadata.get("finalizers", [])
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
