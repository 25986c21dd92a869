"""The last admissions of a process, for whoever asks afterwards what a webhook did to a pod."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec


class Admission(NamedTuple):
    """One answered request. `patch` is the JSON text of the operations, empty where nothing changed."""

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

    def operations(self) -> list[dict[str, Any]]:
        """Return the RFC 6902 operations that were answered with."""
        return msgspec.json.decode(self.patch) if self.patch else []


class History:
    """A bounded memory of admissions, the oldest of which is forgotten first."""

    def __init__(self, size: int = 256) -> None:
        self._admissions: deque[Admission] = deque(maxlen=size)
        self.add = self._admissions.append

    def __len__(self) -> int:
        return len(self._admissions)

    def __iter__(self) -> Iterator[Admission]:
        """Yield the newest first."""
        return reversed(self._admissions)
