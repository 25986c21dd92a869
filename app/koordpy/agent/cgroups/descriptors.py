"""Files that are read every second are kept open, so that reading one again is a single system call.

A descriptor is closed when its cgroup is gone. Their number is bounded; files beyond it are opened and closed
with every read, which costs about twice as much.
"""

import errno
import os
import resource
from pathlib import Path
from typing import Final

DESCRIPTORS: Final = 8192
"""The most files that are kept open, if the process may have that many."""

_CHUNK: Final = 8192
_MAX_BYTES: Final = 4 * 1024 * 1024
"""No file of the kernel that is read here is longer; a task list of half a million ids fits."""


class FileTooLong(OSError):
    """A file has more bytes than any of the kernel's has."""


def limit() -> int:
    """Return how many files may be kept open: at most half of those that the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS if soft == resource.RLIM_INFINITY else min(DESCRIPTORS, max(0, soft // 2))


class OpenFiles:
    """Reads files by directory and name, and keeps them open."""

    def __init__(self, most: int | None = None) -> None:
        self._most = limit() if most is None else most
        self._directories: dict[str, dict[str, int]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def read(self, directory: str, name: str) -> bytes:
        """Return a file's bytes. Raises OSError."""
        files = self._directories.get(directory)
        descriptor = None if files is None else files.get(name)
        if descriptor is not None:
            try:
                data = _read(descriptor)
                # A deleted cgroup's file fails with ENODEV; one of an ordinary folder has no name.
                if os.fstat(descriptor).st_nlink:
                    return data
            except OSError as error:
                if error.errno not in (errno.ENODEV, errno.ESRCH, errno.ENOENT):
                    raise
            self._close(directory, name)
        return self._first(directory, name)

    def forget(self, directory: str) -> None:
        """Close all files of a directory."""
        for name in tuple(self._directories.get(directory, ())):
            self._close(directory, name)

    def collect(self) -> int:
        """Close files of directories that are gone; return how many are still open."""
        for directory in [known for known in self._directories if not os.path.isdir(known)]:
            self.forget(directory)
        return self._count

    def close(self) -> None:
        """Close everything."""
        for directory in tuple(self._directories):
            self.forget(directory)

    def __del__(self) -> None:
        self.close()

    def _first(self, directory: str, name: str) -> bytes:
        descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        keep = self._count < self._most
        try:
            data = _read(descriptor)
        except OSError:
            keep = False
            raise
        finally:
            if keep:
                self._directories.setdefault(directory, {})[name] = descriptor
                self._count += 1
            else:
                os.close(descriptor)
        return data

    def _close(self, directory: str, name: str) -> None:
        files = self._directories[directory]
        os.close(files.pop(name))
        self._count -= 1
        if not files:
            del self._directories[directory]


def split(path: Path) -> tuple[str, str]:
    """Return a path's directory and name, as `OpenFiles.read` takes them."""
    return str(path.parent), path.name


def _read(descriptor: int) -> bytes:
    data = os.pread(descriptor, _CHUNK, 0)
    if len(data) < _CHUNK:
        return data
    parts, offset = [data], len(data)
    while chunk := os.pread(descriptor, _CHUNK, offset):
        parts.append(chunk)
        offset += len(chunk)
        if offset > _MAX_BYTES:
            raise FileTooLong(errno.EFBIG, f"longer than {_MAX_BYTES} bytes")
    return b"".join(parts)
