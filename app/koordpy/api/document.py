"""An editor over a raw JSON object that records RFC 6902 operations as it changes it.

Admission must return only what it changed: unknown fields have to survive, and a diff of whole documents
costs more than the edits. So handlers edit the decoded request body through a Document, in place, which
records the operations. They are kept minimal: a second edit of a place changes the first operation, an edit
that is undone leaves none, and edits inside a value that an operation added become part of that value.
"""

from typing import Any

import msgspec

from koordpy.api import json_diff, strategic_merge
from koordpy.api.patch import PatchError, clone, describe, equal

Path = tuple[str | int, ...]
"""The place of a value: member names and list positions, `("spec", "containers", 0, "name")`."""


class DocumentError(PatchError):
    """A path that leads through a scalar, beyond a list, or to a member of a list."""


class _Edit(msgspec.Struct, gc=False, eq=False):
    """One operation. `before` is the former value: a scalar, `_ABSENT`, or `_CONTAINER`."""

    op: str
    path: Path
    value: Any
    parent: Any
    before: Any


_ABSENT: Any = object()
_CONTAINER: Any = object()
_NESTED = (dict, list)
_DROPPED = ""  # the op of an edit that another one made redundant
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class Document:
    """A JSON object being edited. `raw` is changed in place and must not be changed by other code meanwhile.

    A value that is set is copied if it is an object or a list, so constants are safe to pass.
    """

    __slots__ = ("_edits", "_moved", "_own", "_places", "raw")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self._edits: list[_Edit] = []
        self._places: dict[int, dict[str | int, _Edit]] = {}  # id of the parent and member to its edit
        self._moved: dict[int, list[_Edit]] = {}  # id of a list to edits whose positions are no longer known
        self._own: dict[int, Any] = {}  # id to the object or list that an operation adds

    def get(self, path: Path, default: Any = None) -> Any:
        """Return the value at a path, or `default` if it or one of its parents is absent or null."""
        node: Any = self.raw
        for segment in path:
            node = _child(node, segment, path)
            if node is None:
                return default
        return node

    def set(self, path: Path, value: Any, *, copy: bool = True) -> bool:
        """Set the value at a path, creating absent or null parents as objects.

        Without `copy` the document takes ownership of the value: no other reference to it, or to parts of it,
        may be kept. Returns False, and records nothing, if the value is already equal.
        """
        if copy and isinstance(value, _NESTED):
            value = clone(value)
        node: Any = self.raw
        own = False
        owned = self._own
        for depth, segment in enumerate(path[:-1]):
            child = node.get(segment) if type(node) is dict else _child(node, segment, path)
            if child is None:
                for name in reversed(path[depth + 1 :]):
                    if not isinstance(name, str):
                        raise DocumentError(f"{_text(path)}: there is no list for position {name}")
                    value = {name: value}
                return self._put(node, segment, value, path[: depth + 1], own)
            if owned and id(child) in owned:
                own = True
            node = child
        return self._put(node, path[-1], value, path, own)

    def remove(self, path: Path) -> bool:
        """Remove a member or a list item. Returns False if there is none."""
        node, own = self._walk(path[:-1], path)
        key = path[-1]
        if node is None or (isinstance(node, dict) and key not in node):
            return False
        before = _child(node, key, path)
        del node[key]
        if own:
            return True
        if isinstance(node, list):
            self._shift(node, _Edit("remove", path, None, node, _CONTAINER))
        else:
            self._record("remove", path, None, node, key, before)
        if isinstance(before, _NESTED):
            self._forget(before)
        return True

    def append(self, path: Path, value: Any) -> None:
        """Append a value to the list at a path; an absent or null list is created."""
        node, own = self._walk(path, path)
        if node is None:
            self.set(path, [value])
            return
        if not isinstance(node, list):
            raise DocumentError(f"{_text(path)}: expected a list, got {describe(node)}")
        value = clone(value)
        node.append(value)
        if not own:
            edit = _Edit("add", (*path, "-"), self._owned(value), node, _ABSENT)
            self._edits.append(edit)
            self._moved.setdefault(id(node), []).append(edit)

    def insert(self, path: Path, value: Any) -> None:
        """Insert a value into a list, before the item at the position that the path ends in."""
        node, own = self._walk(path[:-1], path)
        index = path[-1]
        if not isinstance(node, list) or not isinstance(index, int) or not 0 <= index <= len(node):
            raise DocumentError(f"{_text(path)}: there is no such position in a list")
        value = clone(value)
        node.insert(index, value)
        if not own:
            self._shift(node, _Edit("add", path, self._owned(value), node, _ABSENT))

    def merge(self, patch: Any, kind: str) -> bool:
        """Apply a strategic merge patch for `kind`. Returns whether anything changed.

        Raises StrategicMergeError; the document is then unchanged.
        """
        return self.update(strategic_merge.overlay(self.raw, patch, kind))

    def update(self, after: dict[str, Any]) -> bool:
        """Make the document equal to `after`, recording only differences. Returns whether there are any."""
        changes = list(json_diff.changes(self.raw, after))
        for op, path, value in changes:
            if op == "remove":
                self.remove(path)
            elif op == "add" and isinstance(path[-1], int):
                self.insert(path, value)
            else:
                self.set(path, value)
        return bool(changes)

    @property
    def changed(self) -> bool:
        """Whether there are operations."""
        return any(edit.op for edit in self._edits)

    @property
    def operations(self) -> list[dict[str, Any]]:
        """The RFC 6902 operations, in order, from the original document to this one.

        Their values are parts of the document and show later edits.
        """
        return [json_diff.operation(edit.op, edit.path, edit.value) for edit in self._edits if edit.op]

    def patch_bytes(self) -> bytes:
        """Return the operations as JSON text."""
        return _ENCODER.encode(self.operations)

    def _walk(self, path: Path, whole: Path) -> tuple[Any, bool]:
        """Return the value at a path, None if absent, and whether it is inside an operation's value."""
        node: Any = self.raw
        own = False
        for segment in path:
            node = node.get(segment) if type(node) is dict else _child(node, segment, whole)
            if node is None:
                break
            if id(node) in self._own:
                own = True
        return node, own

    def _put(self, node: Any, key: str | int, value: Any, path: Path, own: bool) -> bool:
        if type(node) is dict:
            if not isinstance(key, str):
                raise DocumentError(f"{_text(path)}: expected a list, got an object")
            before = node.get(key, _ABSENT)
        else:
            before = _child(node, key, path)
        if before is not _ABSENT and equal(before, value):
            return False
        node[key] = value
        if not own:
            self._record("add" if before is _ABSENT else "replace", path, value, node, key, before)
            if isinstance(before, _NESTED):
                self._forget(before)
        return True

    def _record(self, op: str, path: Path, value: Any, node: Any, key: str | int, before: Any) -> None:
        places = self._places.get(id(node))
        if places is None:
            places = self._places[id(node)] = {}
        edit = places.get(key)
        if edit is None:
            if isinstance(before, _NESTED):
                before = _CONTAINER
            edit = places[key] = _Edit(op, path, self._owned(value), node, before)
            self._edits.append(edit)
        elif edit.before is _ABSENT if op == "remove" else equal(edit.before, value):
            # The place has its former value again, which is not an operation's value.
            edit.op = _DROPPED
            del places[key]
        elif op == "remove":
            edit.op = op
            edit.value = None
        else:
            edit.op = "add" if edit.before is _ABSENT else "replace"
            edit.value = self._owned(value)

    def _owned(self, value: Any) -> Any:
        if isinstance(value, _NESTED):
            self._own[id(value)] = value
        return value

    def _shift(self, items: list[Any], edit: _Edit) -> None:
        """Record an edit that shifts list items: positions in earlier edits become invalid."""
        self._edits.append(edit)
        moved = self._moved.setdefault(id(items), [])
        moved += self._places.pop(id(items), {}).values()
        moved.append(edit)

    def _forget(self, value: dict[str, Any] | list[Any]) -> None:
        """Drop the edits inside an object or a list that has left the document."""
        stack: list[Any] = [value]
        while stack:
            node = stack.pop()
            for child in node.values() if type(node) is dict else node:
                if type(child) is dict or type(child) is list:
                    stack.append(child)
            edits = self._places.pop(id(node), None)
            if edits is not None:
                for edit in edits.values():
                    edit.op = _DROPPED
            if type(node) is list:
                for edit in self._moved.pop(id(node), ()):
                    edit.op = _DROPPED


def _child(node: Any, segment: str | int, path: Path) -> Any:
    """Return a member or an item, None for an absent member."""
    if isinstance(node, dict):
        return node.get(segment)
    if not isinstance(node, list):
        raise DocumentError(f"{_text(path)}: {segment!r} needs an object around it, got {describe(node)}")
    if not isinstance(segment, int) or not 0 <= segment < len(node):
        raise DocumentError(f"{_text(path)}: {segment!r} is no position in a list of {len(node)}")
    return node[segment]


def _text(path: Path) -> str:
    """Write a path as Kubernetes' messages do: `spec.containers[0].name`."""
    text = ""
    for segment in path:
        text += f"[{segment}]" if isinstance(segment, int) else f".{segment}"
    return text.removeprefix(".")
