"""A column of a table, and the cells that many kinds have."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from koordpy.api import label_selector
from koordpy.api.meta import LabelSelector, parse_time

Document = dict[str, Any]
Cell = Callable[[Document, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, its type, and how a cell is read; `priority` above 0 is for `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    @property
    def definition(self) -> Document:
        """The column as a Table describes it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def duration(seconds: float) -> str:
    """Format a duration as kubectl does: `12s`, `3m4s`, `5h`, `2d3h`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years = days // 365
    if hours < 24 * 365 * 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def since(text: str | None, now: datetime) -> str:
    """Format the time since another time."""
    try:
        return duration((now - parse_time(text)).total_seconds()) if text else "<unknown>"
    except (TypeError, ValueError):
        return "<unknown>"


def name(document: Document, now: datetime) -> str:
    """The name of the object."""
    found: str = document["metadata"]["name"]
    return found


def _age(document: Document, now: datetime) -> str:
    return since(document["metadata"].get("creationTimestamp"), now)


def path(*names: str, default: Any = "<none>") -> Cell:
    """Return a cell that shows the field at a path."""

    def cell(document: Document, now: datetime) -> Any:
        value: Any = document
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
            if value is None:
                return default
        return value

    return cell


def labels(*names: str) -> Cell:
    """Return a cell that shows the labels at a path."""
    found = path(*names, default={})

    def cell(document: Document, now: datetime) -> str:
        labels = found(document, now)
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"

    return cell


NAME = Column("Name", name, format="name")
AGE = Column("Age", _age)
PLAIN = (NAME, AGE)


def selector(*names: str) -> Cell:
    """Return a cell that shows the label selector at a path."""
    found = path(*names, default={})

    def cell(document: Document, now: datetime) -> str:
        given = found(document, now)
        try:
            text = str(label_selector.of(msgspec.convert(given, LabelSelector)))
        except (msgspec.ValidationError, ValueError):
            return "<error>"
        return text or "<none>"

    return cell


def counted(*names: str) -> Cell:
    """Return a cell with the number of items at a path."""
    found = path(*names, default=())

    def cell(document: Document, now: datetime) -> int:
        return len(found(document, now))

    return cell


def joined(items: Iterable[Any], limit: int) -> str:
    """Show the first items, and how many more there are."""
    texts = [str(item) for item in items]
    if not texts:
        return "<none>"
    shown = ",".join(texts[:limit])
    return f"{shown} + {len(texts) - limit} more..." if len(texts) > limit else shown
