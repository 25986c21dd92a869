"""Strategic merge patch: merging by the merge keys of Kubernetes' types.

The patch format of `kubectl edit` and of client libraries for built-in kinds, and of a
ClusterColocationProfile's `patch`. Lists that have a merge key are merged item by item, directives
(`$patch`, `$retainKeys`, `$setElementOrder/LIST`, `$deleteFromPrimitiveList/LIST`) delete, replace and
order. The rules are those of k8s.io/apimachinery 0.35 (pkg/util/strategicpatch), including what its
edits in place do to the order of lists; `koordpy.api.patch_types` has the merge key of each list.
"""

from typing import Any

from koordpy.api.merge_items import (
    PATCH,
    Items,
    StrategicMergeError,
    check_work,
    first_indexes,
    index_of,
    item_type,
    json_type,
    merge_token,
    object_item,
    token_of,
    without_duplicates,
)
from koordpy.api.patch import clone, describe
from koordpy.api.patch_types import Field, PatchType, patch_types

__all__ = ["StrategicMergeError", "apply", "overlay", "supports"]

RETAIN_KEYS = "$retainKeys"
SET_ELEMENT_ORDER = "$setElementOrder"
DELETE_FROM_PRIMITIVE_LIST = "$deleteFromPrimitiveList"


def supports(kind: str) -> bool:
    """Return whether merge keys are known for a kind; kube-apiserver answers 415 for custom resources."""
    return kind in patch_types()


def apply(document: Any, patch: Any, kind: str) -> dict[str, Any]:
    """Return `document`, an object of `kind`, merged with `patch`; the arguments stay as they are.

    A null patch changes nothing. Raises StrategicMergeError: code 415 for a kind without merge keys,
    400 for a malformed patch, 422 and 500 as in kube-apiserver for patches that do not apply.
    """
    return clone(overlay(document, patch, kind))  # type: ignore[no-any-return]


def overlay(document: Any, patch: Any, kind: str) -> dict[str, Any]:
    """Do the same as `apply`, but share unchanged objects and lists with `document`."""
    if not supports(kind):
        raise StrategicMergeError(f"{kind} has no merge keys; use a JSON or a merge patch", 415)
    for name, value in (("document", document), ("patch", patch)):
        if value is not None and not isinstance(value, dict):
            raise StrategicMergeError(f"the {name} must be an object, got {describe(value)}", 400)
    try:
        return _merge_object(document or {}, clone(patch or {}), patch_types()[kind], "")
    except RecursionError:
        raise StrategicMergeError("values are nested too deeply", 400) from None


def _merge_object(
    target: dict[str, Any], patch: dict[str, Any], type_: PatchType | None, path: str
) -> dict[str, Any]:
    """Return `target` merged with `patch`. The patch may be modified, the target must not.

    `type_` is None if the type has no fields: a map with free keys, or a scalar.
    """
    if PATCH in patch:
        return _directed(patch, path)
    target = dict(target)
    _retain_keys(target, patch, path)
    _merge_ordered_lists(target, patch, type_, path)
    for name, value in patch.items():
        deletes = name.startswith(DELETE_FROM_PRIMITIVE_LIST)
        key = _directive_field(name, DELETE_FROM_PRIMITIVE_LIST, path) if deletes else name
        if value is None:
            target.pop(key, None)
        elif key not in target or json_type(target[key]) != json_type(value):
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
    """Apply `$retainKeys`: drop members of `target` that it does not name."""
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
    """Apply each `$setElementOrder/LIST`, and remove it and its list from the patch."""
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
        items = Items(item_type(current, wanted, place), field.merge_key, place)
        target[key] = items.ordered(merged, order, server_order)
        patch.pop(key, None)


def _check_order(items: list[Any], order: list[Any], merge_key: str, path: str) -> None:
    """Check that the plain items of the patch list are in the order list, in the same sequence."""
    if not items or not order:
        return
    if merge_key:
        for item in items:
            object_item(item, path)
        items = [item for item in items if item.get(PATCH) != "delete"]
    at = 0
    for named in order:
        while at < len(items) and isinstance(items[at], dict) and PATCH in items[at]:
            at += 1
        if at == len(items):
            return
        if merge_token(items[at], merge_key, path) == merge_token(named, merge_key, path):
            at += 1
    if at < len(items):
        raise StrategicMergeError(
            f"{path}: the items of the patch are not in the order of {SET_ELEMENT_ORDER}"
        )


def _merge_list(
    current: list[Any], patch: list[Any], field: Field, deletes: bool, path: str
) -> tuple[list[Any], list[Any]]:
    """Merge two lists. Returns the result and `current` as Go's edits in place leave it.

    `$setElementOrder` uses the latter as the list's own order: deleting shifts items to the left and leaves
    the end unchanged, and appending then overwrites what is left there.
    """
    if not current and not patch:
        return current, current
    items = Items(item_type(current, patch, path), field.merge_key, path)
    if not items.are_objects:
        if deletes:
            unwanted = set(map(token_of, patch))
            return [item for item in current if token_of(item) not in unwanted], current
        merged = without_duplicates(current + patch)
        return items.ordered(merged, patch, current), current
    if not field.merge_key:
        raise StrategicMergeError(f"{path}: the list has no merge key")
    kept, plain, cells = _carry_out_item_directives(current, patch, field.merge_key, path)
    merged = list(kept)
    added = 0
    places = first_indexes(merged, field.merge_key)
    for item in plain:
        token = merge_token(item, field.merge_key, path)
        index = places.get(token)
        if index is not None:
            place = f"{path}[{field.merge_key}={token[1]}]"
            merged[index] = _merge_object(merged[index], item, _type_of(field), place)
            continue
        places[token] = len(merged)
        merged.append(item)
        if len(kept) + added < len(cells):
            cells[len(kept) + added] = item
        added += 1
    return items.ordered(merged, plain, kept), cells


def _carry_out_item_directives(
    current: list[Any], patch: list[Any], merge_key: str, path: str
) -> tuple[list[Any], list[Any], list[Any]]:
    """Apply `$patch` in list items; return the items kept, the plain patch items, Go's cells.

    See `_merge_list` for the cells.
    """
    cells = list(current)
    length = len(cells)
    plain: list[Any] = []
    replaces = False
    deletions = sum(1 for item in patch if PATCH in item)
    check_work(deletions * len(current), path)
    for item in patch:
        if PATCH not in item:
            plain.append(item)
            continue
        directive = item[PATCH]
        if directive == "delete":
            token = merge_token(item, merge_key, path)
            while (index := index_of(cells[:length], merge_key, token)) is not None:
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


def _take(target: dict[str, Any], key: str, value: Any) -> None:
    """Return a value to set where the document has none, or one of another type: no nulls, no directives."""
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


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
