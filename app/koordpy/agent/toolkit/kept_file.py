"""Files of procfs, sysfs and cgroups that are read again and again."""

import os
import resource

_CHUNK = 8192
_MARGIN = 32
_CLOSED = -1

_open_files = 0


def limit() -> int:
    """Return how many files may be kept open: at most a third of those that the process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 16384 if soft == resource.RLIM_INFINITY else min(16384, soft // 3)


class KeptFile:
    """A file that stays open between reads, so that a read is one system call.

    A cgroup that is gone fails to be read; the next read opens its file anew. The number of files that are
    kept open is bounded; beyond `limit`, a file is opened for each read.
    """

    __slots__ = ("_descriptor", "_size", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = _CLOSED
        self._size = _CHUNK
        """What is read at once: a bit more than the last text, since a larger buffer takes longer to make."""
        self.path = os.fspath(path)

    def read(self) -> bytes:
        """Return the whole text. Raises OSError."""
        global _open_files
        if self._descriptor == _CLOSED:
            if _open_files >= limit():
                return read_once(self.path)
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            _open_files += 1
        size = self._size
        try:
            text = os.pread(self._descriptor, size, 0)
            length = len(text)
            if length == size:
                text = self._rest(text)
                self._size = 2 * len(text) + _MARGIN
            elif size > 4 * length + _MARGIN:
                self._size = 2 * length + _MARGIN
        except OSError:
            self.close()
            raise
        return text

    def close(self) -> None:
        """Close the file; it may be read again."""
        global _open_files
        if self._descriptor != _CLOSED:
            _open_files -= 1
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def __del__(self) -> None:
        if self._descriptor != _CLOSED:
            self.close()

    def _rest(self, text: bytes) -> bytes:
        chunks = [text]
        length = len(text)
        while chunk := os.pread(self._descriptor, 8 * _CHUNK, length):
            chunks.append(chunk)
            length += len(chunk)
        return b"".join(chunks)


def read_once(path: str | os.PathLike[str]) -> bytes:
    """Return the text of a file that is read too rarely to stay open. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        while chunk := os.read(descriptor, _CHUNK):
            chunks.append(chunk)
        return b"".join(chunks)
    finally:
        os.close(descriptor)
