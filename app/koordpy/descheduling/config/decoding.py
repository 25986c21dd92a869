"""Strict decoding of a DeschedulerConfiguration: from text to models, with the arguments of plugins.

Text that begins with `{` is JSON, other text is YAML. As in Kubernetes, an error of another class hides the
unknown and repeated fields. Source: Kubernetes, `k8s.io/apimachinery/pkg/runtime/serializer`; Koordinator,
`pkg/descheduler/apis/config/v1alpha2/types.go` (`DecodeNestedObjects`).
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from koordpy.api import config_document, config_model
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.field_error import FieldError, shown
from koordpy.descheduling.args import API_VERSION, NULL, REFUSED_NULL, PluginArgs
from koordpy.descheduling.interface import Plugin
from koordpy.lib import text_documents

from .configuration import KIND, DeschedulerConfiguration, PluginConfig

M = TypeVar("M", bound=BaseModel)

_Place = tuple[int | str, ...]
"""The path of a field."""

_INTERNAL: Final = "descheduler/__internal"
_TYPE_FIELDS: Final = ("apiVersion", "kind")


class Problem(StrEnum):
    """What kind of error keeps a configuration from being decoded."""

    STRICT = "strict"
    """Unknown or repeated fields."""
    KIND = "kind"
    """The document has no type, or is of an unknown one."""
    ARGS_TYPE = "argsType"
    """Arguments of another plugin."""
    DECODE = "decode"
    """Everything else: broken text, a value of a wrong type."""


class DecodingError(ConfigError):
    """A configuration that cannot be decoded.

    `fields` has Kubernetes' text for every unknown or repeated field of an error of the class `STRICT`, not
    for those that YAML repeats; `place` is where a plugin's arguments have them, in Koordinator's words.
    """

    kind: Problem = Problem.DECODE
    fields: tuple[str, ...] = ()
    place: str = ""

    @classmethod
    def of(
        cls, kind: Problem, *problems: object, fields: Iterable[str] = (), place: str = ""
    ) -> "DecodingError":
        """Make an error of a class."""
        error = cls(*problems)
        error.kind, error.fields, error.place = kind, tuple(fields), place
        return error

    def under(self, place: object) -> "DecodingError":
        """Return the same error with a place (a file, say) in front of every line."""
        problems = (f"{place}: {problem}" for problem in self.problems)
        return self.of(self.kind, *problems, fields=self.fields, place=self.place)


def decode(text: str, catalogue: Catalogue[Plugin]) -> DeschedulerConfiguration:
    """Decode the bare document or the one in a ConfigMap. Raises DecodingError, ConfigError, PluginError.

    Arguments of plugins with a strict model are decoded too; all others stay as they are.
    """
    source = config_document.text_of(text, KIND)
    document = _parse(source)
    _check_kind(document, catalogue)
    _keep_args(document)
    error = None
    try:
        config = _read(DeschedulerConfiguration, document)
    except DecodingError as found:
        if found.kind is not Problem.STRICT:
            raise
        error, config = found, _read(DeschedulerConfiguration, document, strict=False)
    profiles = [
        profile.model_copy(
            update={
                "plugin_config": [
                    _with_args(entry, f"profiles[{index}].pluginConfig[{position}]", catalogue)
                    for position, entry in enumerate(profile.plugin_config)
                ]
            }
        )
        for index, profile in enumerate(config.profiles)
    ]
    if error is None:
        error = _repeated_in_yaml(source)
    if error is not None:
        raise error
    return config.model_copy(update={"profiles": profiles})


def strict_args(name: str, catalogue: Catalogue[Plugin]) -> type[PluginArgs] | None:
    """Return the model of a plugin's arguments if it refuses unknown fields.

    None for a plugin that is not installed or ignores unknown fields.
    """
    if name not in catalogue:
        return None
    model = catalogue.load(name).args_type
    if not issubclass(model, PluginArgs) or model.model_config.get("extra") != "forbid":
        return None
    return model


@dataclass(frozen=True)
class _Kept:
    """The arguments of a plugin, which are not decoded with the rest."""

    document: Any


def _keep_args(document: dict[str, Any]) -> None:
    """Wrap the arguments of all plugins, which may have nulls."""
    for profile in _list(document, "profiles"):
        for entry in _list(profile, "pluginConfig"):
            if isinstance(entry, dict) and "args" in entry:
                entry["args"] = _Kept(entry["args"])


def _list(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


class _Object(dict[str, Any]):
    """An object in JSON; `repeated` are the keys that it has more than once."""

    repeated: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> "_Object":
        made = cls(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            made.repeated = frozenset(key for key in made if keys.count(key) > 1)
        return made


def _parse(source: str) -> Any:
    is_json = _is_json(source)
    try:
        if not is_json:
            return _sorted(text_documents.read_yaml(source))
        text_documents.read_json(source)
        return json.loads(source, object_pairs_hook=_Object.of)
    except (text_documents.DocumentError, ValueError) as error:
        raise DecodingError(f"not {'JSON' if is_json else 'YAML'}: {error}") from None


def _is_json(source: str) -> bool:
    return source.lstrip().startswith("{")


def _sorted(value: Any) -> Any:
    """Return a YAML document as the JSON that Kubernetes makes of it: keys sorted, `5.0` the integer 5."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _repeated_in_yaml(source: str) -> DecodingError | None:
    if _is_json(source):
        return None
    try:
        text_documents.read_yaml(source, unique_keys=True)
    except text_documents.RepeatedKeyError as error:
        return DecodingError.of(Problem.STRICT, error)
    return None


def _check_kind(document: Any, catalogue: Catalogue[Plugin]) -> None:
    if document is None:
        raise DecodingError.of(Problem.KIND, f"expected a {KIND} document, got nothing")
    if not isinstance(document, dict):
        raise DecodingError(f"expected a {KIND} document, got {type(document).__name__}")
    _check_texts(document)
    try:
        config_model.check_type(document, API_VERSION, KIND)
    except ConfigError as error:
        kind = document.get("kind") or ""
        if document.get("apiVersion") == _INTERNAL and _is_known(kind, catalogue):
            # the internal form has other names for all fields
            fields = [f'unknown field "{name}"' for name in _fields(document)]
            if fields:
                raise DecodingError.of(Problem.STRICT, *error.problems, fields=fields) from None
        if document.get("apiVersion") == API_VERSION and kind.endswith("Args"):
            model = strict_args(kind.removesuffix("Args"), catalogue)
            if model is not None:  # as in Kubernetes, it is first read as what it says it is
                _read(model, _fields(document))
        raise DecodingError.of(Problem.KIND, *error.problems) from None


def _is_known(kind: str, catalogue: Catalogue[Plugin]) -> bool:
    return kind == KIND or (
        kind.endswith("Args") and strict_args(kind.removesuffix("Args"), catalogue) is not None
    )


def _check_texts(document: dict[str, Any], path: str = "") -> None:
    """Raise DecodingError unless the type of a document is text."""
    for field in _TYPE_FIELDS:
        value = document.get(field)
        if value is not None and not isinstance(value, str):
            raise DecodingError(FieldError(field, f"got {shown(value)}, expected text").under(path))


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without its type."""
    made = _Object((key, value) for key, value in document.items() if key not in _TYPE_FIELDS)
    made.repeated = getattr(document, "repeated", frozenset())
    return made


def _with_args(entry: PluginConfig, path: str, catalogue: Catalogue[Plugin]) -> PluginConfig:
    """Return a plugin's configuration with its arguments decoded, if their model is strict."""
    given = entry.args.document if isinstance(entry.args, _Kept) else None
    model = strict_args(entry.name, catalogue)
    if model is None:
        return entry.model_copy(update={"args": given})
    where, place = f"{path}.args", f"decoding .{path}: decoding args for plugin {entry.name}: "
    document = {} if given is None else given
    if not isinstance(document, dict):
        raise DecodingError(FieldError(where, f"got {shown(document)}, expected an object"))
    _check_texts(document, where)
    own = f"{entry.name}Args"
    version, kind = document.get("apiVersion") or API_VERSION, document.get("kind") or own
    other = model if kind == own else strict_args(kind.removesuffix("Args"), catalogue)
    if version != API_VERSION or other is None or not kind.endswith("Args"):
        raise DecodingError(
            FieldError(where, f"got {shown(kind)} of {shown(version)}, expected {own} of {API_VERSION}")
        )
    args = _read(other, _fields(document), where, place)
    if kind != own:
        text = FieldError(f"{where}.kind", f"got {shown(kind)}, expected {shown(own)}")
        raise DecodingError.of(Problem.ARGS_TYPE, text)
    return entry.model_copy(update={"args": args})


def _read(
    model: type[M], document: dict[str, Any], path: str = "", place: str = "", *, strict: bool = True
) -> M:
    """Read a document into a model. Raises DecodingError; without `strict` not for unknown fields."""
    unknown, zeros = _unknown_and_zeros(model, document, path)
    try:
        made = config_model.read(model, _without(document, unknown, zeros), path)
    except ConfigError as error:
        raise DecodingError(*error.problems) from None
    fields = tuple(dict.fromkeys(_strict_errors(document, unknown)))
    if strict and fields:
        problems = [
            *(config_model.problem(item, path, model) for item in unknown.values()),
            *(field for field in fields if field.startswith("duplicate")),
        ]
        raise DecodingError.of(Problem.STRICT, *problems, fields=fields, place=place)
    return made


def _unknown_and_zeros(
    model: type[BaseModel], document: dict[str, Any], path: str
) -> tuple[dict[_Place, ErrorDetails], dict[_Place, Any]]:
    """Return the errors of unknown fields, and what nulls stand for in lists and maps: zero values.

    A null field is absent, except one that is not known. Raises DecodingError.
    """
    try:
        model.model_validate(_with_null(document), by_alias=True, by_name=False)
    except ValidationError as error:
        items = error.errors(include_url=False)
        for item in items:
            item["input"] = None if item["input"] is NULL else item["input"]
        if refused := [item for item in items if item["type"] == REFUSED_NULL]:
            raise DecodingError(*(config_model.problem(item, path) for item in refused)) from None
        unknown = {item["loc"]: item for item in items if item["type"] == "extra_forbidden"}
        zeros = {
            item["loc"]: _ZEROS[item["type"]]
            for item in items
            if item["input"] is None
            and item["type"] in _ZEROS
            and item["loc"][-1] not in config_model.fields_at(model, item["loc"][:-1])
        }
        return unknown, zeros
    return {}, {}


_ZEROS: Final[dict[str, Any]] = {
    "string_type": "",
    "int_type": 0,
    "float_type": 0,
    "list_type": [],
    "dict_type": {},
    "model_type": {},
    "model_attributes_type": {},
}
"""Zero values by the type of pydantic's error of null."""


def _with_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_null(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_null(item) for item in value]
    return NULL if value is None else value


def _strict_errors(value: Any, unknown: Container[_Place], at: _Place = ()) -> Iterator[str]:
    """Yield Kubernetes' text for unknown and repeated fields, in the order of the document."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strict_errors(item, unknown, (*at, index))
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        place = (*at, key)
        if place in unknown:
            yield f'unknown field "{_text(place)}"'
            continue
        yield from _strict_errors(item, unknown, place)
        if key in getattr(value, "repeated", ()):
            yield f'duplicate field "{_text(place)}"'


def _text(place: _Place) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".")


def _without(value: Any, unknown: Container[_Place], zeros: Mapping[_Place, Any], at: _Place = ()) -> Any:
    """Return a copy of a document without the unknown fields; nulls are the zero values at their places."""
    if value is None:
        return zeros.get(at)
    if isinstance(value, list):
        return [_without(item, unknown, zeros, (*at, index)) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {
            key: _without(item, unknown, zeros, (*at, key))
            for key, item in value.items()
            if (*at, key) not in unknown
        }
    return value
