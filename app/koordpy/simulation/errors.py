"""Errors logged during a simulation, reported with the result: each kind once, with its count."""

import logging
from types import TracebackType
from typing import Self


class LoggedErrors(logging.Handler):
    """Collects the errors of all of koordpy while it is entered."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._first: dict[tuple[str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._logger = logging.getLogger("koordpy")

    def emit(self, record: logging.LogRecord) -> None:
        """Record one message."""
        kind = record.name, str(record.msg)
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
        self._first.setdefault(kind, text)
        self._counts[kind] = self._counts.get(kind, 0) + 1

    @property
    def told(self) -> list[str]:
        """The first message of every kind, and how many there were."""
        return [
            f"{text} ({self._counts[kind]:,} such errors)" if self._counts[kind] > 1 else text
            for kind, text in self._first.items()
        ]

    def __enter__(self) -> Self:
        self._logger.addHandler(self)
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._logger.removeHandler(self)
