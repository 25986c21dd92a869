"""The reasons for an admission's outcome: which rules applied, which did not, and what each handler changed.

Handlers report only where a request carries an Explanation, so that any other request costs one comparison
with None.
"""

from dataclasses import dataclass, field
from typing import Any

from koordpy.api import json_diff
from koordpy.api.document import Document
from koordpy.api.patch import clone


@dataclass(frozen=True)
class Judgement:
    """A rule (a profile, a check), whether it applied, and why."""

    handler: str
    subject: str
    applied: bool
    reason: str


@dataclass(frozen=True)
class Change:
    """One RFC 6902 operation, the value before it, and what caused it."""

    handler: str
    cause: str
    op: str
    path: str
    before: Any
    after: Any


@dataclass
class Explanation:
    """The reports of handlers on one request, in order. The chain sets `handler` before it calls one."""

    handler: str = ""
    judgements: list[Judgement] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    _seen: dict[str, Any] | None = None

    def start(self, document: Document) -> None:
        """Take the present document as the state before any change."""
        self._seen = clone(document.raw)

    def judged(self, subject: str, applied: bool, reason: str) -> None:
        """Record whether a rule applied."""
        self.judgements.append(Judgement(self.handler, subject, applied, reason))

    def changed(self, document: Document, cause: str) -> None:
        """Attribute every change since the last call to `cause`."""
        for op, path, value in json_diff.changes(self._seen, document.raw):
            before: Any = self._seen
            for segment in path:
                if isinstance(before, list):
                    before = before[segment] if isinstance(segment, int) and segment < len(before) else None
                else:
                    before = before.get(segment) if isinstance(before, dict) else None
            self.changes.append(
                Change(self.handler, cause, op, json_diff.pointer(path), clone(before), clone(value))
            )
        self.start(document)
