"""The base of every configuration: strict models whose errors name path, value and expectation.

Names are camelCase, unknown fields and wrong types are rejected as by Kubernetes' strict decoding, and null
means absent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from koordpy.lib import duration

from .field_error import FieldError, required, shown
from .scheme import without_nulls

M = TypeVar("M", bound=BaseModel)

_LONGEST_VALUE = 120


class ConfigError(ValueError):
    """An invalid configuration; `problems` has one line for each error, with its path."""

    def __init__(self, *problems: object) -> None:
        self.problems = tuple(map(str, problems))
        super().__init__("; ".join(self.problems))

    def under(self, place: object) -> Self:
        """Return the same error with a place (a file, say) in front of every line."""
        return type(self)(*(f"{place}: {problem}" for problem in self.problems))


class ConfigModel(BaseModel):
    """A part of a configuration."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True
    )


@dataclass(frozen=True, slots=True)
class NoEffect:
    """Marks a field, by `Annotated`, that is read and validated but has no effect in koordpy.

    `instead` says what has an effect. The mark applies to one component if `component` names it; `but` is the
    value that describes what koordpy does anyway.
    """

    instead: str
    component: str = ""
    but: object = None


def without_effect(config: ConfigModel, component: str = "", path: str = "") -> Iterator[str]:
    """Yield a line for each field that a configuration sets and that has no effect in a component."""
    for name in sorted(config.model_fields_set, key=list(type(config).model_fields).index):
        field, value = type(config).model_fields[name], getattr(config, name)
        where = f"{path}.{field.alias}" if path else str(field.alias)
        marks = [
            mark
            for mark in field.metadata
            if isinstance(mark, NoEffect) and mark.component in ("", component) and value != mark.but
        ]
        if marks:
            yield from (f"{where} has no effect: {mark.instead}" for mark in marks)
            continue
        items = enumerate(value) if isinstance(value, list | tuple) else ((None, value),)
        for index, item in items:
            if isinstance(item, ConfigModel):
                place = where if index is None else f"{where}[{index}]"
                yield from without_effect(item, component, place)


def read(model: type[M], document: object, path: str = "") -> M:
    """Read a decoded document into a model. Raises ConfigError with every problem found."""
    try:
        return model.model_validate(without_nulls(_object(document, path)), by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError(*(problem(item, path) for item in error.errors(include_url=False))) from None


def read_args(model: type[M], document: object, path: str, *, api_version: str, kind: str) -> M:
    """Read a plugin's arguments, whose type may be omitted; if present, it must be the expected one."""
    fields = dict(_object(document, path))
    given = {name: fields.pop(name) for name in ("apiVersion", "kind") if fields.get(name) is not None}
    check_type({"apiVersion": api_version, "kind": kind} | given, api_version, kind, path)
    return read(model, fields, path)


def check_type(document: dict[str, Any], api_version: str, kind: str, path: str = "") -> None:
    """Raise ConfigError unless a document declares this type."""
    problems = [
        FieldError(field, f"got {_cut(document.get(field))}, expected {shown(expected)}").under(path)
        for field, expected in (("apiVersion", api_version), ("kind", kind))
        if document.get(field) != expected
    ]
    if problems:
        raise ConfigError(*problems)


def _read_seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return _read_duration(value) / duration.SECOND


def _read_duration(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError("expected a duration, such as 90s or 1h30m")
    return duration.parse(value)


Seconds = Annotated[float, BeforeValidator(_read_seconds)]
"""A `metav1.Duration` (`5m0s`), in seconds; a bare number counts seconds too."""

Duration = Annotated[int, BeforeValidator(_read_duration), PlainSerializer(duration.format)]
"""A `metav1.Duration` (`5m0s`), in nanoseconds."""


def _object(document: object, path: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ConfigError(FieldError(path or "configuration", f"got {_cut(document)}, expected an object"))
    return document


def problem(item: ErrorDetails, root: str = "") -> FieldError:
    """Return pydantic's errors below a path as `path: got VALUE, expected ...`."""
    path = root
    for part in item["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    match item["type"]:
        case "extra_forbidden":
            return FieldError(path, f"unknown field, got {_cut(item['input'])}")
        case "missing":
            return required(path)
    message = item["msg"].removeprefix("Value error, ")
    if message.startswith("Input should be "):
        message = f"expected {message.removeprefix('Input should be ')}"
    return FieldError(path, f"got {_cut(item['input'])}, {message}")


def _cut(value: object) -> str:
    text = shown(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
