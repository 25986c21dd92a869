"""The values that a profile writes to pods, as far as the profile alone determines them.

A place is a path such as `metadata.labels[app]` or `spec.containers[name=main].image`. A value that depends
on the pod (a copied label) is represented by a description, so two profiles that copy the same label agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from koordpy.api import extension
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.patch_types import Field, PatchType, patch_types

POD: Final = "Pod"


@dataclass(frozen=True)
class Write:
    """A value that a profile's field writes to a place in the pod; None removes the present value."""

    place: str
    value: Any
    field: str


def writes(spec: ClusterColocationProfile.Spec) -> Iterator[Write]:
    """Yield what a profile writes, in order, except suffixes."""
    for key, value in spec.labels.items():
        yield Write(_label(key), value, f"spec.labels[{key}]")
    for key, value in spec.annotations.items():
        yield Write(_annotation(key), value, f"spec.annotations[{key}]")
    for old, new in sorted(spec.label_keys_mapping.items()):
        yield Write(_label(new), f"(the value of label {old})", f"spec.labelKeysMapping[{old}]")
    for old, new in sorted(spec.annotation_keys_mapping.items()):
        value = f"(the value of annotation {old})"
        yield Write(_annotation(new), value, f"spec.annotationKeysMapping[{old}]")
    if spec.scheduler_name:
        yield Write("spec.schedulerName", spec.scheduler_name, "spec.schedulerName")
    if spec.qos_class:
        yield Write(_label(extension.LABEL_POD_QOS), spec.qos_class, "spec.qosClass")
    if spec.priority_class_name:
        yield Write("spec.priorityClassName", spec.priority_class_name, "spec.priorityClassName")
    if spec.koordinator_priority is not None:
        value = str(spec.koordinator_priority)
        yield Write(_label(extension.LABEL_POD_PRIORITY), value, "spec.koordinatorPriority")
    if isinstance(spec.patch, dict):
        for place, value in leaves(spec.patch):
            yield Write(place, value, f"spec.patch.{place}")


def suffixed(spec: ClusterColocationProfile.Spec) -> dict[str, str]:
    """Return the suffixes by the path to which they are appended."""
    return {_label(key): suffix for key, suffix in spec.label_suffixes.items() if suffix}


def leaves(patch: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a strategic merge patch by path. A list without a merge key is one value."""
    yield from _object_leaves(patch, patch_types()[POD], "")


def unknown_fields(patch: dict[str, Any]) -> Iterator[str]:
    """Yield the paths of a patch's fields that pods do not have."""
    yield from _unknown(patch, patch_types()[POD], "")


def _label(key: str) -> str:
    return f"metadata.labels[{key}]"


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"


def _object_leaves(value: dict[str, Any], type_: PatchType | None, path: str) -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if name.startswith("$"):
            continue
        field = type_.field(name) if type_ is not None else None
        if type_ is None:
            place = f"{path}[{name}]"
        else:
            place = f"{path}.{field.name if field is not None else name}".removeprefix(".")
        yield from _leaves(item, field, place)


def _leaves(value: Any, field: Field | None, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        type_ = patch_types()[field.type] if field is not None and field.type else None
        yield from _object_leaves(value, type_, place)
    elif isinstance(value, list) and field is not None and field.merge_key and _are_keyed(value, field):
        for item in value:
            rest = {name: inner for name, inner in item.items() if name != field.merge_key}
            at = f"{place}[{field.merge_key}={item[field.merge_key]}]"
            yield from _object_leaves(rest, patch_types()[field.type], at)
    else:
        yield place, value


def _are_keyed(items: list[Any], field: Field) -> bool:
    return bool(field.type) and all(isinstance(item, dict) and field.merge_key in item for item in items)


def _unknown(value: dict[str, Any], type_: PatchType, path: str) -> Iterator[str]:
    for name, item in value.items():
        if name.startswith("$"):
            continue
        place = f"{path}.{name}".removeprefix(".")
        field = type_.field(name)
        if field is None:
            yield place
        elif field.type:
            inner = patch_types()[field.type]
            if isinstance(item, dict):
                yield from _unknown(item, inner, place)
            for position, element in enumerate(item if isinstance(item, list) else ()):
                if isinstance(element, dict):
                    yield from _unknown(element, inner, f"{place}[{position}]")
