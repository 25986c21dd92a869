"""Why a schema is not valid for a CustomResourceDefinition."""

from collections.abc import Iterator, Mapping
from typing import Any

from .errors import FieldError, SchemaError, show
from .form import TYPES, check_types
from .schema import Schema


def problems(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield why a schema is not structural, has a default that it does not accept, or is not supported."""
    try:
        check_types(schema, path)
    except SchemaError as error:
        yield FieldError(path, "FieldValueTypeInvalid", f'Invalid value: "": {error}')
        return
    yield from _problems(schema, path, is_root=True)


def _problems(schema: Mapping[str, Any], path: str, is_root: bool = False) -> Iterator[FieldError]:
    type_ = schema.get("type")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not type_:
        if not free or is_root:
            told = (
                "must not be empty at the root"
                if is_root
                else "must not be empty for specified object fields"
            )
            yield FieldError(f"{path}.type", "FieldValueRequired", f"Required value: {told}")
    elif type_ not in TYPES:
        listed = ", ".join(f'"{name}"' for name in sorted(TYPES))
        told = f"Unsupported value: {show(type_)}: supported values: {listed}"
        yield FieldError(f"{path}.type", "FieldValueNotSupported", told)
        return
    elif is_root and type_ != "object":
        told = f"Invalid value: {show(type_)}: must be object at the root"
        yield FieldError(f"{path}.type", "FieldValueInvalid", told)
    if schema.get("x-kubernetes-validations"):
        told = "Invalid value: rules in CEL cannot be evaluated by this server"
        yield FieldError(f"{path}.x-kubernetes-validations", "FieldValueInvalid", told)
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), Mapping):
        told = "Forbidden: additionalProperties and properties are mutual exclusive"
        yield FieldError(f"{path}.additionalProperties", "FieldValueForbidden", told)
    if schema.get("uniqueItems"):
        told = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError(f"{path}.uniqueItems", "FieldValueForbidden", told)
    for name, part in (schema.get("properties") or {}).items():
        yield from _problems(part, f"{path}.properties[{name}]")
    if isinstance(items := schema.get("items"), Mapping):
        yield from _problems(items, f"{path}.items")
    elif type_ == "array":
        yield FieldError(f"{path}.items", "FieldValueRequired", "Required value: must be specified")
    if isinstance(additional := schema.get("additionalProperties"), Mapping):
        yield from _problems(additional, f"{path}.additionalProperties")
    if "default" in schema and type_:
        try:
            read = Schema(schema, path)
        except SchemaError as error:
            yield FieldError(path, "FieldValueInvalid", f"Invalid value: {error}")
            return
        yield from read.validate(schema["default"], f"{path}.default")
