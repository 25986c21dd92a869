"""Structural schemas: pruning, defaults, validation, and which schemas are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import crd
from koordpy.api.crd import Schema, SchemaError
from koordpy.api.patch import clone

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)

SCHEMA = Schema(
    {
        "type": "object",
        "properties": {
            "a": {"type": "object", "properties": {"b": {"type": "integer", "default": 2}}, "default": {}},
            "b": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "string"}}}},
            "c": {"type": "object", "additionalProperties": {"type": "string"}},
        },
    }
)


def errors(schema: dict[str, Any], value: Any) -> dict[str, str]:
    return {error.field: error.reason for error in Schema(schema).validate(value, "spec")}


def messages(schema: dict[str, Any], value: Any) -> list[str]:
    return [error.message for error in Schema(schema).validate(value, "spec")]


def test_unknown_fields_are_pruned_and_reported() -> None:
    document = {
        "kind": "X",
        "metadata": {"free": 1},
        "x": 1,
        "a": {"b": 1, "x": 1},
        "b": [{"x": 1, "c": "v"}],
    }
    unknown: list[str] = []
    SCHEMA.prune(document, unknown)
    assert document == {"kind": "X", "metadata": {"free": 1}, "a": {"b": 1}, "b": [{"c": "v"}]}
    assert unknown == ["x", "a.x", "b[0].x"]


def test_preserved_objects_keep_unknown_fields_but_prune_within_known_ones() -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer"}}}
    schema = Schema(
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": inner}}
    )
    document = {"free": {"x": 1}, "a": {"b": 1, "x": 1}}
    schema.prune(document)
    assert document == {"free": {"x": 1}, "a": {"b": 1}}


def test_defaults_reach_into_defaulted_objects() -> None:
    document: dict[str, Any] = {}
    SCHEMA.fill(document)
    assert document == {"a": {"b": 2}}


def test_default_is_not_shared_between_documents() -> None:
    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    SCHEMA.fill(first)
    first["a"]["b"] = 5
    SCHEMA.fill(second)
    assert second == {"a": {"b": 2}}


def test_null_is_replaced_by_the_default_dropped_or_kept() -> None:
    schema = Schema(
        {
            "type": "object",
            "properties": {
                "defaulted": {"type": "string", "default": "x"},
                "plain": {"type": "string"},
                "nullable": {"type": "string", "nullable": True, "default": "x"},
            },
        }
    )
    document: dict[str, Any] = {"defaulted": None, "plain": None, "nullable": None}
    schema.fill(document)
    assert document == {"defaulted": "x", "nullable": None}


@given(st.dictionaries(st.sampled_from("abc"), JSON, max_size=3))
def test_pruning_and_defaulting_twice_changes_nothing_more(document: dict[str, Any]) -> None:
    SCHEMA.prune(document)
    SCHEMA.fill(document)
    again = clone(document)
    SCHEMA.prune(again)
    SCHEMA.fill(again)
    assert again == document


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ({"type": "integer"}, "x", "FieldValueTypeInvalid"),
        ({"type": "integer"}, True, "FieldValueTypeInvalid"),
        ({"type": "integer"}, 1.5, "FieldValueTypeInvalid"),
        ({"type": "number"}, "1", "FieldValueTypeInvalid"),
        ({"type": "string"}, None, "FieldValueTypeInvalid"),
        ({"type": "integer", "minimum": 2}, 1, "FieldValueInvalid"),
        ({"type": "integer", "maximum": 2, "exclusiveMaximum": True}, 2, "FieldValueInvalid"),
        ({"type": "integer", "multipleOf": 3}, 4, "FieldValueInvalid"),
        ({"type": "integer", "format": "int32"}, 1 << 31, "FieldValueInvalid"),
        ({"type": "string", "maxLength": 2}, "abc", "FieldValueTooLong"),
        ({"type": "string", "minLength": 2}, "a", "FieldValueInvalid"),
        ({"type": "string", "pattern": "^a$"}, "a\n", "FieldValueInvalid"),
        ({"type": "string", "enum": ["a"]}, "b", "FieldValueNotSupported"),
        ({"type": "string", "format": "date-time"}, "2026-01-01", "FieldValueTypeInvalid"),
        ({"type": "string", "format": "duration"}, "1 day", "FieldValueTypeInvalid"),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [], "FieldValueInvalid"),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "FieldValueTooMany"),
        ({"x-kubernetes-int-or-string": True}, 1.5, "FieldValueTypeInvalid"),
        ({"type": "integer", "oneOf": [{"minimum": 1}, {"maximum": 5}]}, 3, "FieldValueInvalid"),
        ({"type": "integer", "not": {"enum": [3]}}, 3, "FieldValueInvalid"),
    ],
    ids=str,
)
def test_violation_is_named_by_its_reason(schema: dict[str, Any], value: Any, reason: str) -> None:
    assert errors(schema, value) == {"spec": reason}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 2.0),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00.5+02:00"),
        ({"type": "string", "format": "duration"}, "1h30m"),
        ({"x-kubernetes-int-or-string": True}, "10%"),
        ({"type": "integer", "anyOf": [{"maximum": 1}, {"minimum": 5}]}, 7),
        ({"type": "string", "format": "of-nobody"}, "anything"),
    ],
    ids=str,
)
def test_value_that_fits_is_accepted(schema: dict[str, Any], value: Any) -> None:
    assert errors(schema, value) == {}


def test_paths_lead_through_lists_and_maps() -> None:
    schema = {
        "type": "object",
        "additionalProperties": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
    }
    assert errors(schema, {"x": [{"name": "a"}, {}]}) == {"spec.x[1].name": "FieldValueRequired"}


def test_items_of_a_map_list_differ_in_their_keys() -> None:
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    assert errors(schema, [{"name": "a"}, {"name": "b"}, {"name": "a"}]) == {"spec[2]": "FieldValueDuplicate"}


def test_messages_are_worded_as_the_api_server_words_them() -> None:
    assert messages({"type": "integer"}, "x") == [
        'Invalid value: "string": spec in body must be of type integer: "string"'
    ]
    assert messages({"type": "integer", "maximum": 10}, 11) == [
        "Invalid value: 11: spec in body should be less than or equal to 10"
    ]
    assert messages({"type": "string", "enum": ["a", "b"]}, "c") == [
        'Unsupported value: "c": supported values: "a", "b"'
    ]


@pytest.mark.parametrize(
    ("schema", "field"),
    [
        ({"properties": {}}, "s.type"),
        ({"type": "string"}, "s.type"),
        ({"type": "object", "properties": {"a": {"default": 1}}}, "s.properties[a].type"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "s.properties[a].items"),
        ({"type": "object", "properties": {"a": {"type": "set"}}}, "s.properties[a].type"),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
            "s.properties[a].default",
        ),
        ({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]}, "s.x-kubernetes-validations"),
        ({"type": "object", "properties": 1}, "s"),
    ],
    ids=str,
)
def test_schema_that_is_not_structural_is_refused(schema: dict[str, Any], field: str) -> None:
    assert field in {problem.field for problem in crd.problems(schema, "s")}


def test_pattern_that_is_none_is_an_error() -> None:
    with pytest.raises(SchemaError, match="pattern"):
        Schema({"type": "string", "pattern": "("})
