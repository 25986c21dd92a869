"""RFC 6902 JSON Patch with kube-apiserver's reading of it.

Clients patch objects with it and admission webhooks answer with it, so what an operation does on an
edge (a negative index, `replace` of a member that is not there) decides whether a request passes.
The rules are those of gopkg.in/evanphx/json-patch.v4, which kube-apiserver uses, with its defaults;
each deviation from the RFC is named where it is made. `diff` makes the patch between two documents.

`test` compares values. kube-apiserver compares the texts of strings and so also fails where a client
escapes a character in another way than Go does; a decoded string no longer shows that.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from koordpy.api.patch import PatchError, clone, describe, equal

MAX_OPERATIONS = 10_000
"""Operations that kube-apiserver accepts in one patch."""

MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes of JSON that the `copy` operations of one patch may add together."""

Change = tuple[str, tuple[str | int, ...], Any]
"""One difference: the operation (add, remove, replace), the path as segments, the new value."""

_INDEX = re.compile(r"[+-]?[0-9]+\Z")


class JSONPatchError(PatchError):
    """A JSON Patch that cannot be applied; the message names the operation, its number and its path."""


class _Null:
    """A null that an operation wrote.

    The Go library keeps it apart from a null of the document: `test` finds it equal to `value: null`
    but not to a missing `value`. A copy of such a null equals an empty object and nothing else.
    """

    def __init__(self, copied: bool) -> None:
        self.copied = copied


_WRITTEN = _Null(copied=False)
_COPIED = _Null(copied=True)
_NOTHING: dict[str, Any] = {}  # what a path finds under a copied null: no members, and no place for any


def apply(document: Any, operations: Any) -> Any:
    """Return `document` (object or list) with the operations applied; the arguments stay as they are.

    Raises JSONPatchError; its `code` is 400 for a malformed patch, 413 for one that is too large, 422
    for one that does not apply.
    """
    if operations is None:
        return clone(document)
    if not isinstance(operations, list):
        raise JSONPatchError(f"JSON patch: expected a list of operations, got {describe(operations)}", 400)
    if len(operations) > MAX_OPERATIONS:
        raise JSONPatchError(
            f"JSON patch: {len(operations)} operations, at most {MAX_OPERATIONS} are allowed", 413
        )
    for number, operation in enumerate(operations):
        if operation is not None and not isinstance(operation, dict):
            raise JSONPatchError(
                f"JSON patch: operation {number}: expected an object, got {describe(operation)}", 400
            )
    try:
        patching = _Patching(clone(document))
        for number, operation in enumerate(operations):
            try:
                patching.run(operation or {})
            except JSONPatchError as error:
                raise JSONPatchError(f"JSON patch: operation {number}: {error}", error.code) from None
        return patching.result()
    except RecursionError:
        raise JSONPatchError("JSON patch: values are nested too deeply", 400) from None


def diff(before: Any, after: Any) -> list[dict[str, Any]]:
    """Return operations (add, remove, replace) that turn `before` into `after`.

    Objects are compared member by member; of lists, what both ends have in common stays, and the
    rest is compared position by position. Values in the operations are those of `after`, not copies.
    """
    return [operation(*change) for change in changes(before, after)]


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


@lru_cache(maxsize=4096)  # webhooks write the same few places again and again
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


class _Patching:
    """A document while operations are applied to it."""

    def __init__(self, root: Any) -> None:
        if not isinstance(root, dict | list):
            raise JSONPatchError(
                f"JSON patch: the document must be an object or a list, got {describe(root)}"
            )
        self.root: dict[str, Any] | list[Any] = root
        self.copied_bytes = 0
        self.wrote_null = False

    def run(self, operation: dict[str, Any]) -> None:
        op = operation.get("op")
        match op:
            case "add":
                path = _pointer_of(operation, "path")
                container, key = self._find(path, op)
                _add(container, key, self._value(operation), op, path)
            case "remove":
                path = _pointer_of(operation, "path")
                container, key = self._find(path, op)
                _remove(container, key, op, path)
            case "replace":
                self._replace(operation)
            case "move":
                self._move(operation)
            case "copy":
                self._copy(operation)
            case "test":
                self._test(operation)
            case _:
                known = "add, remove, replace, move, copy or test"
                raise JSONPatchError(f"unknown op {op!r}, expected {known}")

    def result(self) -> Any:
        return _settle(self.root) if self.wrote_null else self.root

    def _replace(self, operation: dict[str, Any]) -> None:
        path = _pointer_of(operation, "path")
        if path == "":
            value = operation.get("value")
            if not isinstance(value, dict | list):
                raise JSONPatchError(
                    f"replace of the whole document needs an object or a list, got {describe(value)}"
                )
            self.root = clone(value)
            return
        container, key = self._find(path, "replace")
        # The library adds a member that is not there; only a list insists on the position.
        if isinstance(container, dict):
            _add(container, key, self._value(operation), "replace", path)
        else:
            container[_position(container, key, "replace", path)] = self._value(operation)

    def _move(self, operation: dict[str, Any]) -> None:
        source = _pointer_of(operation, "from")
        container, key = self._find(source, "move")
        value = _get(container, key, "move", source)
        _remove(container, key, "move", source)
        target = _pointer_of(operation, "path")
        container, key = self._find(target, "move")
        _add(container, key, value, "move", target)

    def _copy(self, operation: dict[str, Any]) -> None:
        source = _pointer_of(operation, "from")
        container, key = self._find(source, "copy")
        value = _get(container, key, "copy", source)
        target = _pointer_of(operation, "path")
        container, key = self._find(target, "copy")
        if isinstance(value, _Null):
            value = _COPIED
        elif value is not None:
            value = _settle(clone(value)) if self.wrote_null else clone(value)
            self.copied_bytes += len(msgspec.json.encode(value))
            if self.copied_bytes > MAX_COPIED_BYTES:
                raise JSONPatchError(f"copy from {source!r}: copies exceed {MAX_COPIED_BYTES} bytes", 413)
        _add(container, key, value, "copy", target)

    def _test(self, operation: dict[str, Any]) -> None:
        path = _pointer_of(operation, "path")
        if path == "":
            found: Any = self.root
        else:
            container, key = self._find(path, "test")
            found = _get(container, key, "test", path)
        if found is None:
            passed = operation.get("value") is None
        elif found is _WRITTEN:
            passed = "value" in operation and operation["value"] is None
        else:
            passed = _same(found, operation.get("value"))
        if not passed:
            raise JSONPatchError(f"test failed at {path!r}: the document holds another value")

    def _value(self, operation: dict[str, Any]) -> Any:
        value = operation.get("value")
        if value is None and "value" in operation:
            self.wrote_null = True
            return _WRITTEN
        return clone(value)

    def _find(self, path: str, op: str) -> tuple[dict[str, Any] | list[Any], str]:
        """Return the object or list that holds the last segment of a pointer, and that segment.

        Text before the first slash is ignored, as the library does.
        """
        segments = path.split("/")
        if len(segments) < 2:
            raise JSONPatchError(f"{op} at {path!r}: a path must contain a slash")
        segments = [segment.replace("~1", "/").replace("~0", "~") for segment in segments[1:]]
        container: Any = self.root
        for segment in segments[:-1]:
            container = _get(container, segment, op, path)
            if container is _COPIED:
                container = _NOTHING
            elif not isinstance(container, dict | list):
                missing = "nothing" if container is None else "no object or list"
                raise JSONPatchError(f"{op} at {path!r}: there is {missing} at {segment!r}")
        return container, segments[-1]


def _pointer_of(operation: dict[str, Any], member: str) -> str:
    path = operation.get(member)
    if not isinstance(path, str):
        op = operation.get("op")
        raise JSONPatchError(f"{op}: {member!r} must be a JSON pointer, got {describe(path)}")
    return path


def _position(items: list[Any], key: str, op: str, path: str, room: int = 0) -> int:
    """Read a list position; `room` 1 also allows the place after the last item. Negative counts back."""
    if not _INDEX.match(key):
        raise JSONPatchError(f"{op} at {path!r}: {key!r} is not a list position")
    size = len(items) + room
    index = int(key) if len(key) < 20 else size
    if index < 0:
        index += size
    if not 0 <= index < size:
        raise JSONPatchError(f"{op} at {path!r}: position {key} is outside of a list of {len(items)}")
    return index


def _get(container: dict[str, Any] | list[Any], key: str, op: str, path: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)  # absent reads as null: the library's `test` and `copy` rely on it
    return container[_position(container, key, op, path)]


def _add(container: dict[str, Any] | list[Any], key: str, value: Any, op: str, path: str) -> None:
    if container is _NOTHING:
        raise JSONPatchError(f"{op} at {path!r}: the parent is null")
    if isinstance(container, dict):
        container[key] = value
    elif key == "-":
        container.append(value)
    else:
        container.insert(_position(container, key, op, path, room=1), value)


def _remove(container: dict[str, Any] | list[Any], key: str, op: str, path: str) -> None:
    if isinstance(container, list):
        del container[_position(container, key, op, path)]
    elif key in container:
        del container[key]
    else:
        raise JSONPatchError(f"{op} at {path!r}: there is no member {key!r}")


def _same(found: Any, value: Any) -> bool:
    """`equal`, with nulls that operations wrote inside `found`."""
    if found is _COPIED:
        return value == {} and isinstance(value, dict)
    if isinstance(found, dict):
        if not isinstance(value, dict) or len(found) != len(value):
            return False
        return all(key in value and _same(item, value[key]) for key, item in found.items())
    if isinstance(found, list):
        return isinstance(value, list) and len(found) == len(value) and all(map(_same, found, value))
    return equal(found, value)


def _settle(value: Any) -> Any:
    """Turn the nulls that operations wrote into plain ones, in place."""
    if isinstance(value, _Null):
        return None
    if isinstance(value, dict):
        for key, item in value.items():
            value[key] = _settle(item)
    elif isinstance(value, list):
        value[:] = map(_settle, value)
    return value
