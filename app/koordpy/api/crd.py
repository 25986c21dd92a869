"""Structural schemas: what a CustomResourceDefinition says about its objects, carried out.

A schema is read once into a tree; the tree then drops unknown fields, fills in defaults and validates
documents, in this order, as kube-apiserver does. Source of the rules and of the wording: Kubernetes,
`k8s.io/apiextensions-apiserver/pkg/apiserver/schema` and `k8s.io/kube-openapi/pkg/validation`. Rules written
in CEL (`x-kubernetes-validations`) cannot be carried out: `problems` reports them.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import msgspec

from koordpy.api.patch import clone, equal

_TYPES = frozenset(("object", "array", "string", "integer", "number", "boolean"))
_ROOT_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_LOGIC = ("allOf", "anyOf", "oneOf")
_ABSENT: Any = object()


class SchemaError(ValueError):
    """A schema cannot be read; the message names the place and what was expected."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field that breaks the schema: its path, Kubernetes' name of the reason, and what kubectl prints."""

    field: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class _Form(msgspec.Struct, rename="camel"):
    """The JSON types of what a schema says."""

    type: str | None = None
    format: str | None = None
    pattern: str | None = None
    enum: list[Any] | None = None
    properties: dict[str, _Form] | None = None
    items: _Form | None = None
    additional_properties: _Form | bool | None = None
    required: list[str] | None = None
    nullable: bool | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: list[_Form] | None = None
    any_of: list[_Form] | None = None
    one_of: list[_Form] | None = None
    not_: _Form | None = msgspec.field(default=None, name="not")
    preserve: bool | None = msgspec.field(default=None, name="x-kubernetes-preserve-unknown-fields")
    int_or_string: bool | None = msgspec.field(default=None, name="x-kubernetes-int-or-string")
    resource: bool | None = msgspec.field(default=None, name="x-kubernetes-embedded-resource")
    list_type: str | None = msgspec.field(default=None, name="x-kubernetes-list-type")
    list_keys: list[str] | None = msgspec.field(default=None, name="x-kubernetes-list-map-keys")


def _check_types(schema: Any, path: str) -> None:
    try:
        msgspec.convert(schema, _Form)
    except msgspec.ValidationError as error:
        raise SchemaError(f"{path}: {error}") from None


class Schema:
    """One node of a structural schema."""

    __slots__ = (
        "additional",
        "default",
        "enum",
        "format",
        "int_or_string",
        "items",
        "limits",
        "list_keys",
        "list_type",
        "logic",
        "negated",
        "nullable",
        "pattern",
        "preserve",
        "properties",
        "required",
        "resource",
        "type",
    )

    def __init__(self, schema: Mapping[str, Any], path: str = "openAPIV3Schema") -> None:
        if path == "openAPIV3Schema":
            _check_types(schema, path)
        self.type: str = schema.get("type") or ""
        if self.type and self.type not in _TYPES:
            raise SchemaError(f"{path}.type: {self.type!r}, expected one of {', '.join(sorted(_TYPES))}")
        properties = schema.get("properties") or {}
        self.properties = {
            name: Schema(part, f"{path}.properties[{name}]") for name, part in properties.items()
        }
        items = schema.get("items")
        self.items = Schema(items, f"{path}.items") if items is not None else None
        additional = schema.get("additionalProperties")
        self.additional: Schema | bool | None = (
            Schema(additional, f"{path}.additionalProperties")
            if isinstance(additional, Mapping)
            else additional
        )
        self.default: Any = schema.get("default", _ABSENT)
        self.nullable = bool(schema.get("nullable"))
        self.preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        self.int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
        self.resource = bool(schema.get("x-kubernetes-embedded-resource"))
        self.list_type: str = schema.get("x-kubernetes-list-type") or ""
        self.list_keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.required: tuple[str, ...] = tuple(schema.get("required") or ())
        self.enum: list[Any] | None = schema.get("enum")
        self.format: str = schema.get("format") or ""
        self.pattern = _pattern(schema["pattern"], path) if schema.get("pattern") else None
        self.limits = {name: schema[name] for name in _LIMITS if schema.get(name) is not None}
        self.logic = {
            name: [Schema(part, f"{path}.{name}[{i}]") for i, part in enumerate(schema[name])]
            for name in _LOGIC
            if schema.get(name)
        }
        negated = schema.get("not")
        self.negated = Schema(negated, f"{path}.not") if negated is not None else None

    # pruning

    def prune(self, document: dict[str, Any], unknown: list[str] | None = None) -> None:
        """Drop, in place, what the schema of a whole object does not know; add the paths to `unknown`."""
        self._prune(document, "", unknown, keep=_ROOT_FIELDS)

    def _prune(
        self, value: Any, path: str, unknown: list[str] | None, keep: frozenset[str] = frozenset()
    ) -> None:
        if isinstance(value, dict):
            for name in list(value):
                if name in keep or (self.resource and name in _ROOT_FIELDS):
                    continue
                inner = self.properties.get(name)
                if inner is None and isinstance(self.additional, Schema):
                    inner = self.additional
                where = f"{path}.{name}" if path else name
                if inner is not None:
                    inner._prune(value[name], where, unknown)
                elif not self.preserve and self.additional is not True:
                    del value[name]
                    if unknown is not None:
                        unknown.append(where)
        elif isinstance(value, list) and self.items is not None:
            for index, item in enumerate(value):
                self.items._prune(item, f"{path}[{index}]", unknown)

    # defaulting

    def fill(self, value: Any) -> None:
        """Fill in defaults, in place; nulls that are not allowed are dropped or replaced by the default."""
        if isinstance(value, dict):
            for name, inner in self.properties.items():
                present = value.get(name, _ABSENT)
                if present is None and not inner.nullable:
                    del value[name]
                    present = _ABSENT
                if present is _ABSENT and inner.default is not _ABSENT:
                    value[name] = clone(inner.default)
            for name in list(value):
                part = self.properties.get(name)
                if part is None and isinstance(self.additional, Schema):
                    part = self.additional
                    if value[name] is None and not part.nullable:
                        del value[name]
                        if part.default is not _ABSENT:
                            value[name] = clone(part.default)
                if part is not None and name in value:
                    part.fill(value[name])
        elif isinstance(value, list) and self.items is not None:
            for index, item in enumerate(value):
                if item is None and not self.items.nullable and self.items.default is not _ABSENT:
                    value[index] = clone(self.items.default)
                self.items.fill(value[index])

    # validation

    def validate(self, value: Any, path: str = "") -> Iterator[FieldError]:
        """Yield every violation."""
        if value is None:
            if not self.nullable:
                yield _type_error(path, self.type or "object", value)
            return
        if self.int_or_string:
            if isinstance(value, bool) or not isinstance(value, int | str):
                yield _type_error(path, "integer,string", value)
                return
        elif self.type and not _has_type(value, self.type):
            yield _type_error(path, self.type, value)
            return
        if self.enum is not None and not any(equal(value, item) for item in self.enum):
            yield _unsupported(path, value, self.enum)
        if isinstance(value, dict):
            yield from self._validate_object(value, path)
        elif isinstance(value, list):
            yield from self._validate_list(value, path)
        elif isinstance(value, str):
            yield from self._validate_text(value, path)
        elif not isinstance(value, bool):
            yield from self._validate_number(value, path)
        if self.logic or self.negated is not None:
            yield from self._validate_logic(value, path)

    def _validate_object(self, value: dict[str, Any], path: str) -> Iterator[FieldError]:
        for name in self.required:
            if name not in value:
                yield FieldError(_join(path, name), "FieldValueRequired", "Required value")
        for name, item in value.items():
            inner = self.properties.get(name)
            if inner is None and isinstance(self.additional, Schema):
                inner = self.additional
            if inner is not None:
                yield from inner.validate(item, _join(path, name))
        least, most = self.limits.get("minProperties"), self.limits.get("maxProperties")
        if least is not None and len(value) < least:
            yield _broken(path, value, f"should have at least {least} properties")
        if most is not None and len(value) > most:
            yield FieldError(
                path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items"
            )

    def _validate_list(self, value: list[Any], path: str) -> Iterator[FieldError]:
        if self.items is not None:
            for index, item in enumerate(value):
                yield from self.items.validate(item, f"{path}[{index}]")
        least, most = self.limits.get("minItems"), self.limits.get("maxItems")
        if least is not None and len(value) < least:
            yield _broken(path, len(value), f"should have at least {least} items")
        if most is not None and len(value) > most:
            yield FieldError(
                path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} items"
            )
        if self.list_type in ("set", "map") or self.limits.get("uniqueItems"):
            yield from self._validate_distinct(value, path)

    def _validate_distinct(self, value: list[Any], path: str) -> Iterator[FieldError]:
        seen: set[str] = set()
        for index, item in enumerate(value):
            identity: Any = item
            if self.list_type == "map" and isinstance(item, dict):
                identity = {key: item.get(key) for key in self.list_keys}
            text = json.dumps(identity, sort_keys=True)
            if text in seen:
                yield FieldError(
                    f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {_show(identity)}"
                )
            seen.add(text)

    def _validate_text(self, value: str, path: str) -> Iterator[FieldError]:
        least, most = self.limits.get("minLength"), self.limits.get("maxLength")
        if least is not None and len(value) < least:
            yield _broken(path, value, f"should be at least {least} chars long")
        if most is not None and len(value) > most:
            yield FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")
        if self.pattern is not None and not self.pattern[1].search(value):
            yield _broken(path, value, f"should match '{self.pattern[0]}'")
        check = _FORMATS.get(self.format)
        if check is not None and not check(value):
            told = (
                f"Invalid value: {_show(value)}: {path} in body must be of type {self.format}: {_show(value)}"
            )
            yield FieldError(path, "FieldValueTypeInvalid", told)

    def _validate_number(self, value: int | float, path: str) -> Iterator[FieldError]:
        least, most = self.limits.get("minimum"), self.limits.get("maximum")
        if least is not None:
            if self.limits.get("exclusiveMinimum"):
                if value <= least:
                    yield _broken(path, value, f"should be greater than {_show(least)}")
            elif value < least:
                yield _broken(path, value, f"should be greater than or equal to {_show(least)}")
        if most is not None:
            if self.limits.get("exclusiveMaximum"):
                if value >= most:
                    yield _broken(path, value, f"should be less than {_show(most)}")
            elif value > most:
                yield _broken(path, value, f"should be less than or equal to {_show(most)}")
        step = self.limits.get("multipleOf")
        if step and value % step:
            yield _broken(path, value, f"should be a multiple of {_show(step)}")
        bits = {"int32": 31, "int64": 63}.get(self.format)
        if bits is not None and isinstance(value, int) and not -(1 << bits) <= value < 1 << bits:
            told = f"Checked value must be of type {self.type or 'integer'} with format {self.format}"
            yield FieldError(path, "FieldValueInvalid", f"Invalid value: {value}: {told}")

    def _validate_logic(self, value: Any, path: str) -> Iterator[FieldError]:
        for part in self.logic.get("allOf", ()):
            yield from part.validate(value, path)
        if options := self.logic.get("anyOf"):
            failures = [list(part.validate(value, path)) for part in options]
            if all(failures):
                yield _logic(path, "must validate at least one schema (anyOf)")
                yield from min(failures, key=len)
        if options := self.logic.get("oneOf"):
            matching = sum(not any(True for _ in part.validate(value, path)) for part in options)
            if matching != 1:
                told = "must validate one and only one schema (oneOf)"
                found = "Found none valid" if not matching else f"Found {matching} valid alternatives"
                yield _logic(path, f"{told}. {found}")
        if self.negated is not None and not any(True for _ in self.negated.validate(value, path)):
            yield _logic(path, "must not validate the schema (not)")


_LIMITS = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)


def problems(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield why a schema is not structural, has a default that it does not accept, or is not supported."""
    try:
        _check_types(schema, path)
    except SchemaError as error:
        yield FieldError(path, "FieldValueTypeInvalid", f'Invalid value: "": {error}')
        return
    yield from _problems(schema, path, is_root=True)


def _problems(schema: Mapping[str, Any], path: str, is_root: bool = False) -> Iterator[FieldError]:
    type_ = schema.get("type")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not type_:
        if not free or is_root:
            told = (
                "must not be empty at the root"
                if is_root
                else "must not be empty for specified object fields"
            )
            yield FieldError(f"{path}.type", "FieldValueRequired", f"Required value: {told}")
    elif type_ not in _TYPES:
        listed = ", ".join(f'"{name}"' for name in sorted(_TYPES))
        told = f"Unsupported value: {_show(type_)}: supported values: {listed}"
        yield FieldError(f"{path}.type", "FieldValueNotSupported", told)
        return
    elif is_root and type_ != "object":
        told = f"Invalid value: {_show(type_)}: must be object at the root"
        yield FieldError(f"{path}.type", "FieldValueInvalid", told)
    if schema.get("x-kubernetes-validations"):
        told = "Invalid value: rules in CEL cannot be evaluated by this server"
        yield FieldError(f"{path}.x-kubernetes-validations", "FieldValueInvalid", told)
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), Mapping):
        told = "Forbidden: additionalProperties and properties are mutual exclusive"
        yield FieldError(f"{path}.additionalProperties", "FieldValueForbidden", told)
    if schema.get("uniqueItems"):
        told = "Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError(f"{path}.uniqueItems", "FieldValueForbidden", told)
    for name, part in (schema.get("properties") or {}).items():
        yield from _problems(part, f"{path}.properties[{name}]")
    if isinstance(items := schema.get("items"), Mapping):
        yield from _problems(items, f"{path}.items")
    elif type_ == "array":
        yield FieldError(f"{path}.items", "FieldValueRequired", "Required value: must be specified")
    if isinstance(additional := schema.get("additionalProperties"), Mapping):
        yield from _problems(additional, f"{path}.additionalProperties")
    if "default" in schema and type_:
        try:
            read = Schema(schema, path)
        except SchemaError as error:
            yield FieldError(path, "FieldValueInvalid", f"Invalid value: {error}")
            return
        yield from read.validate(schema["default"], f"{path}.default")


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    if pattern.endswith("$") and not pattern.endswith(r"\$"):
        pattern = pattern[:-1] + r"\Z"  # Go's $ does not match before a last line break
    return re.compile(pattern)


def _pattern(pattern: str, path: str) -> tuple[str, re.Pattern[str]]:
    try:
        return pattern, _compiled(pattern)
    except re.error as error:
        raise SchemaError(f"{path}.pattern: {pattern!r}: {error}") from None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _has_type(value: Any, type_: str) -> bool:
    match type_:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            if isinstance(value, float):
                return value.is_integer()
            return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
    return names[type(value)]


def _show(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _type_error(path: str, wanted: str, value: Any) -> FieldError:
    found = _show(_type_name(value))
    place = path or '""'
    told = f"Invalid value: {found}: {place} in body must be of type {wanted}: {found}"
    return FieldError(path or "<nil>", "FieldValueTypeInvalid", told)


def _unsupported(path: str, value: Any, values: list[Any]) -> FieldError:
    listed = ", ".join(_show(item) if isinstance(item, str) else f'"{_show(item)}"' for item in values)
    return FieldError(
        path, "FieldValueNotSupported", f"Unsupported value: {_show(value)}: supported values: {listed}"
    )


def _broken(path: str, value: Any, told: str) -> FieldError:
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {_show(value)}: {path} in body {told}")


def _logic(path: str, told: str) -> FieldError:
    return FieldError(path or "<nil>", "FieldValueInvalid", f'Invalid value: "": "{path}" {told}')


def _reads(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _date_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or "T" not in text.upper():
        raise ValueError(text)
    return moment


_GO_DURATION = re.compile(
    r"[-+]?(?:0|(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h|d|w)(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h|d|w))*)"
)

_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _reads(_date_time),
    "date": _reads(date.fromisoformat),
    "duration": lambda text: _GO_DURATION.fullmatch(text) is not None,
    "byte": _reads(lambda text: base64.b64decode(text, validate=True)),
    "uuid": _reads(uuid.UUID),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "ip": _reads(ipaddress.ip_address),
    "cidr": _reads(ipaddress.ip_network),
}
