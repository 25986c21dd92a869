"""The columns of events."""

from datetime import datetime
from typing import Any

from .column import Column, name, path, since

Document = dict[str, Any]


def of_event() -> tuple[Column, ...]:
    """The columns of events, in both groups."""

    def either(document: Document, *names: str) -> Any:
        return next((document[one] for one in names if document.get(one)), None)

    def first_seen(document: Document, now: datetime) -> str:
        return since(either(document, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime"), now)

    def last_seen(document: Document, now: datetime) -> str:
        last = (document.get("series") or {}).get("lastObservedTime")
        last = last or either(document, "lastTimestamp", "deprecatedLastTimestamp")
        return since(last, now) if last else first_seen(document, now)

    def about(document: Document, now: datetime) -> str:
        reference = either(document, "involvedObject", "regarding") or {}
        return f"{reference.get('kind', '').lower()}/{reference.get('name', '')}".rstrip("/")

    def field(document: Document, now: datetime) -> str:
        return str((either(document, "involvedObject", "regarding") or {}).get("fieldPath", ""))

    def source(document: Document, now: datetime) -> str:
        found = either(document, "source", "deprecatedSource") or {}
        component = found.get("component") or either(document, "reportingComponent", "reportingController")
        host = found.get("host") or document.get("reportingInstance")
        return ", ".join(str(text) for text in (component, host) if text)

    def message(document: Document, now: datetime) -> str:
        return str(either(document, "message", "note") or "").strip()

    def times(document: Document, now: datetime) -> int:
        series = (document.get("series") or {}).get("count")
        found: int = series or either(document, "count", "deprecatedCount") or 1
        return found

    return (
        Column("Last Seen", last_seen),
        Column("Type", path("type", default="")),
        Column("Reason", path("reason", default="")),
        Column("Object", about),
        Column("Subobject", field, priority=1),
        Column("Source", source, priority=1),
        Column("Message", message),
        Column("First Seen", first_seen, priority=1),
        Column("Count", times, "integer", priority=1),
        Column("Name", name, priority=1, format="name"),
    )
