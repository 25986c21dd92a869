"""The last admissions of a process, to show afterwards what a webhook did to a pod."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from koordpy.lib.bounded_records import BoundedRecords

MAX_BYTES: Final = 12 << 20
"""The budget of the record."""

_LONGEST_PATCH: Final = 256 * 1024
_LONGEST_TEXT: Final = 4096
_CUT: Final = "... (truncated)"


class Admission(NamedTuple):
    """One completed request. `patch` is the JSON text of the operations, empty where nothing changed."""

    time: datetime
    path: str
    uid: str
    operation: str
    namespace: str
    name: str
    allowed: bool
    code: int
    message: str
    patch: bytes
    seconds: float

    @property
    def size(self) -> int:
        """Bytes, by estimate."""
        texts = len(self.uid) + len(self.operation) + len(self.namespace) + len(self.name) + len(self.message)
        return 1000 + len(self.patch) + texts

    @property
    def is_large(self) -> bool:
        """Whether it is larger than a usual admission."""
        return (
            len(self.patch) > _LONGEST_PATCH
            or len(self.uid) + len(self.operation) + len(self.namespace) + len(self.name) + len(self.message)
            > _LONGEST_TEXT
        )

    def shortened(self) -> "Admission":
        """Return it with long texts truncated, and a long patch replaced by a note."""
        uid, operation, namespace, name, message = (
            text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + _CUT
            for text in (self.uid, self.operation, self.namespace, self.name, self.message)
        )
        patch = self.patch
        if len(patch) > _LONGEST_PATCH:
            patch, message = b"", f"a patch of {len(patch)} bytes{_CUT}"
        return self._replace(
            uid=uid, operation=operation, namespace=namespace, name=name, message=message, patch=patch
        )

    def operations(self) -> list[dict[str, Any]]:
        """Return the RFC 6902 operations of the response."""
        return msgspec.json.decode(self.patch) if self.patch else []


class History:
    """A bounded record of admissions; the oldest is dropped first."""

    def __init__(self, size: int = 256) -> None:
        self._admissions = BoundedRecords[Admission]("admissions", MAX_BYTES, size)

    def add(self, admission: Admission) -> None:
        """Record an admission. Large values are truncated, because clients determine their size."""
        kept = admission.shortened() if admission.is_large else admission
        self._admissions.append(kept, kept.size)

    def __len__(self) -> int:
        return len(self._admissions)

    def __iter__(self) -> Iterator[Admission]:
        """Yield the newest first."""
        return reversed(self._admissions)
