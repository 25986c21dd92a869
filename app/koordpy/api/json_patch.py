"""JSON patches (RFC 6902), applied by `jsonpatch` as kube-apiserver applies them.

Clients patch objects with them and admission webhooks answer with them, so the corner cases of an operation
(a negative position, `replace` of an absent member) decide whether a request succeeds. kube-apiserver uses
gopkg.in/evanphx/json-patch.v4 with its defaults; each deviation of that library from the RFC is documented in
its place. Most of them concern the interpretation of pointers.

`test` compares values. kube-apiserver compares the encoded strings and so also fails if a client escapes a
character differently from Go; a decoded string no longer shows that.
"""

import re
from enum import Enum
from typing import Any, Final

import jsonpatch
import msgspec

from koordpy.api.patch import PatchError, clone, describe, equal

MAX_OPERATIONS: Final = 10_000
"""Operations that kube-apiserver accepts in one patch."""

MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""Bytes of JSON that the `copy` operations of one patch may add together."""

_POSITION: Final = re.compile(r"[+-]?[0-9]+")


class JSONPatchError(PatchError):
    """A JSON patch that cannot be applied; the message names the operation by number, op and path."""


class _Null(Enum):
    """A null that an operation wrote, which the Go library distinguishes from a null of the document.

    `test` finds it equal to `value: null` but not to a missing `value`. A copy of such a null equals an empty
    object and nothing else.
    """

    WRITTEN = "written"
    COPIED = "copied"


def apply(document: Any, operations: Any) -> Any:
    """Return `document` (object or list) with the operations applied; the arguments stay as they are.

    Raises JSONPatchError; its `code` is 400 for a malformed patch, 413 for one that is too large, 422 for one
    that does not apply.
    """
    if operations is None:
        operations = []
    if not isinstance(operations, list):
        raise JSONPatchError(f"JSON patch: expected a list of operations, got {describe(operations)}", 400)
    if len(operations) > MAX_OPERATIONS:
        raise JSONPatchError(
            f"JSON patch: {len(operations)} operations, at most {MAX_OPERATIONS} are allowed", 413
        )
    for number, operation in enumerate(operations):
        if not isinstance(operation, dict | None):
            what = describe(operation)
            raise JSONPatchError(f"JSON patch: operation {number}: expected an object, got {what}", 400)
    copied_bytes = 0
    try:
        document = clone(document)
        for number, operation in enumerate(operations):
            operation = operation or {}
            try:
                document, copied = _run(document, operation, MAX_COPIED_BYTES - copied_bytes)
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
                what = f"operation {number}: {operation.get('op')} at {_shown(operation.get('path'))}"
                raise JSONPatchError(f"JSON patch: {what}: {str(error)[:1000]}") from None
            copied_bytes += copied
        return _plain(document)
    except RecursionError:
        raise JSONPatchError("JSON patch: values are nested too deeply", 400) from None


def _run(document: Any, operation: dict[str, Any], copyable: int) -> tuple[Any, int]:
    """Return the document after one operation, and how many bytes it copied, at most `copyable`."""
    op, path, source = operation.get("op"), operation.get("path"), operation.get("from")
    match op:
        case "add":
            return _add(document, path, _value(operation)), 0
        case "remove":
            return _remove(document, path), 0
        case "replace":
            return _replace(document, path, _value(operation)), 0
        case "move":  # the target is looked up after the value is removed, so it cannot be inside the value
            value = _Pointer(source).resolve(document)
            return _add(_remove(document, source), path, value), 0
        case "copy":
            value = _Place(source).resolve(document)
            if isinstance(value, _Null):
                return _add(document, path, _Null.COPIED), 0
            copied = 0 if value is None else len(msgspec.json.encode(value))
            if copied > copyable:
                raise JSONPatchError(f"JSON patch: copies exceed {MAX_COPIED_BYTES} bytes", 413)
            value = _plain(clone(value))
            return _add(document, path, value), copied
        case "test":
            if not _passes(_Pointer(path).resolve(document), operation):
                raise jsonpatch.JsonPatchTestFailed("the document holds another value")
            return document, 0
    raise jsonpatch.InvalidJsonPatch("unknown op, expected add, remove, replace, move, copy or test")


def _add(document: Any, path: Any, value: Any) -> Any:
    operation = {"op": "add", "path": path, "value": value}
    return jsonpatch.AddOperation(operation, pointer_cls=_NewPlace).apply(document)


def _remove(document: Any, path: Any) -> Any:
    return jsonpatch.RemoveOperation({"op": "remove", "path": path}, pointer_cls=_Place).apply(document)


def _replace(document: Any, path: Any, value: Any) -> Any:
    """Replace as `jsonpatch` does, but add an absent member, and do not replace the document by a scalar."""
    pointer = _Pointer(path)
    if not pointer.parts and not isinstance(value, dict | list):
        raise jsonpatch.JsonPatchConflict(f"expected an object or a list, got {describe(value)}")
    if isinstance(pointer.to_last(document)[0], dict) and pointer.parts:
        return _add(document, path, value)
    operation = {"op": "replace", "path": path, "value": value}
    return jsonpatch.ReplaceOperation(operation, pointer_cls=_Pointer).apply(document)


def _passes(found: Any, operation: dict[str, Any]) -> bool:
    if found is None:
        return operation.get("value") is None
    if found is _Null.WRITTEN:
        return "value" in operation and operation["value"] is None
    return equal(_plain(clone(found), copied_null={}), operation.get("value"))


def _value(operation: dict[str, Any]) -> Any:
    """Return what an operation writes; a missing value is null."""
    value = operation.get("value")
    return _Null.WRITTEN if value is None and "value" in operation else clone(value)


def _plain(value: Any, copied_null: Any = None) -> Any:
    """Replace the nulls that operations wrote with plain ones, in place."""
    if isinstance(value, _Null):
        return copied_null if value is _Null.COPIED else None
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, dict | list | _Null):
                value[key] = _plain(item, copied_null)
    return value


class _Pointer(jsonpatch.JsonPointer):
    """A JSON pointer as the Go library parses it.

    Text before the first slash is ignored, a `~` that escapes nothing stays, an absent member reads as null.
    A list position may have a sign or leading zeros; a negative one counts from the end.
    """

    def __init__(self, pointer: Any) -> None:
        if not isinstance(pointer, str):
            raise jsonpatch.JsonPointerException(f"expected a JSON pointer, got {describe(pointer)}")
        ignored, *parts = pointer.split("/")
        if ignored and not parts:
            raise jsonpatch.JsonPointerException("a path must contain a slash")
        self.parts = [part.replace("~1", "/").replace("~0", "~") for part in parts]

    def walk(self, doc: Any, part: Any) -> Any:
        """Return the member or item of `doc`."""
        if doc is _Null.COPIED:
            return None
        container, key = self.at(doc, part)
        return container.get(key) if isinstance(container, dict) else container[key]

    def to_last(self, doc: Any) -> tuple[Any, Any]:
        """Return the parent object or list and the key in it; for the whole document the document itself."""
        if not self.parts:
            return doc, None
        for part in self.parts[:-1]:
            doc = self.walk(doc, part)
        return self.at(doc, self.parts[-1])

    def at(self, container: Any, key: str, beyond: int = 0) -> tuple[Any, Any]:
        """Return an object or list with the key in Python's form; `beyond` 1 allows the index past it."""
        if isinstance(container, dict):
            return container, key
        if not isinstance(container, list):
            found = "nothing" if container in (None, _Null.COPIED) else "no object or list"
            raise jsonpatch.JsonPointerException(f"there is {found} around {key!r}")
        if not _POSITION.fullmatch(key):
            raise jsonpatch.JsonPointerException(f"{key!r} is not a list position")
        size = len(container) + beyond
        position = int(key) if len(key) < 20 else size
        if position < 0:
            position += size
        if not 0 <= position < size:
            raise jsonpatch.JsonPointerException(f"position {key} is outside of a list of {len(container)}")
        return container, position


class _Place(_Pointer):
    """A pointer that may not point to the whole document."""

    def __init__(self, pointer: Any) -> None:
        super().__init__(pointer)
        if not self.parts:
            raise jsonpatch.JsonPointerException("a path must contain a slash")


class _NewPlace(_Place):
    """A pointer to where something is inserted."""

    def to_last(self, doc: Any) -> tuple[Any, Any]:
        """Return what `_Pointer.to_last` does; the position after the last item is also valid."""
        for part in self.parts[:-1]:
            doc = self.walk(doc, part)
        last = self.parts[-1]
        return (doc, last) if isinstance(doc, list) and last == "-" else self.at(doc, last, beyond=1)


def _shown(path: object) -> str:
    return repr(path[:200]) if isinstance(path, str) else str(path)[:200]
