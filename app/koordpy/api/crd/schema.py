"""A structural schema as a tree: it drops unknown fields, fills in defaults and validates documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from koordpy.lib.bounded_cache import cached

from ..patch import clone, equal
from .errors import FieldError, SchemaError, broken, logic, show, type_error, unsupported
from .form import TYPES, check_types
from .formats import FORMATS

_ROOT_FIELDS = frozenset(("apiVersion", "kind", "metadata"))
_LOGIC = ("allOf", "anyOf", "oneOf")
_ABSENT: Any = object()

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


class Schema:
    """One node of a structural schema."""

    __slots__ = (
        "_defaulted",
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
            check_types(schema, path)
        self.type: str = schema.get("type") or ""
        if self.type and self.type not in TYPES:
            raise SchemaError(f"{path}.type: {self.type!r}, expected one of {', '.join(sorted(TYPES))}")
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
        self._defaulted = [
            (name, part) for name, part in self.properties.items() if part.default is not _ABSENT
        ]

    # pruning

    def prune(self, document: dict[str, Any], unknown: list[str] | None = None) -> None:
        """Drop, in place, fields that an object's schema does not have; add their paths to `unknown`."""
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
                if inner is not None:
                    if isinstance(value[name], dict | list):
                        inner._prune(value[name], _join(path, name), unknown)
                elif not self.preserve and self.additional is not True:
                    del value[name]
                    if unknown is not None:
                        unknown.append(_join(path, name))
        elif isinstance(value, list) and self.items is not None:
            for index, item in enumerate(value):
                self.items._prune(item, f"{path}[{index}]", unknown)

    # defaulting

    def fill(self, value: Any) -> None:
        """Fill in defaults, in place; nulls that are not allowed are dropped or replaced by the default."""
        if isinstance(value, dict):
            for name, inner in self._defaulted:
                present = value.get(name, _ABSENT)
                if present is None and not inner.nullable:
                    del value[name]
                    present = _ABSENT
                if present is _ABSENT:
                    value[name] = clone(inner.default)
            for name, item in list(value.items()):
                part = self.properties.get(name)
                if part is None and isinstance(self.additional, Schema):
                    part = self.additional
                if part is None:
                    continue
                if item is None and not part.nullable:
                    del value[name]
                    if part.default is not _ABSENT:
                        value[name] = clone(part.default)
                        part.fill(value[name])
                elif isinstance(item, dict | list):
                    part.fill(item)
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
                yield type_error(path, self.type or "object", value)
            return
        if self.int_or_string:
            if isinstance(value, bool) or not isinstance(value, int | str):
                yield type_error(path, "integer,string", value)
                return
        elif self.type and not _has_type(value, self.type):
            yield type_error(path, self.type, value)
            return
        if self.enum is not None and not any(equal(value, item) for item in self.enum):
            yield unsupported(path, value, self.enum)
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
            yield broken(path, value, f"should have at least {least} properties")
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
            yield broken(path, len(value), f"should have at least {least} items")
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
                    f"{path}[{index}]", "FieldValueDuplicate", f"Duplicate value: {show(identity)}"
                )
            seen.add(text)

    def _validate_text(self, value: str, path: str) -> Iterator[FieldError]:
        least, most = self.limits.get("minLength"), self.limits.get("maxLength")
        if least is not None and len(value) < least:
            yield broken(path, value, f"should be at least {least} chars long")
        if most is not None and len(value) > most:
            yield FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {most} bytes")
        if self.pattern is not None and not self.pattern[1].search(value):
            yield broken(path, value, f"should match '{self.pattern[0]}'")
        check = FORMATS.get(self.format)
        if check is not None and not check(value):
            told = (
                f"Invalid value: {show(value)}: {path} in body must be of type {self.format}: {show(value)}"
            )
            yield FieldError(path, "FieldValueTypeInvalid", told)

    def _validate_number(self, value: int | float, path: str) -> Iterator[FieldError]:
        least, most = self.limits.get("minimum"), self.limits.get("maximum")
        if least is not None:
            if self.limits.get("exclusiveMinimum"):
                if value <= least:
                    yield broken(path, value, f"should be greater than {show(least)}")
            elif value < least:
                yield broken(path, value, f"should be greater than or equal to {show(least)}")
        if most is not None:
            if self.limits.get("exclusiveMaximum"):
                if value >= most:
                    yield broken(path, value, f"should be less than {show(most)}")
            elif value > most:
                yield broken(path, value, f"should be less than or equal to {show(most)}")
        step = self.limits.get("multipleOf")
        if step and value % step:
            yield broken(path, value, f"should be a multiple of {show(step)}")
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
                yield logic(path, "must validate at least one schema (anyOf)")
                yield from min(failures, key=len)
        if options := self.logic.get("oneOf"):
            matching = sum(not any(True for _ in part.validate(value, path)) for part in options)
            if matching != 1:
                told = "must validate one and only one schema (oneOf)"
                found = "Found none valid" if not matching else f"Found {matching} valid alternatives"
                yield logic(path, f"{told}. {found}")
        if self.negated is not None and not any(True for _ in self.negated.validate(value, path)):
            yield logic(path, "must not validate the schema (not)")


@cached("schema_patterns", 1 << 20)
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
