"""The form of log lines: one line for each record, whatever the texts in it are.

Names, labels and messages in a record come from tenants and callers. A line break in one of them would begin
what looks like another record, and an escape sequence would reach the terminal of the reader; so such
characters are escaped here, once for all loggers. The lines of a table or a traceback begin with `  | `.
"""

import logging
from collections.abc import Iterable

FORMAT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"

LONGEST = 8192
"""Characters of a message."""

LONGEST_LINE = 512
"""Characters of a line of a table or a traceback."""

MOST_LINES = 200
"""Lines of a table or a traceback."""

LINES = {"lines": True}
"""`extra=LINES` for a record whose own text has several lines; names in it must be escaped by the caller."""

DOCUMENT = {"document": True}
"""`extra=DOCUMENT` for a record with a JSON document, which must be complete to be read."""

LONGEST_DOCUMENT = 256 * 1024

_CONTINUED = "\n  | "


class LineFormatter(logging.Formatter):
    """Formats records so that none can be mistaken for several, nor take more than a bounded length."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the library's name)
        """Return the first line, with the lines of a table."""
        if getattr(record, "lines", False):
            first, *more = record.message.split("\n")
            record.message = escaped(first)
            return super().formatMessage(record) + _continued(more)
        record.message = escaped(
            record.message, LONGEST_DOCUMENT if getattr(record, "document", False) else LONGEST
        )
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802
        """Return a traceback as lines that cannot be mistaken for records."""
        return _continued(super().formatException(ei).split("\n")).removeprefix("\n")  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """Return a stack in the same way."""
        return _continued(stack_info.split("\n")).removeprefix("\n")


def _continued(lines: Iterable[str]) -> str:
    listed = list(lines)
    if len(listed) > MOST_LINES:  # of a traceback the last lines matter most
        half = MOST_LINES // 2
        left_out = f"... {len(listed) - MOST_LINES} lines left out ..."
        listed = [*listed[:half], left_out, *listed[-half:]]
    return "".join(_CONTINUED + escaped(line, LONGEST_LINE) for line in listed)


def escaped(text: str, most: int = LONGEST) -> str:
    """Return a text of at most `most` characters and a note, without control characters and line breaks."""
    note = ""
    if len(text) > most:
        text, note = text[:most], f"... ({len(text)} characters)"
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
        )
    return text + note
