"""Events: stored once, served in the core group and in events.k8s.io, whose fields have other names.

Source: Kubernetes, `pkg/apis/events/v1/conversion.go`, `pkg/apis/core/validation/events.go`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from koordpy.api.field_cause import Cause, invalid_value, required

from ..catalog import Served
from . import forms
from .strategy import Strategy

Document = dict[str, Any]

_OLD_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_NAMES = {old: new for new, old in _OLD_NAMES.items()}
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _renamed(document: Document, names: Mapping[str, str]) -> Document:
    return {names.get(name, name): value for name, value in document.items()}


def _as_new(document: Document) -> Document:
    """Return a stored event as one of the new group, which leaves out empty texts."""
    return _renamed({name: value for name, value in document.items() if value != ""}, _NEW_NAMES)


class EventStrategy(Strategy):
    """The rules of core events."""

    selectable = (
        *(f"involvedObject.{name}" for name in _ABOUT),
        "reason",
        "reportingComponent",
        "source",
        "type",
    )

    def default(self, document: Document) -> None:
        """Times of the new group have microseconds; fields that are never left out are null or empty.

        kubectl sorts by them.
        """
        forms.check_micro_time("Event", "eventTime", document.get("eventTime"))
        series = document.get("series") or {}
        forms.check_micro_time("Event", "series.lastObservedTime", series.get("lastObservedTime"))
        for name in ("eventTime", "firstTimestamp", "lastTimestamp"):
            document.setdefault(name, None)
        for name in ("reportingComponent", "reportingInstance"):
            document.setdefault(name, "")
        document.setdefault("source", {})

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return the selectable fields."""
        about = document.get("involvedObject") or {}
        found = {f"involvedObject.{name}": about[name] for name in _ABOUT if about.get(name)}
        for name in ("reason", "reportingComponent", "type"):
            if value := document.get(name):
                found[name] = value
        source = (document.get("source") or {}).get("component") or document.get("reportingComponent")
        if source:
            found["source"] = source
        return found

    def validate(self, document: Document) -> Iterable[Cause]:
        """An event is in the namespace of its object; those of cluster-scoped objects are in `default`."""
        about = (document.get("involvedObject") or {}).get("namespace", "")
        own = document["metadata"].get("namespace", "")
        if about != own and (about or own not in ("", "default")):
            yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")


class NewEventStrategy(EventStrategy):
    """The rules of events in events.k8s.io; they are kept as core events."""

    selectable = ("reason", "reportingController", "type", *(f"regarding.{name}" for name in _ABOUT))

    def prune(self, served: Served, document: Document, unknown: list[str]) -> Document:
        """Drop unknown fields, and turn into a core event."""
        return super().prune(served, _renamed(document, _OLD_NAMES), unknown)

    def read(self, served: Served, document: Document, unknown: list[str]) -> Document:
        """Read an event of the new group; it is kept under the old names."""
        document = self.prune(served, document, unknown)
        self.check_types(served, document)
        self.default(document)
        return document

    def reveal(self, served: Served, document: Document) -> Document:
        """Turn a stored event into one of the new group."""
        return _as_new(document)

    def present(self, served: Served, raw: bytes) -> bytes:
        """Turn a stored event into one of the new group."""
        return served.prefix + msgspec.json.encode(_as_new(msgspec.json.decode(raw)))[1:]

    def present_items(self, served: Served, raws: list[bytes]) -> list[bytes]:
        """Turn stored events into items of a list."""
        return [msgspec.json.encode(_as_new(msgspec.json.decode(raw))) for raw in raws]

    def validate(self, document: Document) -> Iterable[Cause]:
        """An event of the new group has a reporter, an action and a time."""
        yield from super().validate(document)
        if not document.get("eventTime"):
            yield required("eventTime")
        for name in ("reportingComponent", "reportingInstance", "action", "reason"):
            if not document.get(name):
                yield required(_NEW_NAMES.get(name, name))
        if document.get("type") not in ("Normal", "Warning"):
            yield invalid_value("type", document.get("type", ""), "has invalid value")
