"""The files of the audit log: `audit.log`, and older ones with the time of their last event in the name.

Names and sizes are koordlet's (`pkg/koordlet/audit/event_logger.go`), so that either can read the other's.
"""

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

FILE_BYTES: Final = 2 << 20
CURRENT: Final = "audit.log"
_MAX_TEXT: Final = 4096
_CHUNK: Final = 64 << 10
_MAX_LINE: Final = 256 << 10


def event_line(now: datetime, reason: str, message: str, about: Mapping[str, str] | None = None) -> bytes:
    """Return an event as a line, without its empty fields."""
    event = {
        "createdAt": now.isoformat().replace("+00:00", "Z"),
        **(about or {}),
        "reason": reason[:_MAX_TEXT],
        "message": message[:_MAX_TEXT],
    }
    return json.dumps({key: text for key, text in event.items() if text}, separators=(",", ":")).encode()


class AuditFiles:
    """Appends lines, starts a new file when one is full, and removes the oldest beyond the limit.

    Without a limit no new file is started: that is left to the agent.
    """

    def __init__(self, folder: Path, most_bytes: int | None = None) -> None:
        self.folder = folder
        self._most = None if most_bytes is None else max(1, most_bytes // FILE_BYTES)
        self._descriptor = -1
        self._size = 0

    def append(self, line: bytes, now: datetime) -> None:
        """Append a line. Raises OSError."""
        if self._descriptor < 0:
            self._open()
        self._size += os.write(self._descriptor, line + b"\n")
        if self._most is not None and self._size >= FILE_BYTES:
            self._rotate(now, self._most)

    def close(self) -> None:
        """Close the current file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def newest_first(self) -> list[Path]:
        """Return the files, newest first."""
        found = self._older()
        current = self.folder / CURRENT
        return [current, *found] if current.exists() else found

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self.folder / CURRENT, flags, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self, now: datetime, most: int) -> None:
        self.close()
        stamp = now.strftime("%Y-%m-%d-%H-%M-%S")
        taken = [_number(path) for path in self.folder.glob(f"audit-{stamp}-*.log")]
        number = max(taken, default=-1) + 1
        (self.folder / CURRENT).rename(self.folder / f"audit-{stamp}-{number}.log")
        for old in self._older()[most - 1 :]:
            old.unlink(missing_ok=True)

    def _older(self) -> list[Path]:
        """Return the full files, newest first."""
        found = self.folder.glob("audit-*.log")
        return sorted(found, key=lambda path: (path.stem.rpartition("-")[0], _number(path)), reverse=True)


class NewestFirst:
    """The lines of the files as they are now, newest first. Lines that are added later are not seen."""

    def __init__(self, files: AuditFiles) -> None:
        self._folder = files.folder
        self._files: list[tuple[Path, int, int]] = []
        for path in files.newest_first():
            with suppress(OSError):
                found = path.stat()
                self._files.append((path, found.st_ino, found.st_size))
        self._lines = self._all()

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def close(self) -> None:
        """Close the file that is being read."""
        self._lines.close()

    def _all(self) -> Generator[bytes]:
        for path, inode, size in self._files:
            descriptor = self._descriptor(path, inode)
            if descriptor is None:
                continue
            try:
                yield from _backwards(descriptor, size)
            finally:
                os.close(descriptor)

    def _descriptor(self, path: Path, inode: int) -> int | None:
        """Open a file that may have got another name since; None if it was removed."""
        for candidate in (path, *self._folder.glob("audit-*.log")):
            with suppress(OSError):
                descriptor = os.open(candidate, os.O_RDONLY | os.O_CLOEXEC)
                if os.fstat(descriptor).st_ino == inode:
                    return descriptor
                os.close(descriptor)
        return None


def _number(path: Path) -> int:
    """Return the number that tells files of one second apart."""
    last = path.stem.rpartition("-")[2]
    return int(last) if last.isdecimal() else -1


def _backwards(descriptor: int, end: int) -> Iterator[bytes]:
    """Yield the lines of a file from the last to the first; one that is too long is left out."""
    rest, long = b"", False
    while end > 0:
        start = max(0, end - _CHUNK)
        data = os.pread(descriptor, end - start, start) + rest
        end = start
        first, *lines = data.split(b"\n")
        if lines:
            if long:
                lines.pop()
                long = False
            yield from (line for line in reversed(lines) if line)
        rest = first
        if len(rest) > _MAX_LINE:
            rest, long = b"", True
    if rest and not long:
        yield rest
