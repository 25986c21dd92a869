"""The base of configuration models: strict as Koordinator's decoding is, with Go's spelling of values.

Unknown fields and values of another type are refused; null is the same as absent.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, PlainValidator, ValidationError
from pydantic.alias_generators import to_camel

from koordpy.api import label_selector
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.meta import LabelSelector
from koordpy.api.scheme import without_nulls
from koordpy.lib import duration

API_VERSION = "descheduler/v1alpha2"

M = TypeVar("M", bound=BaseModel)


class ConfigError(ValueError):
    """A configuration cannot be used; the message names every path, the value there and what was expected."""


class ConfigModel(BaseModel):
    """A part of the configuration: camelCase names, no unknown fields, no type coercion."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        arbitrary_types_allowed=True,
        extra="forbid",
        strict=True,
        validate_by_alias=True,
        validate_by_name=True,
    )


class PluginArgs(ConfigModel):
    """Arguments of a plugin. Decoding checks names and types; a plugin's constructor checks the values."""

    def adapt_to_interval(self, interval: int) -> None:
        """Adjust what depends on the time between two cycles (nanoseconds, more than 0)."""


def _read_duration(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError("expected a duration text, such as 90s or 1h30m")
    return duration.parse(value)


Duration = Annotated[int, BeforeValidator(_read_duration), PlainSerializer(duration.format)]
"""Nanoseconds, written as Go text (`1m30s`)."""


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
    """Return what is wrong with a selector; None is fine."""
    if selector is None:
        return []
    try:
        label_selector.of(selector)
    except label_selector.SelectorError as error:
        return [invalid(path, msgspec.to_builtins(selector), str(error))]
    return []


def decode(model: type[M], document: object, where: str) -> M:
    """Read a model from a decoded document; raise ConfigError listing every problem under `where`."""
    try:
        return model.model_validate(without_nulls(document), by_alias=True, by_name=False)
    except ValidationError as error:
        problems = [_problem(where, item) for item in error.errors(include_url=False)]
        raise ConfigError("; ".join(problems)) from None


def _problem(where: str, item: Any) -> str:
    path = where
    for part in item["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    if item["type"] == "extra_forbidden":
        return f"{path}: unknown field"
    message = item["msg"].removeprefix("Value error, ")
    return f"{path}: {item['input']!r}: {message}" if item["type"] != "missing" else f"{path}: {message}"
