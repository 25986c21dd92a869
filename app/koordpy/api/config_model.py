"""The base of every configuration file: strict models whose complaints name path, value and expectation.

Names are camelCase, unknown fields and wrong types are refused as Kubernetes' strict decoding refuses them,
and null means absent.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from koordpy.lib import duration

from .scheme import without_nulls

M = TypeVar("M", bound=BaseModel)


class ConfigError(ValueError):
    """A configuration cannot be used; `problems` has one line for each thing that is wrong, with its path."""

    def __init__(self, problems: Iterable[object]) -> None:
        self.problems = tuple(str(problem) for problem in problems)
        super().__init__("; ".join(self.problems))

    def under(self, place: object) -> "ConfigError":
        """Return the same complaint with the place (a file, say) in front of every line."""
        return ConfigError(f"{place}: {problem}" for problem in self.problems)


class ConfigModel(BaseModel):
    """A part of a configuration."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True
    )


def read(model: type[M], document: object, path: str = "") -> M:
    """Read a decoded document into a model. Raises ConfigError with every problem found."""
    if not isinstance(document, dict):
        raise ConfigError([f"{path or 'configuration'}: got {shown(document)}, expected an object"])
    try:
        return model.model_validate(without_nulls(document))
    except ValidationError as error:
        raise ConfigError(_line(detail, path) for detail in error.errors(include_url=False)) from None


def _seconds(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ValueError("a duration such as 5s or 10m")
    return duration.parse(value) / duration.SECOND


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A `metav1.Duration` (`5m0s`), in seconds."""


def shown(value: object) -> str:
    """Return a value as JSON, cut when it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _line(detail: ErrorDetails, root: str) -> str:
    path = root
    for part in detail["loc"]:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    match detail["type"]:
        case "extra_forbidden":
            return f"{path}: unknown field, got {shown(detail['input'])}"
        case "missing":
            return f"{path}: Required value"
    message: Any = detail["msg"]
    return f"{path}: got {shown(detail['input'])}, expected: {message.removeprefix('Value error, ')}"
