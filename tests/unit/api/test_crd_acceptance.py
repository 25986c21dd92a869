"""The quick check of documents against a schema: it agrees with the validation that gives reasons."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy import data
from koordpy.api.crd import Schema, accepting

NAMES = st.sampled_from("abc")
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, 2.0, 1 << 31, 1 << 63])
TEXTS = st.sampled_from(["", "a", "ab", "100m", "2026-01-01T00:00:00Z"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def schemas(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas with parts that are schemas themselves."""
    parts = st.dictionaries(NAMES, inner, max_size=3)
    objects = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": parts,
            "additionalProperties": inner | st.booleans(),
            "required": st.lists(NAMES, max_size=2),
            "minProperties": st.just(1),
            "maxProperties": st.just(1),
        },
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
            "x-kubernetes-list-map-keys": st.just(["a"]),
            "minItems": st.just(1),
            "maxItems": st.just(1),
        },
    )
    options = st.lists(inner, min_size=1, max_size=2)
    logic = st.fixed_dictionaries(
        {}, optional={"anyOf": options, "allOf": options, "oneOf": options, "not": inner}
    )
    return objects | lists | logic


LEAVES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "number", "boolean"])},
        optional={
            "nullable": st.just(True),
            "format": st.sampled_from(["int32", "int64", "date-time"]),
            "minimum": st.just(0),
            "maximum": st.just(2),
            "multipleOf": st.just(2),
            "minLength": st.just(1),
            "maxLength": st.just(1),
            "pattern": st.just("^a"),
        },
    ),
    st.just({"type": "string", "enum": ["a", "ab"]}),
    st.just({"x-kubernetes-int-or-string": True, "pattern": "m$"}),
    st.just({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
)


@given(st.recursive(LEAVES, schemas, max_leaves=6), VALUES)
def test_it_accepts_what_has_no_violation_and_nothing_else(document: dict[str, Any], value: Any) -> None:
    schema = Schema(document)
    assert accepting(schema)(value) == (not list(schema.validate(value)))


@pytest.mark.parametrize(
    ("usage", "accepted"),
    [({"cpu": "1500m", "memory": 7}, True), ({"cpu": "many"}, False), ({"cpu": 1.5}, False), (1, False)],
)
def test_it_reaches_into_lists_of_a_shipped_schema(usage: Any, accepted: bool) -> None:
    [definition] = data.documents("crds", "nodemetrics.slo.koordinator.sh.yaml")
    schema = Schema(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    pod = {"namespace": "a", "name": "b", "podUsage": {"resources": usage}}
    assert accepting(schema)({"status": {"podsMetric": [pod]}}) is accepted
