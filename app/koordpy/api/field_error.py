"""What is wrong with one field, worded as Kubernetes words it: `PATH: Invalid value: VALUE: DETAIL`.

Validation collects errors instead of stopping at the first; `aggregate` joins them into one message.
Source of the texts: Kubernetes, `k8s.io/apimachinery/pkg/util/validation/field` and `pkg/util/errors`.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Problem(StrEnum):
    """In which way a field is wrong."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    DUPLICATE = "Duplicate value"


@dataclass(frozen=True)
class FieldError:
    """One wrong field. `value` does not show for a required field."""

    path: str
    problem: Problem
    value: object = None
    detail: str = ""

    def __str__(self) -> str:
        parts = [self.path, str(self.problem)]
        if self.problem is not Problem.REQUIRED:
            parts.append(_shown(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


def required(path: str, detail: str = "") -> FieldError:
    """Report a field that must be set."""
    return FieldError(path, Problem.REQUIRED, None, detail)


def invalid(path: str, value: object, detail: str) -> FieldError:
    """Report a value that is not allowed."""
    return FieldError(path, Problem.INVALID, value, detail)


def duplicate(path: str, value: object) -> FieldError:
    """Report a value that may be there only once."""
    return FieldError(path, Problem.DUPLICATE, value)


def aggregate(errors: Iterable[object]) -> str:
    """Join messages: a single one as it is, several as `[a, b]`, each text once."""
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _shown(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, default=str)
