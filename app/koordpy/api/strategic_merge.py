"""Strategic merge patch: merging by the merge keys of Kubernetes' types.

The patch format of `kubectl edit` and of client libraries for built-in kinds, and of a
ClusterColocationProfile's `patch`. Lists that have a merge key are merged item by item, directives
(`$patch`, `$retainKeys`, `$setElementOrder/LIST`, `$deleteFromPrimitiveList/LIST`) delete, replace and
order. The rules are those of k8s.io/apimachinery 0.35 (pkg/util/strategicpatch), including what its
edits in place do to the order of lists; `koordpy.api.patch_types` says which list has which key.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from koordpy.api.patch import PatchError, clone, describe
from koordpy.api.patch_types import Field, PatchType, patch_types

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"
SET_ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM_PRIMITIVE_LIST = "$deleteFromPrimitiveList"

Token = tuple[str, Any]
"""A scalar with its JSON type: 1, "1", 1.0 and true are four different merge keys."""


class StrategicMergeError(PatchError):
    """A strategic merge patch that cannot be applied; the message names the place in the document."""

    def __init__(self, message: str, code: int = 500) -> None:
        super().__init__(f"strategic merge patch: {message}", code)


def supports(kind: str) -> bool:
    """Return whether merge keys are known for a kind; kube-apiserver answers 415 for custom resources."""
    return kind in patch_types()


def apply(document: Any, patch: Any, kind: str) -> dict[str, Any]:
    """Return `document`, an object of `kind`, merged with `patch`; the arguments stay as they are.

    A null patch changes nothing. Raises StrategicMergeError: code 415 for a kind without merge keys,
    400 for a malformed patch, 422 and 500 as kube-apiserver has them for what does not fit.
    """
    if not supports(kind):
        raise StrategicMergeError(f"{kind} has no merge keys; use a JSON or a merge patch", 415)
    for name, value in (("document", document), ("patch", patch)):
        if value is not None and not isinstance(value, dict):
            raise StrategicMergeError(f"the {name} must be an object, got {describe(value)}", 400)
    return _merge_object(clone(document or {}), clone(patch or {}), patch_types()[kind], "")


def _merge_object(
    target: dict[str, Any], patch: dict[str, Any], type_: PatchType | None, path: str
) -> dict[str, Any]:
    """Merge `patch` into `target` and return the result. Both are ours to change.

    `type_` is None where the type has no fields: a map with free keys, or a scalar.
    """
    if PATCH in patch:
        return _directed(patch, path)
    _retain_keys(target, patch, path)
    _merge_ordered_lists(target, patch, type_, path)
    for name, value in patch.items():
        deletes = name.startswith(DELETE_FROM_PRIMITIVE_LIST)
        key = _directive_field(name, DELETE_FROM_PRIMITIVE_LIST, path) if deletes else name
        if value is None:
            target.pop(key, None)
        elif key not in target or _json_type(target[key]) != _json_type(value):
            if not deletes:
                _take(target, key, value)
        elif isinstance(value, dict):
            field = _struct_field(type_, key, path)
            if field.is_replaced:
                target[key] = value
            else:
                target[key] = _merge_object(target[key], value, _type_of(field), _join(path, key))
        elif isinstance(value, list):
            field = _list_field(type_, key, path)
            if field.is_merged or deletes:
                target[key], _ = _merge_list(target[key], value, field, deletes, _join(path, key))
            else:
                target[key] = value
        else:
            target[key] = value
    return target


def _directed(patch: dict[str, Any], path: str) -> dict[str, Any]:
    directive = patch[PATCH]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != PATCH}
    if directive == "delete":
        return {}
    raise StrategicMergeError(f"{path or 'the object'}: $patch must be replace or delete, got {directive!r}")


def _retain_keys(target: dict[str, Any], patch: dict[str, Any], path: str) -> None:
    """Carry out `$retainKeys`: drop members of `target` that it does not name."""
    if RETAIN_KEYS not in patch:
        return
    retained = patch.pop(RETAIN_KEYS)
    place = _join(path, RETAIN_KEYS)
    if not isinstance(retained, list):
        raise StrategicMergeError(f"{place} must be a list, got {describe(retained)}", 400)
    names = {name for name in retained if isinstance(name, str)}
    for key, value in patch.items():
        if value is None or key.startswith((DELETE_FROM_PRIMITIVE_LIST, SET_ELEMENT_ORDER)):
            continue
        if key not in names:
            raise StrategicMergeError(f"{place} does not name {key!r}, which the patch sets", 400)
    for key in [key for key in target if key not in names]:
        del target[key]


def _merge_ordered_lists(
    target: dict[str, Any], patch: dict[str, Any], type_: PatchType | None, path: str
) -> None:
    """Carry out each `$setElementOrder/LIST`, and take it and its list out of the patch."""
    for name in [name for name in patch if name.startswith(SET_ELEMENT_ORDER)]:
        order = patch.pop(name)
        if not isinstance(order, list):
            raise StrategicMergeError(f"{_join(path, name)} must be a list, got {describe(order)}")
        key = _directive_field(name, SET_ELEMENT_ORDER, path)
        place = _join(path, key)
        for source in (target, patch):
            if key in source and not isinstance(source[key], list):
                raise StrategicMergeError(f"{place} must be a list, got {describe(source[key])}")
        field = _list_field(type_, key, path)
        current: list[Any] = target.get(key, [])
        wanted: list[Any] = patch.get(key, [])
        _check_order(wanted, order, field.merge_key, place)
        if key not in target and key not in patch:
            continue
        server_order = current
        if key not in patch:
            merged = current
        elif key not in target:
            merged = _without_directives(wanted)
        elif field.is_merged:
            merged, server_order = _merge_list(current, wanted, field, False, place)
        else:
            merged = wanted
        items = _Items(_item_type(current, wanted, place), field.merge_key, place)
        target[key] = items.ordered(merged, order, server_order)
        patch.pop(key, None)


def _check_order(items: list[Any], order: list[Any], merge_key: str, path: str) -> None:
    """Check that the plain items of the patch list stand in the order list, in the same sequence."""
    if not items or not order:
        return
    if merge_key:
        for item in items:
            _object_item(item, path)
        items = [item for item in items if item.get(PATCH) != "delete"]
    at = 0
    for named in order:
        while at < len(items) and isinstance(items[at], dict) and PATCH in items[at]:
            at += 1
        if at == len(items):
            return
        if _merge_token(items[at], merge_key, path) == _merge_token(named, merge_key, path):
            at += 1
    if at < len(items):
        raise StrategicMergeError(
            f"{path}: the items of the patch are not in the order of {SET_ELEMENT_ORDER}"
        )


def _merge_list(
    current: list[Any], patch: list[Any], field: Field, deletes: bool, path: str
) -> tuple[list[Any], list[Any]]:
    """Merge two lists. Returns the result and `current` as Go's edits in place leave it.

    The latter is what a `$setElementOrder` takes for the list's own order: deleting moves items to the
    left and leaves the end as it was, and appending then overwrites what was left there.
    """
    if not current and not patch:
        return current, current
    items = _Items(_item_type(current, patch, path), field.merge_key, path)
    if not items.are_objects:
        if deletes:
            unwanted = set(map(_token, patch))
            return [item for item in current if _token(item) not in unwanted], current
        merged = _without_duplicates(current + patch)
        return items.ordered(merged, patch, current), current
    if not field.merge_key:
        raise StrategicMergeError(f"{path}: the list has no merge key")
    kept, plain, cells = _carry_out_item_directives(current, patch, field.merge_key, path)
    merged = list(kept)
    added = 0
    for item in plain:
        token = _merge_token(item, field.merge_key, path)
        index = _index_of(merged, field.merge_key, token)
        if index is not None:
            place = f"{path}[{field.merge_key}={token[1]}]"
            merged[index] = _merge_object(merged[index], item, _type_of(field), place)
            continue
        merged.append(item)
        if len(kept) + added < len(cells):
            cells[len(kept) + added] = item
        added += 1
    return items.ordered(merged, plain, kept), cells


def _carry_out_item_directives(
    current: list[Any], patch: list[Any], merge_key: str, path: str
) -> tuple[list[Any], list[Any], list[Any]]:
    """Carry out `$patch` in list items; return the items kept, the plain patch items, Go's cells.

    See `_merge_list` for the cells.
    """
    cells = list(current)
    length = len(cells)
    plain: list[Any] = []
    replaces = False
    for item in patch:
        if PATCH not in item:
            plain.append(item)
            continue
        directive = item[PATCH]
        if directive == "delete":
            token = _merge_token(item, merge_key, path)
            while (index := _index_of(cells[:length], merge_key, token)) is not None:
                cells[index : length - 1] = cells[index + 1 : length]
                length -= 1
        elif directive == "replace":
            replaces = True
        else:
            raise StrategicMergeError(
                f"{path}: $patch of an item must be delete or replace, got {directive!r}"
            )
    if replaces:
        return plain, [], cells
    return cells[:length], plain, cells


class _Items:
    """The items of one merged list: how they are told apart, and the order they end up in."""

    def __init__(self, item_type: str, merge_key: str, path: str) -> None:
        self.are_objects = item_type == "object"
        self._merge_key = merge_key
        self._path = path

    def ordered(self, merged: list[Any], patch_order: list[Any], server_order: list[Any]) -> list[Any]:
        """Interleave items named in `patch_order`, in that order, with the others, in `server_order`.

        One of the others goes first only where both stand in `server_order`, and it stands before.
        """
        named = set(map(self._partition_token, patch_order))
        wanted: list[Any] = []
        others: list[Any] = []
        for item in merged:
            (wanted if self._partition_token(item) in named else others).append(item)
        wanted = self._sorted(wanted, patch_order)
        others = self._sorted(others, server_order)
        position = self._positions(server_order)
        result: list[Any] = []
        left = right = 0
        while left < len(others) and right < len(wanted):
            other = position.get(self._token(others[left]))
            item = position.get(self._token(wanted[right]))
            if other is not None and item is not None and other < item:
                result.append(others[left])
                left += 1
            else:
                result.append(wanted[right])
                right += 1
        return result + others[left:] + wanted[right:]

    def _sorted(self, items: list[Any], order: list[Any]) -> list[Any]:
        to_delete: list[Any] = []
        if self.are_objects:
            for item in (*items, *order):
                _merge_token(item, self._merge_key, self._path)
            to_delete = [item for item in items if item.get(PATCH) == "delete"]
            items = [item for item in items if item.get(PATCH) != "delete"]
        position = self._positions(order)
        places = [position.get(self._token(item)) for item in items]
        return [items[index] for index in _go_stable_order(places)] + to_delete

    def _positions(self, order: list[Any]) -> dict[Token, int]:
        positions: dict[Token, int] = {}
        for index, item in enumerate(order):
            positions.setdefault(self._token(item), index)
        return positions

    def _token(self, item: Any) -> Token:
        """What tells an item from others while ordering; here a scalar among objects has the key null."""
        if self.are_objects:
            return _token(item.get(self._merge_key)) if isinstance(item, dict) else ("null", None)
        return _token(item)

    def _partition_token(self, item: Any) -> Token:
        return _merge_token(item, self._merge_key, self._path) if self._merge_key else _token(item)


def _go_stable_order(places: Sequence[int | None]) -> list[int]:
    """Return the indexes in the order in which Go's stable sort leaves items with these places.

    An item without a place counts as less than any other, and any other as less than it. That is no
    order, so what comes out is that of the insertion sort which Go uses for short lists.
    """
    indexes = list(range(len(places)))
    if None not in places:
        return sorted(indexes, key=lambda index: places[index] or 0)
    for end in range(1, len(indexes)):
        at = end
        while at > 0 and _goes_first(places[indexes[at]], places[indexes[at - 1]]):
            indexes[at], indexes[at - 1] = indexes[at - 1], indexes[at]
            at -= 1
    return indexes


def _goes_first(place: int | None, other: int | None) -> bool:
    return place is None or other is None or place < other


def _without_duplicates(items: list[Any]) -> list[Any]:
    """Drop repeated scalars as Go does: the last item takes the place of a repeated one."""
    items = list(items)
    at = 0
    while at < len(items):
        token = _token(items[at])
        other = at + 1
        while other < len(items):
            if _token(items[other]) == token:
                items[other] = items[-1]
                items.pop()
            else:
                other += 1
        at += 1
    return items


def _take(target: dict[str, Any], key: str, value: Any) -> None:
    """Put a value where the document has none, or one of another type: no nulls, no directives."""
    value = _without_nulls(value)
    if isinstance(value, dict) and PATCH in value:
        target.pop(key, None)
    else:
        target[key] = _without_directives(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _without_directives(value: Any) -> Any:
    """Drop objects that hold `$patch`; other directives stay where they are, as members."""

    def stays(item: Any) -> bool:
        return not (isinstance(item, dict) and PATCH in item)

    if isinstance(value, dict):
        return {key: _without_directives(item) for key, item in value.items() if stays(item)}
    if isinstance(value, list):
        return [_without_directives(item) for item in value if stays(item)]
    return value


def _directive_field(name: str, directive: str, path: str) -> str:
    head, slash, field = name.partition("/")
    if not slash or head != directive:
        raise StrategicMergeError(f"{_join(path, name)}: expected {directive}/LIST", 400)
    return field


def _struct_field(type_: PatchType | None, name: str, path: str) -> Field:
    if type_ is None:
        raise StrategicMergeError(f"{_join(path, name)}: {path or 'the object'} has no fields to merge")
    field = type_.field(name)
    if field is None:
        raise StrategicMergeError(f"{_join(path, name)}: {type_.name} has no such field")
    return field


def _list_field(type_: PatchType | None, name: str, path: str) -> Field:
    field = _struct_field(type_, name, path)
    if not field.is_list and not field.may_be_unset:
        raise StrategicMergeError(f"{_join(path, name)} is not a list")
    return field


def _type_of(field: Field) -> PatchType | None:
    return patch_types()[field.type] if field.type else None


def _item_type(current: list[Any], patch: list[Any], path: str) -> str:
    """Return the one JSON type of all items; an error where there are several, none, or lists."""
    types = [_json_type(item) for item in (*current, *patch)]
    if not types:
        raise StrategicMergeError(f"{path}: there are no items to order")
    if types[0] == "list":
        raise StrategicMergeError(f"{path}: a list of lists cannot be merged", 422)
    if len(set(types)) > 1 or types[0] == "null":
        raise StrategicMergeError(
            f"{path}: the items must be of one type, got {', '.join(sorted(set(types)))}"
        )
    return types[0]


def _json_type(value: Any) -> str:
    """Name the type that Go decodes a JSON value into; integers beyond 64 bits become fractions."""
    reader = _JSON_TYPES.get(type(value))
    return reader(value) if reader else "null"


_JSON_TYPES: dict[type, Callable[[Any], str]] = {
    dict: lambda value: "object",
    list: lambda value: "list",
    str: lambda value: "string",
    bool: lambda value: "boolean",
    int: lambda value: "integer" if -(1 << 63) <= value < 1 << 63 else "fraction",
    float: lambda value: "fraction",
    Decimal: lambda value: "fraction",
}


def _token(value: Any) -> Token:
    """Return what a value is compared by. Objects and lists equal nothing, not even themselves."""
    type_ = _json_type(value)
    if type_ in ("object", "list"):
        return type_, object()
    return type_, float(value) if type_ == "fraction" else value


def _merge_token(item: Any, merge_key: str, path: str) -> Token:
    """Return what an item of a list is merged by: its merge key, or itself in a list of scalars."""
    if not merge_key:
        return _token(item)
    _object_item(item, path)
    if merge_key not in item:
        raise StrategicMergeError(f"{path}: an item lacks its merge key {merge_key!r}")
    return _token(item[merge_key])


def _object_item(item: Any, path: str) -> None:
    if not isinstance(item, dict):
        raise StrategicMergeError(f"{path}: every item must be an object, got {describe(item)}")


def _index_of(items: list[Any], merge_key: str, token: Token) -> int | None:
    for index, item in enumerate(items):
        if merge_key in item and _token(item[merge_key]) == token:
            return index
    return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
