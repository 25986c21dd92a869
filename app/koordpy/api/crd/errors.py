"""Errors in a document or a schema, in Kubernetes' words."""

import json
from dataclasses import dataclass
from typing import Any


class SchemaError(ValueError):
    """A schema cannot be read; the message names the place and what was expected."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field that breaks the schema: its path, Kubernetes' name of the reason, and what kubectl prints."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names[type(value)]


def show(value: Any) -> str:
    """Return a value as shown in messages."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def type_error(path: str, wanted: str, value: Any) -> FieldError:
    """Report a value of a wrong type."""
    found = show(_type_name(value))
    place = path or '""'
    told = f"Invalid value: {found}: {place} in body must be of type {wanted}: {found}"
    return FieldError(path or "<nil>", "FieldValueTypeInvalid", told)


def unsupported(path: str, value: Any, values: list[Any]) -> FieldError:
    """Report a value that is not one of the allowed ones."""
    listed = ", ".join(show(item) if isinstance(item, str) else f'"{show(item)}"' for item in values)
    return FieldError(
        path, "FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {listed}"
    )


def broken(path: str, value: Any, told: str) -> FieldError:
    """Report the rule that a value breaks."""
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {show(value)}: {path} in body {told}")


def logic(path: str, told: str) -> FieldError:
    """Report the combination of schemas that a value breaks."""
    return FieldError(path or "<nil>", "FieldValueInvalid", f'Invalid value: "": "{path}" {told}')
