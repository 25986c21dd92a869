"""The base of every configuration: strict models whose errors name path, value and expectation.

Names are camelCase, unknown fields and wrong types are rejected as by Kubernetes' strict decoding, and null
means absent.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from koordpy.lib import duration, int64
from koordpy.lib.nearest import nearest

from .field_error import FieldError, required, shown
from .scheme import without_nulls

M = TypeVar("M", bound=BaseModel)

_LONGEST_VALUE = 120
_SCALARS = ("int", "float", "bool", "str")


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
    reads_nulls: ClassVar[bool] = False
    """Whether the model itself decides what null means; otherwise it means an absent field."""


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
    given = _object(document, path)
    if not (issubclass(model, ConfigModel) and model.reads_nulls):
        given = without_nulls(given)
    if problems := tuple(_too_large(given, path)):
        raise ConfigError(*problems)
    try:
        return model.model_validate(given, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ConfigError(*_problems(error.errors(include_url=False), path, model)) from None


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


Int32 = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
Int64 = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
Uint32 = Annotated[int, Field(ge=0, lt=1 << 32)]


def _too_large(value: object, path: str) -> Iterator[FieldError]:
    """Yield an error for each integer that Go's decoder has no type for."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _too_large(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _too_large(item, f"{path}[{index}]")
    elif type(value) is int and not int64.fits(value):
        yield FieldError(path, f"got {_cut(value)}, expected an integer of 64 bits")


def _object(document: object, path: str) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ConfigError(FieldError(path or "configuration", f"got {_cut(document)}, expected an object"))
    return document


def problem(item: ErrorDetails, root: str = "", model: type[BaseModel] | None = None) -> FieldError:
    """Return one of pydantic's errors below a path as `path: got VALUE, expected ...`.

    For an unknown field the nearest field of the `model` there is suggested.
    """
    path = root
    for part in item["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    match item["type"]:
        case "extra_forbidden":
            near = nearest(str(item["loc"][-1]), fields_at(model, item["loc"][:-1]))
            perhaps = f"; did you mean {near}?" if near else ""
            return FieldError(path, f"unknown field, got {_cut(item['input'])}{perhaps}")
        case "literal_error" if isinstance(item["input"], str):
            near = nearest(item["input"], _literals(item))
            perhaps = f"; did you mean {near}?" if near else ""
            message = f"expected {item['msg'].removeprefix('Input should be ')}"
            return FieldError(path, f"got {_cut(item['input'])}, {message}{perhaps}")
        case "missing":
            return required(path)
        case "too_short":
            return FieldError(
                path, f"got {_cut(item['input'])}, expected at least {item['ctx']['min_length']} of them"
            )
    message = item["msg"].removeprefix("Value error, ")
    if message.startswith("Input should be "):
        message = f"expected {message.removeprefix('Input should be ')}"
    return FieldError(path, f"got {_cut(item['input'])}, {message}")


def _problems(items: list[ErrorDetails], path: str, model: type[BaseModel]) -> Iterator[FieldError]:
    """Yield the errors once each: pydantic also calls a list too short that has nothing but wrong items, and
    has an error for each type that a scalar may have."""
    scalars = set()
    for item in items:
        place = item["loc"]
        if item["type"] == "too_short" and any(
            other["loc"][: len(place)] == place for other in items if other is not item
        ):
            continue
        if place and place[-1] in _SCALARS and (item["type"].endswith(("_type", "_parsing"))):
            item["loc"], item["msg"] = place[:-1], "Input should be a number, a boolean or text"
            if item["loc"] in scalars:
                continue
            scalars.add(item["loc"])
        yield problem(item, path, model)


def _literals(item: ErrorDetails) -> list[str]:
    """Return the allowed values of a literal, as the error names them."""
    return re.findall(r"'([^']*)'", item.get("ctx", {}).get("expected", ""))


def fields_at(model: type[BaseModel] | None, place: Sequence[str | int]) -> list[str]:
    """Return the fields, as files spell them, of the model at a place of a model; none if there is none."""
    found: list[object] = [model]
    for part in place:
        found = [inner for outer in found for inner in _inside(outer, part)]
    return [
        field.alias or name
        for type_ in found
        if isinstance(type_, type) and issubclass(type_, BaseModel)
        for name, field in type_.model_fields.items()
    ]


def _inside(outer: object, part: str | int) -> Iterator[object]:
    """Yield the types that a field, an item or a value of a type may have."""
    arguments = get_args(outer)
    if isinstance(outer, type) and issubclass(outer, BaseModel):
        for name, field in outer.model_fields.items():
            if part in (field.alias, name):
                yield from _alternatives(field.annotation)
    elif get_origin(outer) is dict:
        yield from _alternatives(arguments[1])
    elif isinstance(part, int):
        for argument in arguments:
            yield from _alternatives(argument)


def _alternatives(annotation: object) -> Iterator[object]:
    """Yield the types that an annotation allows."""
    if get_origin(annotation) in (Annotated, Union, UnionType):
        for argument in get_args(annotation):
            yield from _alternatives(argument)
    else:
        yield annotation


def _cut(value: object) -> str:
    text = shown(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
