"""The shape of configuration: strict models whose complaints name path, value and expectation.

A plugin's arguments are a `PluginArgs` model with Koordinator's (or Kubernetes') field names, defaults and
validation. Unknown fields and wrong types are refused as Go's strict decoder refuses them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from koordpy.api.scheme import without_nulls
from koordpy.lib import duration


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a configuration, and where."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text

    @classmethod
    def invalid(cls, path: str, value: object, text: str) -> Self:
        """Complain about a value, in the words of Kubernetes' field errors."""
        return cls(path, f"Invalid value: {_shown(value)}: {text}")

    @classmethod
    def not_supported(cls, path: str, value: object, supported: Sequence[str]) -> Self:
        """Complain about a value that is none of a list."""
        listed = ", ".join(json.dumps(name) for name in supported)
        return cls(path, f"Unsupported value: {_shown(value)}: supported values: {listed}")

    def under(self, parent: str) -> "Problem":
        """Return the same problem seen from further up."""
        return Problem(f"{parent}.{self.path}" if self.path else parent, self.text)


class ConfigError(ValueError):
    """A configuration cannot be used; the message lists every problem found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


Model = TypeVar("Model", bound="ConfigModel")


class ConfigModel(BaseModel):
    """Base of configuration models: camelCase, strict types, no unknown fields."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True
    )


class PluginArgs(ConfigModel):
    """Base of plugins' arguments."""

    def problems(self) -> Iterable[Problem]:
        """Return what is wrong with values that have the right type."""
        return ()


class NoArgs(PluginArgs):
    """The arguments of a plugin that takes none."""


def read_model(model: type[Model], document: Any, path: str) -> Model:
    """Read a decoded document into a model; a null is a missing field. Raises ConfigError."""
    if not isinstance(document, dict):
        raise ConfigError([Problem(path, f"got {_shown(document)}, expected an object")])
    try:
        return model.model_validate(without_nulls(document))
    except ValidationError as error:
        raise ConfigError(_problem(detail, path) for detail in error.errors()) from None


def read_args(args_type: type[PluginArgs], plugin: str, document: Any, path: str) -> PluginArgs:
    """Read and validate a plugin's arguments, `apiVersion` and `kind` included. Raises ConfigError."""
    if not isinstance(document, dict):
        raise ConfigError([Problem(path, f"got {_shown(document)}, expected an object")])
    fields = dict(document)
    kind, version = fields.pop("kind", None), fields.pop("apiVersion", None)
    if kind not in (None, f"{plugin}Args"):
        raise ConfigError(
            [Problem(f"{path}.kind", f"got {_shown(kind)}, expected {_shown(f'{plugin}Args')}")]
        )
    if version not in (None, API_VERSION):
        raise ConfigError(
            [Problem(f"{path}.apiVersion", f"got {_shown(version)}, expected {_shown(API_VERSION)}")]
        )
    args = read_model(args_type, fields, path)
    problems = [problem.under(path) for problem in args.problems()]
    if problems:
        raise ConfigError(problems)
    return args


API_VERSION = "kubescheduler.config.k8s.io/v1"


def _seconds(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ValueError("a duration such as 5s or 10m")
    return duration.parse(value) / duration.SECOND


Seconds = Annotated[float, BeforeValidator(_seconds)]
"""A `metav1.Duration` (`5m0s`), in seconds."""


def _problem(detail: ErrorDetails, root: str) -> Problem:
    path = root
    for part in detail["loc"]:
        path += f"[{part}]" if isinstance(part, int) else (f".{part}" if path else str(part))
    match detail["type"]:
        case "extra_forbidden":
            return Problem(path, f"unknown field, got {_shown(detail['input'])}")
        case "missing":
            return Problem(path, "Required value")
    return Problem(path, f"got {_shown(detail['input'])}, expected: {detail['msg']}")


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
