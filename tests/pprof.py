"""Read what `go tool pprof` reads."""

import gzip
from collections import Counter
from collections.abc import Iterator
from typing import Any

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
