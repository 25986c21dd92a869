"""A quick check whether a document keeps to a schema, without saying why not.

An API server validates every write, and nearly all of them are valid. `accepting` turns a schema into nested
functions that build no paths and no messages; what they do not accept is validated once more for the reasons.
"""

from collections.abc import Callable
from typing import Any

from ..patch import equal
from .formats import FORMATS
from .schema import Schema

Check = Callable[[Any], bool]

_BITS = {"int32": 31, "int64": 63}


def accepting(schema: Schema) -> Check:
    """Return the function that returns whether `schema.validate` finds no violation in a decoded document."""

    def exactly(value: Any) -> bool:
        return next(schema.validate(value), None) is None

    if schema.negated is not None or "oneOf" in schema.logic:
        return exactly
    checks = _checks_by_type(schema, exactly)
    everything = tuple(accepting(part) for part in schema.logic.get("allOf", ()))
    anything = tuple(accepting(part) for part in schema.logic.get("anyOf", ()))
    nullable, enum = schema.nullable, schema.enum

    def check(value: Any) -> bool:
        if value is None:
            return nullable
        accepted = checks.get(type(value))
        if accepted is None or not accepted(value):
            return False
        if enum is not None and not any(equal(value, item) for item in enum):
            return False
        if anything and not any(part(value) for part in anything):
            return False
        return all(part(value) for part in everything)

    if enum is None and not anything and not everything:

        def check_type(value: Any) -> bool:
            if value is None:
                return nullable
            accepted = checks.get(type(value))
            return accepted is not None and accepted(value)

        return check_type
    return check


def _checks_by_type(schema: Schema, exactly: Check) -> dict[type, Check]:
    """Return what checks values of the types that a schema allows."""
    if schema.int_or_string:
        return {str: _text(schema, exactly), int: _integer(schema, exactly)}
    types: dict[type, Check] = {}
    if schema.type in ("", "object"):
        types[dict] = _object(schema, exactly)
    if schema.type in ("", "array"):
        types[list] = _list(schema, exactly)
    if schema.type in ("", "string"):
        types[str] = _text(schema, exactly)
    if schema.type in ("", "boolean"):
        types[bool] = _anything
    if schema.type in ("", "integer", "number"):
        types[int] = _integer(schema, exactly)
        types[float] = exactly
    return types


def _anything(_: Any) -> bool:
    return True


def _object(schema: Schema, exactly: Check) -> Check:
    if "minProperties" in schema.limits or "maxProperties" in schema.limits:
        return exactly
    required = schema.required
    parts = {name: accepting(part) for name, part in schema.properties.items()}
    other = None if schema.additional is None or isinstance(schema.additional, bool) else schema.additional
    rest = None if other is None else accepting(other)

    def check(value: dict[str, Any]) -> bool:
        for name in required:
            if name not in value:
                return False
        for name, item in value.items():
            part = parts.get(name, rest)
            if part is not None and not part(item):
                return False
        return True

    return check


def _list(schema: Schema, exactly: Check) -> Check:
    limited = schema.limits.keys() & {"minItems", "maxItems", "uniqueItems"}
    if limited or schema.list_type in ("set", "map"):
        return exactly
    if schema.items is None:
        return _anything
    item = accepting(schema.items)
    return lambda value: all(map(item, value))


def _text(schema: Schema, exactly: Check) -> Check:
    if "minLength" in schema.limits or "maxLength" in schema.limits or schema.format in FORMATS:
        return exactly
    if schema.pattern is None:
        return _anything
    search = schema.pattern[1].search
    return lambda value: search(value) is not None


def _integer(schema: Schema, exactly: Check) -> Check:
    if schema.limits.keys() & {"minimum", "maximum", "multipleOf"}:
        return exactly
    bits = _BITS.get(schema.format)
    if bits is None:
        return _anything
    least, most = -(1 << bits), 1 << bits
    return lambda value: least <= value < most
