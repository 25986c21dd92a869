"""The JSON types of schemas themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import SchemaError

TYPES = frozenset(("object", "array", "string", "integer", "number", "boolean"))
"""The types that a schema may name."""


class _Form(msgspec.Struct, rename="camel"):
    """The JSON types of a schema's fields."""

    type: str | None = None
    format: str | None = None
    pattern: str | None = None
    enum: list[Any] | None = None
    properties: dict[str, _Form] | None = None
    items: _Form | None = None
    additional_properties: _Form | bool | None = None
    required: list[str] | None = None
    nullable: bool | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: list[_Form] | None = None
    any_of: list[_Form] | None = None
    one_of: list[_Form] | None = None
    not_: _Form | None = msgspec.field(default=None, name="not")
    preserve: bool | None = msgspec.field(default=None, name="x-kubernetes-preserve-unknown-fields")
    int_or_string: bool | None = msgspec.field(default=None, name="x-kubernetes-int-or-string")
    resource: bool | None = msgspec.field(default=None, name="x-kubernetes-embedded-resource")
    list_type: str | None = msgspec.field(default=None, name="x-kubernetes-list-type")
    list_keys: list[str] | None = msgspec.field(default=None, name="x-kubernetes-list-map-keys")


def check_types(schema: Any, path: str) -> None:
    """Raise SchemaError if a field of a schema has a wrong type."""
    try:
        msgspec.convert(schema, _Form)
    except msgspec.ValidationError as error:
        raise SchemaError(f"{path}: {error}") from None
