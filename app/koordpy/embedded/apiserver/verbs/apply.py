"""Server-side apply: appliers own fields, conflicts are reported, fields no longer applied are removed.

Ownership is kept in `metadata.managedFields` only for apply requests; changes by other requests are not
tracked, so an apply takes such fields over without a conflict. Lists are merged by the merge keys of
strategic merge patch; lists without one, and those of custom resources, are owned as a whole.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from koordpy.api.field_cause import Cause
from koordpy.api.meta import format_time
from koordpy.api.patch import clone, equal
from koordpy.api.patch_types import PatchType, patch_types

from ..catalog import Served
from ..errors import ApiError

Document = dict[str, Any]
Step = tuple[str, Any]
Path = tuple[Step, ...]
"""From the root to a leaf: `("f", field)`, or `("k", {merge key: value})` as JSON text."""

_IDENTITY = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "managedFields",
    "creationTimestamp",
    "generation",
)


class Applied:
    """One apply: a manager, and its configuration."""

    def __init__(
        self,
        manager: str,
        served: Served,
        configuration: Document,
        force: bool,
        now: datetime,
        subresource: str = "",
    ) -> None:
        self._manager = manager
        self._served = served
        self._force = force
        self._now = now
        self._subresource = subresource
        self._type = None if served.custom else patch_types().get(served.kind)
        self._configuration = configuration
        body = {**configuration, "metadata": dict(configuration.get("metadata", {}))}
        for name in _IDENTITY:
            body["metadata"].pop(name, None)
        if not body["metadata"]:
            del body["metadata"]
        self._wanted = dict(_leaves(body, self._type, ()))

    def onto(self, live: Document) -> Document:
        """Return the live document with the configuration applied. Raises ApiError (409) for conflicts."""
        result: Document = clone(live)
        entries: list[Document] = result["metadata"].pop("managedFields", [])
        owned = {self._id(entry): _paths(entry.get("fieldsV1", {})) for entry in entries}
        mine = owned.get((self._manager, self._subresource), set())
        others = {who: paths for who, paths in owned.items() if who != (self._manager, self._subresource)}
        current = dict(_leaves(result, self._type, ()))
        conflicts: list[Cause] = []
        taken: set[Path] = set()
        for path, value in self._wanted.items():
            if path in current and equal(current[path], value):
                continue
            for (manager, subresource), paths in others.items():
                if path in paths:
                    taken.add(path)
                    told = f'conflict with "{manager}"'
                    if subresource:
                        told += f' with subresource "{subresource}"'
                    conflicts.append(Cause(_text(path), "FieldManagerConflict", told))
        if conflicts and not self._force:
            raise _conflict(conflicts)
        for path in mine - set(self._wanted):
            if not any(path in paths for paths in others.values()):
                _remove(result, path)
        configuration = clone(self._configuration)
        for name in _IDENTITY:
            if name != "resourceVersion" and live["metadata"]:
                configuration.get("metadata", {}).pop(name, None)
        _merge(result, configuration, self._type)
        kept = []
        for entry in entries:
            who = self._id(entry)
            if who == (self._manager, self._subresource):
                continue
            paths = owned[who] - taken
            if paths:
                kept.append({**entry, "fieldsV1": _tree(paths)})
        kept.append(self._entry())
        result["metadata"]["managedFields"] = kept
        return result

    def _entry(self) -> Document:
        entry: Document = {
            "manager": self._manager,
            "operation": "Apply",
            "apiVersion": self._served.api_version,
            "time": format_time(self._now),
            "fieldsType": "FieldsV1",
            "fieldsV1": _tree(set(self._wanted)),
        }
        if self._subresource:
            entry["subresource"] = self._subresource
        return entry

    @staticmethod
    def _id(entry: Document) -> tuple[str, str]:
        return entry.get("manager", ""), entry.get("subresource", "")


def _conflict(causes: list[Cause]) -> ApiError:
    if len(causes) == 1:
        told = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines: list[str] = []
        for message in sorted({cause.message for cause in causes}):
            lines.append(f"{message.replace('conflict', 'conflicts', 1)}:")
            lines += [f"- {cause.field}" for cause in causes if cause.message == message]
        told = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", told, causes=causes)


def _merge_key(type_: PatchType | None, name: str) -> tuple[str, PatchType | None]:
    """The merge key of a list field ("" if it is owned whole), and the type of what it or its items hold."""
    field = type_.field(name) if type_ is not None else None
    if field is None:
        return "", None
    return (field.merge_key if field.is_merged else ""), patch_types().get(field.type)


def _leaves(value: Document, type_: PatchType | None, path: Path) -> Iterator[tuple[Path, Any]]:
    for name, item in value.items():
        here: Path = (*path, ("f", name))
        key, inner = _merge_key(type_, name)
        if isinstance(item, dict) and item:
            yield from _leaves(item, inner, here)
        elif isinstance(item, list) and key and all(isinstance(part, dict) and key in part for part in item):
            for part in item:
                step = ("k", msgspec.json.encode({key: part[key]}).decode())
                yield from _leaves(part, inner, (*here, step))
        else:
            yield here, item


def _merge(target: Document, patch: Document, type_: PatchType | None) -> None:
    for name, item in patch.items():
        key, inner = _merge_key(type_, name)
        current = target.get(name)
        if isinstance(item, dict) and isinstance(current, dict):
            _merge(current, item, inner)
        elif isinstance(item, list) and isinstance(current, list) and key:
            for part in item:
                same = next((old for old in current if old.get(key) == part.get(key)), None)
                if same is None:
                    current.append(part)
                else:
                    _merge(same, part, inner)
        else:
            target[name] = item


def _remove(target: Any, path: Path) -> None:
    (kind, name), rest = path[0], path[1:]
    if kind == "f":
        if not isinstance(target, dict) or name not in target:
            return
        if rest:
            _remove(target[name], rest)
            if target[name] in ({}, []):
                del target[name]
        else:
            del target[name]
        return
    wanted: Document = msgspec.json.decode(name)
    ((key, value),) = wanted.items()
    for part in list(target) if isinstance(target, list) else ():
        if part.get(key) == value:
            if rest:
                _remove(part, rest)
            if not rest or not part or rest == (("f", key),):
                target.remove(part)


def _tree(paths: set[Path]) -> Document:
    tree: Document = {}
    for path in sorted(paths):
        node = tree
        for kind, name in path:
            node = node.setdefault(f"{kind}:{name}", {})
    return tree


def _paths(tree: Document, before: Path = ()) -> set[Path]:
    found: set[Path] = set()
    for name, inner in tree.items():
        kind, _, rest = name.partition(":")
        path: Path = (*before, (kind, rest))
        found |= _paths(inner, path) if inner else {path}
    return found


def _text(path: Path) -> str:
    parts = []
    for kind, name in path:
        if kind == "f":
            parts.append(f".{name}")
        else:
            ((key, value),) = msgspec.json.decode(name).items()
            parts.append(f"[{key}={msgspec.json.encode(value).decode()}]")
    return "".join(parts)
