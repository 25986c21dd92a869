"""Configurations as documents again, as Kubernetes' components write theirs: empty fields are left out.

Source of what counts as empty: Go, `encoding/json` (`omitempty`).
"""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class Written:
    """Says, by `Annotated`, whether a field that is false, 0 or empty is written."""

    empty: bool


def written(model: BaseModel) -> dict[str, Any]:
    """Return a model as a document: no nulls, and neither empty texts nor empty lists and maps.

    False and 0 are written unless the field is marked with `Written(empty=False)`; empty lists and maps are
    written if it is marked with `Written(empty=True)`.
    """
    document: dict[str, Any] = _document(model, model.model_dump(by_alias=True, exclude_none=True))
    return document


def _document(value: object, dumped: Any) -> Any:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields.items()
        return {
            field.alias or name: _document(getattr(value, name), dumped[field.alias or name])
            for name, field in fields
            if (field.alias or name) in dumped and not _is_left_out(getattr(value, name), field)
        }
    if isinstance(value, list):
        return [_document(item, other) for item, other in zip(value, dumped, strict=True)]
    if isinstance(value, dict):
        return {key: _document(item, dumped[key]) for key, item in value.items()}
    return int(dumped) if isinstance(dumped, float) and dumped.is_integer() else dumped


def _is_left_out(value: object, field: FieldInfo) -> bool:
    mark = next((item for item in field.metadata if isinstance(item, Written)), None)
    if mark is not None:
        return not mark.empty and not value
    return isinstance(value, str | list | dict) and not value
