"""Errors of single fields, in Kubernetes' words: `PATH: Invalid value: VALUE: DETAIL`.

Validation collects errors instead of stopping at the first; `aggregate` joins them into one message.
Source of the texts: Kubernetes, `k8s.io/apimachinery/pkg/util/validation/field` and `pkg/util/errors`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field, with its path. An empty path is the whole document."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text

    def under(self, parent: str) -> "FieldError":
        """Return the same error with a longer path."""
        return FieldError(".".join(filter(None, (parent, self.path))), self.text)


def required(path: str, detail: str = "") -> FieldError:
    """Report a field that must be set."""
    return FieldError(path, f"Required value: {detail}" if detail else "Required value")


def forbidden(path: str, detail: str) -> FieldError:
    """Report a field that must not be set, or not to this value."""
    return FieldError(path, f"Forbidden: {detail}")


def invalid(path: str, value: object, detail: str) -> FieldError:
    """Report a value that is not allowed."""
    return FieldError(path, f"Invalid value: {shown(value)}: {detail}")


def invalid_object(path: str, value: object, detail: str) -> FieldError:
    """Report an object or a list that is not allowed, in JSON without spaces, as Go prints it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return FieldError(path, f"Invalid value: {text}: {detail}")


def duplicate(path: str, value: object) -> FieldError:
    """Report a value that must be unique."""
    return FieldError(path, f"Duplicate value: {shown(value)}")


def not_found(path: str, value: object) -> FieldError:
    """Report a reference to something that does not exist."""
    return FieldError(path, f"Not found: {shown(value)}")


def not_supported(path: str, value: object, supported: Sequence[str]) -> FieldError:
    """Report a value that is not in a list."""
    listed = ", ".join(map(shown, supported))
    return FieldError(path, f"Unsupported value: {shown(value)}: supported values: {listed}")


def aggregate(errors: Iterable[object]) -> str:
    """Join messages: a single one as it is, several as `[a, b]`, each text once."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def shown(value: object) -> str:
    """Return a value as JSON; whole numbers are without a fraction, as Go prints them."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str)
