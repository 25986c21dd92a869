"""Where the process spends its time: `/debug/pprof/profile` for `go tool pprof`, `.../stacks` for people.

A profile is taken by a thread that looks at what the others are doing, a hundred times a second. Nothing is
instrumented, so a process that is not being profiled pays nothing, and one that is pays little. The format is
pprof's (gzipped protocol buffers): github.com/google/pprof, `proto/profile.proto`.
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
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse, Response

HERTZ: Final = 100
LONGEST_SECONDS: Final = 120

Function = tuple[str, str, int]
"""File, qualified name, first line."""

Place = tuple[Function, int]
"""A function, and the line that is executed."""

Stack = tuple[Place, ...]
"""The innermost place first."""


_ROOTS: Final = ("/site-packages/", "/app/", "/plugins/", f"/python3.{sys.version_info[1]}/")


def sample(seconds: float, hertz: int = HERTZ) -> tuple[Counter[Stack], int]:
    """Return how often each stack of another thread was seen, and in how many looks.

    It blocks: for a thread of its own. A busy process lets it look less often than asked for.
    """
    found: Counter[Stack] = Counter()
    looks = 0
    own = threading.get_ident()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        looks += 1
        for thread, frame in sys._current_frames().items():
            if thread != own:
                found[_stack(frame)] += 1
        time.sleep(1 / hertz)
    return found, looks


def encode(samples: Counter[Stack], looks: int, began: float, seconds: float) -> bytes:
    """Return samples as a gzipped pprof profile; `began` is the time of day in seconds."""
    strings: dict[str, int] = {"": 0}
    functions: dict[Function, int] = {}
    locations: dict[Place, int] = {}
    period = int(seconds * 1e9) // max(looks, 1)
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


def router() -> APIRouter:
    """Return the routes. Of several profiles only one is taken at a time."""
    routes = APIRouter(prefix="/debug/pprof")
    busy = asyncio.Lock()

    @routes.get("/profile", include_in_schema=False)
    async def profile(seconds: Annotated[float, Query(gt=0, le=LONGEST_SECONDS)] = 30) -> Response:
        if busy.locked():
            raise HTTPException(409, "a profile is being taken already")
        async with busy:
            began = time.time()
            found, looks = await asyncio.to_thread(sample, seconds)
            content = await asyncio.to_thread(encode, found, looks, began, seconds)
        disposition = {"content-disposition": 'attachment; filename="profile.pb.gz"'}
        return Response(content, media_type="application/octet-stream", headers=disposition)

    @routes.get("", include_in_schema=False)
    @routes.get("/", include_in_schema=False)
    async def index() -> PlainTextResponse:
        return PlainTextResponse("profile?seconds=30  for go tool pprof\nstacks  what all threads do\n")

    @routes.get("/stacks", include_in_schema=False)
    async def all_stacks() -> PlainTextResponse:
        return PlainTextResponse(stacks())

    return routes


def _stack(frame: FrameType | None) -> Stack:
    places = []
    while frame is not None:
        code = frame.f_code
        places.append(((code.co_filename, code.co_qualname, code.co_firstlineno), frame.f_lineno))
        frame = frame.f_back
    return tuple(places)


def _module(file: str) -> str:
    """Return a file as the module that it is, as far as its path tells."""
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
