"""A sampling profiler for this process, in the format of `go tool pprof`.

A thread samples the stacks of the others a hundred times a second. Nothing is instrumented, so the cost is
zero without profiling, and low with it. The format is pprof's (gzipped protocol buffers):
github.com/google/pprof, `proto/profile.proto`.
"""

import asyncio
import gzip
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from types import FrameType
from typing import Final

HERTZ: Final = 100
LONGEST_SECONDS: Final = 120
"""The most that a profile may take."""
INDEX: Final = "profile?seconds=30  for go tool pprof\nstacks  what all threads do\n"
"""What there is below `/debug/pprof`."""
DISPOSITION: Final = {"content-disposition": 'attachment; filename="profile.pb.gz"'}

Function = tuple[str, str, int]
"""File, qualified name, first line."""

Place = tuple[Function, int]
"""A function, and the line that is executed."""

Stack = tuple[Place, ...]
"""The innermost place first."""


_ROOTS: Final = ("/site-packages/", "/app/", "/plugins/", f"/python3.{sys.version_info[1]}/")


def sample(seconds: float, hertz: int = HERTZ) -> tuple[Counter[Stack], int]:
    """Return how often each stack of another thread was seen, and how many samples were taken.

    It blocks, so it needs a separate thread. In a busy process it takes fewer samples than `hertz`.
    """
    found: Counter[Stack] = Counter()
    taken = 0
    own = threading.get_ident()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        taken += 1
        for thread, frame in sys._current_frames().items():
            if thread != own:
                found[_stack(frame)] += 1
        time.sleep(1 / hertz)
    return found, taken


def encode(samples: Counter[Stack], taken: int, began: float, seconds: float) -> bytes:
    """Return samples as a gzipped pprof profile; `began` is seconds since the epoch."""
    strings: dict[str, int] = {"": 0}
    functions: dict[Function, int] = {}
    locations: dict[Place, int] = {}
    period = int(seconds * 1e9) // max(taken, 1)
    body: list[bytes] = []

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    def value_type(kind: str, unit: str) -> bytes:
        return _number(1, text(kind)) + _number(2, text(unit))

    body += [_bytes(1, value_type("samples", "count")), _bytes(1, value_type("wall", "nanoseconds"))]
    for stack, count in samples.items():
        places = [locations.setdefault(place, len(locations) + 1) for place in stack]
        body.append(_bytes(2, _packed(1, places) + _packed(2, (count, count * period))))
    for (function, line), number in locations.items():
        known = functions.setdefault(function, len(functions) + 1)
        body.append(_bytes(4, _number(1, number) + _bytes(4, _number(1, known) + _number(2, line))))
    for (file, qualified, first_line), number in functions.items():
        name = text(f"{_module(file)}.{qualified}")
        fields = (_number(2, name), _number(3, name), _number(4, text(file)), _number(5, first_line))
        body.append(_bytes(5, b"".join((_number(1, number), *fields))))
    period_type = _bytes(11, value_type("wall", "nanoseconds"))
    body += [_bytes(6, string.encode()) for string in strings]
    body += [_number(9, int(began * 1e9)), _number(10, int(seconds * 1e9)), period_type, _number(12, period)]
    return gzip.compress(b"".join(body))


class ProfilerBusyError(RuntimeError):
    """A profile is being taken already."""


class Profiler:
    """Takes profiles of this process, one at a time."""

    def __init__(self) -> None:
        self._busy = False

    async def profile(self, seconds: float) -> bytes:
        """Return a profile for `go tool pprof`, after some seconds. Raises ProfilerBusyError."""
        if self._busy:
            raise ProfilerBusyError("a profile is being taken already")
        self._busy = True
        try:
            began = time.time()
            found, taken = await asyncio.to_thread(sample, seconds)
            return await asyncio.to_thread(encode, found, taken, began, seconds)
        finally:
            self._busy = False


def stacks() -> str:
    """Return what every thread and every task of the event loop is doing, as text."""
    parts = []
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        lines = "".join(traceback.format_stack(frame))
        parts.append(f"thread {names.get(ident, ident)}\n{lines}")
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        lines = "".join("".join(traceback.format_stack(frame)) for frame in task.get_stack(limit=8))
        parts.append(f"task {task.get_name()}\n{lines}")
    return "\n".join(parts)


def _stack(frame: FrameType | None) -> Stack:
    places = []
    while frame is not None:
        code = frame.f_code
        places.append(((code.co_filename, code.co_qualname, code.co_firstlineno), frame.f_lineno))
        frame = frame.f_back
    return tuple(places)


def _module(file: str) -> str:
    """Return the name of a file's module, as far as its path shows it."""
    path = file.removesuffix(".py")
    for root in _ROOTS:
        _, found, module = path.rpartition(root)
        if found:
            return module.replace("/", ".")
    return path.rpartition("/")[2]


# --- protocol buffers ----------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _bytes(field, b"".join(map(_varint, values)))
