"""The differences between two JSON documents, as operations of a JSON patch (RFC 6902).

Objects are compared member by member; common items at both ends of lists are kept, and the rest is compared
position by position.
"""

from collections.abc import Iterator
from typing import Any

from koordpy.api.patch import equal
from koordpy.lib.bounded_cache import cached

Change = tuple[str, tuple[str | int, ...], Any]
"""One difference: the operation (add, remove, replace), the path as segments, the new value."""


def changes(before: Any, after: Any, path: tuple[str | int, ...] = ()) -> Iterator[Change]:
    """Yield the differences between two values in an order in which they can be applied."""
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _member_changes(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _item_changes(before, after, path)
    elif not equal(before, after):
        yield "replace", path, after


def operation(op: str, path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """Return the wire form of one change."""
    if op == "remove":
        return {"op": op, "path": pointer(path)}
    return {"op": op, "path": pointer(path), "value": value}


@cached("json_pointers", 1 << 20)  # webhooks write the same few places again and again
def pointer(path: tuple[str | int, ...]) -> str:
    """Return the JSON pointer (RFC 6901) of a path given as member names and list positions."""
    return "".join(["/" + str(segment).replace("~", "~0").replace("/", "~1") for segment in path])


def _member_changes(
    before: dict[str, Any], after: dict[str, Any], path: tuple[str | int, ...]
) -> Iterator[Change]:
    for key in before:
        if key not in after:
            yield "remove", (*path, key), None
    for key, value in after.items():
        if key not in before:
            yield "add", (*path, key), value
        elif before[key] is not value:
            yield from changes(before[key], value, (*path, key))


def _item_changes(before: list[Any], after: list[Any], path: tuple[str | int, ...]) -> Iterator[Change]:
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and equal(before[head], after[head]):
        head += 1
    tail = 0
    while tail < shorter - head and equal(before[-1 - tail], after[-1 - tail]):
        tail += 1
    old_end, new_end = len(before) - tail, len(after) - tail
    both_end = min(old_end, new_end)
    for index in range(head, both_end):
        yield from changes(before[index], after[index], (*path, index))
    for index in range(old_end - 1, both_end - 1, -1):
        yield "remove", (*path, index), None
    for index in range(both_end, new_end):
        yield "add", (*path, index), after[index]
