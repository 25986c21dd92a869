"""Label selectors in configuration files."""

from typing import Annotated

import msgspec
from pydantic import PlainSerializer, PlainValidator

from koordpy.api import label_selector
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.meta import LabelSelector


def _read_selector(value: object) -> LabelSelector:
    if isinstance(value, LabelSelector):
        return value
    if not isinstance(value, dict):
        raise ValueError("expected a label selector with matchLabels and matchExpressions")
    for name in value.keys() - {"matchLabels", "matchExpressions"}:
        raise ValueError(f"unknown field {name!r}; expected matchLabels or matchExpressions")
    try:
        selector = msgspec.convert(value, LabelSelector)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    for expression in value.get("matchExpressions", []):
        for name in expression.keys() - {"key", "operator", "values"}:
            raise ValueError(f"unknown field {name!r} in matchExpressions; expected key, operator or values")
    return selector


Selector = Annotated[
    LabelSelector,
    PlainValidator(_read_selector),
    PlainSerializer(lambda selector: msgspec.to_builtins(selector)),
]
"""A `metav1.LabelSelector`; whether its operators and keys are valid is checked by `selector_errors`."""


def selector_errors(path: str, selector: LabelSelector | None) -> list[FieldError]:
    """Return the errors in a selector; None is valid."""
    if selector is None:
        return []
    try:
        label_selector.of(selector)
    except label_selector.SelectorError as error:
        return [invalid(path, msgspec.to_builtins(selector), str(error))]
    return []
