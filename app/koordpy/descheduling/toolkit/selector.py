"""Label selectors in configuration files."""

from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetPydanticSchema, PlainSerializer, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

from koordpy.api import selector_errors as kubernetes
from koordpy.api.config_model import ConfigModel
from koordpy.api.field_error import FieldError, invalid_object
from koordpy.api.meta import LabelSelector, LabelSelectorRequirement


class _Requirement(ConfigModel):
    """A `metav1.LabelSelectorRequirement`."""

    key: str = ""
    operator: str = ""
    values: list[str] = []


class _Selector(ConfigModel):
    """A `metav1.LabelSelector`, decoded strictly."""

    match_labels: dict[str, str] = {}
    match_expressions: list[_Requirement] = []


def _read_selector(value: object, read: ValidatorFunctionWrapHandler) -> LabelSelector:
    if isinstance(value, LabelSelector):
        return value
    form: _Selector = read(value)
    return LabelSelector(
        match_labels=form.match_labels,
        match_expressions=[
            LabelSelectorRequirement(key=item.key, operator=item.operator, values=item.values)
            for item in form.match_expressions
        ],
    )


def _schema(_: object, handler: GetCoreSchemaHandler) -> CoreSchema:
    return core_schema.no_info_wrap_validator_function(_read_selector, handler.generate_schema(_Selector))


def written(selector: LabelSelector) -> dict[str, Any]:
    """Return a selector as Kubernetes writes it: without empty lists and maps."""
    document: dict[str, Any] = {}
    if selector.match_labels:
        document["matchLabels"] = dict(sorted(selector.match_labels.items()))
    if selector.match_expressions:
        document["matchExpressions"] = [
            {"key": item.key, "operator": item.operator} | ({"values": item.values} if item.values else {})
            for item in selector.match_expressions
        ]
    return document


Selector = Annotated[LabelSelector, GetPydanticSchema(_schema), PlainSerializer(written)]
"""A `metav1.LabelSelector`; whether its operators and keys are valid is checked by `selector_errors`."""


def selector_errors(path: str, selector: LabelSelector | None, value: object = None) -> list[FieldError]:
    """Return the error in a selector; None is valid.

    `value` is what the error shows as the invalid value, as Go writes it; by default the selector.
    """
    reason = "" if selector is None else kubernetes.reason(selector)
    if selector is None or not reason:
        return []
    return [invalid_object(path, written(selector) if value is None else value, reason)]
