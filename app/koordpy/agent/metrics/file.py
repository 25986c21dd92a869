"""Series that survive a restart: blocks in a memory-mapped file, and the names of their series beside it.

Points are written by storing into the mapping, so nothing is saved at intervals and the kernel alone writes
to the disk; whatever kills the process, the kernel keeps what was stored. (After a power failure some points
may be missing; blocks that are not whole are dropped.) Two files, in one folder:

    points   a header of HEADER_BYTES, then segments of blocks (`blocks.py`)
    series   lines of JSON: the generation, then `[id, kind, property values...]` for every series, and
             `["retention", kind, milliseconds]` for kinds that are kept longer than they declare

Both begin with the same random generation. Files that are damaged, foreign or of another version are set
aside, in place of those set aside before, and replaced by empty ones. A lock keeps a second process out.
"""

import fcntl
import json
import logging
import mmap
import os
import struct
import sys
from collections.abc import Iterable
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from .blocks import BLOCK_BYTES, POINTS, SEGMENT_BYTES, Place

log = logging.getLogger(__name__)

HEADER_BYTES: Final = 65536
"""A multiple of every page size, so that segments can be mapped."""
SET_ASIDE: Final = ".set-aside"

_VERSION: Final = 1
_MAGIC: Final = b"koordpy metrics\n"
_HEADER: Final = struct.Struct("=16sIIII16s")
_BYTE_ORDER: Final = 1 if sys.byteorder == "little" else 2
_RETENTION: Final = "retention"
_LONGEST_LINE: Final = 4096
_LEAST_LINES: Final = 1024


class FileError(Exception):
    """The folder cannot be used: it does not exist, cannot be written, or another process uses it."""


class SeriesName(NamedTuple):
    """What identifies a series: the values of the properties of its kind."""

    id: int
    kind: str
    identity: tuple[str, ...]


class DamagedError(Exception):
    """A file is not one of ours."""


class MetricFile:
    """The two files of one folder, locked. Raises FileError if they cannot be had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._points_path, self._series_path = folder / "points", folder / "series"
        try:
            self._points = os.open(self._points_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise FileError(f"{self._points_path}: {error.strerror}") from None
        self._series = -1
        self._lines = 0
        self.names: list[SeriesName] = []
        """The series of the file as it was found."""
        self.retentions: dict[str, int] = {}
        """How long kinds are kept that were queried further back than they declare, in milliseconds."""
        try:
            self._lock()
            self._read_or_set_aside()
        except (FileError, OSError) as error:
            self.close()
            raise FileError(str(error)) from None

    @property
    def segment_count(self) -> int:
        """The number of whole segments in the file."""
        return max(os.fstat(self._points).st_size - HEADER_BYTES, 0) // SEGMENT_BYTES

    def map_segment(self, index: int) -> mmap.mmap:
        """Map a segment, and make it if it is new. Raises OSError if the disk is full."""
        offset = HEADER_BYTES + index * SEGMENT_BYTES
        if index >= self.segment_count:
            os.posix_fallocate(self._points, offset, SEGMENT_BYTES)
        return mmap.mmap(self._points, SEGMENT_BYTES, offset=offset)

    def truncate(self, segments: int) -> None:
        """Cut the file to so many segments, and off what is no whole segment."""
        kept = min(segments, self.segment_count)
        os.ftruncate(self._points, HEADER_BYTES + kept * SEGMENT_BYTES)

    def add_name(self, name: SeriesName) -> None:
        """Write the name of a new series, before its first point. Errors are logged."""
        self._write(_line([name.id, name.kind, *name.identity]))

    def set_retention(self, kind: str, milliseconds: int) -> None:
        """Write that a kind is kept longer from now on. Errors are logged."""
        self.retentions[kind] = milliseconds
        self._write(_line([_RETENTION, kind, milliseconds]))

    def needs_compaction(self, living: int) -> bool:
        """Return whether most names are of series that are gone."""
        return self._lines > 2 * living + _LEAST_LINES

    def compact(self, names: Iterable[SeriesName]) -> None:
        """Replace the names by those of living series. Raises OSError, and then nothing is changed."""
        temporary = self._series_path.with_name("series.tmp")
        lines = [_line([self._generation])]
        lines += [_line([_RETENTION, *item]) for item in self.retentions.items()]
        lines += [_line([name.id, name.kind, *name.identity]) for name in names]
        temporary.write_bytes(b"".join(lines))
        opened = os.open(temporary, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.replace(temporary, self._series_path)
        except OSError:
            os.close(opened)
            raise
        if self._series >= 0:
            os.close(self._series)
        self._series, self._lines = opened, len(lines)

    def close(self) -> None:
        """Close the files; the lock goes with the last mapping."""
        for descriptor in (self._series, self._points):
            if descriptor >= 0:
                os.close(descriptor)
        self._series = self._points = -1

    def _write(self, line: bytes) -> None:
        if len(line) > _LONGEST_LINE:
            return
        try:
            os.write(self._series, line)
            self._lines += 1
        except OSError as error:
            log.warning("%s: %s; new series are not kept over a restart", self._series_path, error.strerror)

    # --- opening ---------------------------------------------------------------------------------

    def _lock(self) -> None:
        try:
            fcntl.flock(self._points, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FileError(f"{self._points_path} is in use by another process") from None

    def _read_or_set_aside(self) -> None:
        try:
            self._generation = self._read_header()
            self.names = self._read_names()
        except DamagedError as error:
            self._set_aside(str(error))
        except FileNotFoundError:
            self._start_anew()

    def _read_header(self) -> str:
        size = os.fstat(self._points).st_size
        if not size:
            raise FileNotFoundError
        content = os.pread(self._points, _HEADER.size, 0)
        if size < HEADER_BYTES or len(content) < _HEADER.size:
            raise DamagedError(f"{self._points_path} has {size} bytes, less than a header")
        magic, version, order, block, points, generation = _HEADER.unpack(content)
        if magic != _MAGIC:
            raise DamagedError(f"{self._points_path} is no file of metrics")
        if (version, order, block, points) != (_VERSION, _BYTE_ORDER, BLOCK_BYTES, POINTS):
            raise DamagedError(f"{self._points_path} is of another version or byte order")
        return str(generation.decode("ascii", "replace"))

    def _read_names(self) -> list[SeriesName]:
        try:
            lines = self._series_path.read_bytes().split(b"\n")
        except FileNotFoundError:
            raise DamagedError(f"{self._series_path} is missing") from None
        if _decoded(lines[0]) != [self._generation]:
            raise DamagedError(f"{self._series_path} does not belong to {self._points_path}")
        names: list[SeriesName] = []
        for line in lines[1:-1]:  # the last one is empty, or was cut when the process was killed
            match _decoded(line):
                case [str() as word, str() as kind, int() as milliseconds] if word == _RETENTION:
                    self.retentions[kind] = milliseconds
                case [int() as number, str() as kind, *texts] if 0 < number < 2**32:
                    names.append(SeriesName(number, kind, tuple(map(str, texts))))
        return names

    def _set_aside(self, reason: str) -> None:
        log.warning("%s; it is set aside as *%s, metrics start anew", reason, SET_ASIDE)
        for path in (self._points_path, self._series_path):
            if path.exists():
                path.replace(path.with_name(path.name + SET_ASIDE))
        os.close(self._points)
        self._points = os.open(self._points_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock()
        self._start_anew()

    def _start_anew(self) -> None:
        self._generation = os.urandom(8).hex()
        self._series_path.unlink(missing_ok=True)
        os.ftruncate(self._points, 0)
        os.posix_fallocate(self._points, 0, HEADER_BYTES)
        self.compact([])
        header = _HEADER.pack(
            _MAGIC, _VERSION, _BYTE_ORDER, BLOCK_BYTES, POINTS, self._generation.encode("ascii")
        )
        os.pwrite(self._points, header, 0)


def is_whole(place: Place) -> bool:
    """Return whether the points of a block that was found in a file can be true."""
    longs, count = place.segment.longs, place.segment.longs[place.header + 1]
    if not 0 < count <= POINTS or longs[place.times] != 0:
        return False
    times = longs[place.times : place.times + count].tolist()
    if any(earlier > later for earlier, later in pairwise(times)):
        return False
    return all(map(isfinite, place.segment.doubles[place.values : place.values + count].tolist()))


def _line(content: list[Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
