"""Wrong fields of objects, as kube-apiserver reports them: the causes of an Invalid status.

Source of the texts: Kubernetes, `k8s.io/apimachinery/pkg/util/validation/field`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One wrong field: `reason` is `FieldValueRequired` and the like, `message` what kubectl prints."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def show(value: Any) -> str:
    """Print a value as field errors do: text quoted, documents as JSON."""
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """A value that breaks a rule."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {show(value)}: {detail}")


def required(field: str, detail: str = "") -> Cause:
    """A required field that is missing."""
    return Cause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def unsupported(field: str, value: Any, supported: Sequence[str]) -> Cause:
    """A value outside a closed set."""
    listed = ", ".join(f'"{item}"' for item in supported)
    return Cause(
        field, "FieldValueNotSupported", f"Unsupported value: {show(value)}: supported values: {listed}"
    )


def duplicate(field: str, value: Any) -> Cause:
    """A value that must be unique."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def forbidden_field(field: str, detail: str) -> Cause:
    """A field that must not be set, or not be changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> Cause:
    """Text that is longer than `limit` bytes."""
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")
