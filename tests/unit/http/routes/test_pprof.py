"""Profiles that `go tool pprof` reads."""

import asyncio
import gzip
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from koordpy.http.routes import pprof

Field = tuple[int, int | bytes]


def fields(data: bytes) -> Iterator[Field]:
    """Read a protocol buffer message of numbers and byte strings."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            length = varint()
            yield key >> 3, data[position : position + length]
            position += length


def numbers(data: bytes) -> list[int]:
    return [value for _, value in fields(b"".join(b"\x08" + part for part in _varints(data)))]  # type: ignore[misc]


def _varints(data: bytes) -> Iterator[bytes]:
    part = bytearray()
    for byte in data:
        part.append(byte)
        if byte < 0x80:
            yield bytes(part)
            part.clear()


def decode(content: bytes) -> tuple[Counter[tuple[tuple[str, int], ...]], dict[int, Any]]:
    """Return how often each stack (name and line) was seen, and the profile's single fields."""
    message = list(fields(gzip.decompress(content)))
    strings = [value.decode() for field, value in message if field == 6 and isinstance(value, bytes)]
    assert strings[0] == ""
    functions, locations = {}, {}
    for field, value in message:
        if field == 5 and isinstance(value, bytes):
            function: dict[int, Any] = dict(fields(value))
            functions[function[1]] = strings[function[2]]
    for field, value in message:
        if field == 4 and isinstance(value, bytes):
            location: dict[int, Any] = dict(fields(value))
            line: dict[int, Any] = dict(fields(location[4]))
            locations[location[1]] = (functions[line[1]], line[2])
    samples: Counter[tuple[tuple[str, int], ...]] = Counter()
    for field, value in message:
        if field == 2 and isinstance(value, bytes):
            found: dict[int, Any] = dict(fields(value))
            stack = tuple(locations[number] for number in numbers(found[1]))
            count, nanoseconds = numbers(found[2])
            assert nanoseconds == count * dict(message)[12]
            samples[stack] += count
    return samples, {field: value for field, value in message if field in (9, 10, 12)}


places = st.tuples(st.tuples(st.just("f.py"), st.text(max_size=5), st.integers(0, 9)), st.integers(0, 10**6))
profiles = st.dictionaries(st.lists(places, min_size=1, max_size=4).map(tuple), st.integers(1, 10**9))


@given(profiles)
def test_what_was_seen_is_what_is_read(seen: dict[pprof.Stack, int]) -> None:
    samples, rest = decode(pprof.encode(Counter(seen), looks=200, began=1.5, seconds=2))
    expected: Counter[tuple[tuple[str, int], ...]] = Counter()
    for stack, count in seen.items():
        expected[tuple((f"f.{name}", line) for (_, name, _), line in stack)] += count
    assert samples == expected
    assert rest == {9: 1_500_000_000, 10: 2_000_000_000, 12: 10_000_000}


def client() -> httpx.AsyncClient:
    application = FastAPI()
    application.include_router(pprof.router())
    transport = httpx.ASGITransport(app=application)
    return httpx.AsyncClient(transport=transport, base_url="http://debug")


async def test_a_profile_shows_what_threads_do() -> None:
    begun, stop = threading.Event(), threading.Event()

    def wait_for_the_end() -> None:
        begun.set()
        stop.wait()

    thread = threading.Thread(target=wait_for_the_end)
    thread.start()
    begun.wait()
    try:
        async with client() as caller:
            answer = await caller.get("/debug/pprof/profile", params={"seconds": 0.05})
    finally:
        stop.set()
        thread.join()
    samples, _ = decode(answer.content)
    assert any(name.endswith("wait_for_the_end") for stack in samples for name, _ in stack)


async def test_only_one_profile_is_taken_at_a_time() -> None:
    async with client() as caller:
        both = (caller.get("/debug/pprof/profile", params={"seconds": 0.1}) for _ in range(2))
        answers = await asyncio.gather(*both)
    assert sorted(answer.status_code for answer in answers) == [200, 409]


@pytest.mark.parametrize("seconds", ["0", "-1", "121", "soon", "nan"])
async def test_times_have_bounds(seconds: str) -> None:
    async with client() as caller:
        assert (await caller.get("/debug/pprof/profile", params={"seconds": seconds})).status_code == 422


async def test_stacks_name_threads_and_tasks() -> None:
    async def wait_a_little() -> None:
        await asyncio.sleep(30)

    task = asyncio.create_task(wait_a_little(), name="a task of ours")
    await asyncio.sleep(0)
    async with client() as caller:
        text = (await caller.get("/debug/pprof/stacks")).text
    task.cancel()
    assert "thread MainThread" in text
    assert "task a task of ours" in text
    assert "wait_a_little" in text
