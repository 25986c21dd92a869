from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import json_patch
from koordpy.api.json_patch import JSONPatchError
from koordpy.api.patch import equal

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b/c", "~", 1.0])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b/c", "~d", ""]), inner, max_size=4)
    ),
    max_leaves=15,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "c/d"]), VALUES, max_size=3)


def op(kind: str, path: str, **members: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **members}


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({}, None, {}),
        ({"a": 1}, [op("add", "text/a", value=2)], {"a": 2}),
        ({}, [op("replace", "/a", value=1)], {"a": 1}),
        ({}, [op("add", "/", value=1)], {"": 1}),
        ({}, [op("add", "/a~01~1", value=1)], {"a~1/": 1}),
        ({"a": 1}, [op("replace", "", value=[1])], [1]),
        ([1, 2], [op("add", "/-1", value=3)], [1, 2, 3]),
        ([1, 2], [op("add", "/-3", value=3)], [3, 1, 2]),
        ([1, 2], [op("remove", "/-1")], [1]),
        ([1, 2], [op("replace", "/+01", value=3)], [1, 3]),
        ([1], [op("add", "/-", value=2)], [1, 2]),
        ({}, [op("copy", "/b", **{"from": "/a"})], {"b": None}),
        (
            {"a": {}},
            [op("copy", "/b", **{"from": "/a"}), op("add", "/b/x", value=1)],
            {"a": {}, "b": {"x": 1}},
        ),
        ({"l": [1, 2, 3]}, [op("move", "/l/2", **{"from": "/l/0"})], {"l": [2, 3, 1]}),
        ({}, [op("test", "/a", value=None), op("test", "/a")], {}),
        ({}, [op("add", "/a", value=None), op("test", "/a", value=None)], {"a": None}),
        ({"a": {"b": None}}, [op("test", "/a", value={"b": None})], {"a": {"b": None}}),
    ],
)
def test_operations_apply_as_in_kube_apiserver(document: Any, operations: Any, result: Any) -> None:
    assert equal(json_patch.apply(document, operations), result)


@pytest.mark.parametrize(
    ("document", "operations", "code", "message"),
    [
        ({}, {}, 400, "expected a list of operations, got an object"),
        ({}, [1], 400, "operation 0: expected an object, got a number"),
        ({}, [None], 422, "operation 0: None at None: unknown op"),
        ({}, [op("add", "/a", value=1), op("set", "/a")], 422, "operation 1: set at '/a': unknown op"),
        ({}, [{"op": "add"}], 422, "add at None: expected a JSON pointer, got null"),
        ({}, [op("add", "a", value=1)], 422, "add at 'a': a path must contain a slash"),
        ({}, [op("add", "", value={})], 422, "a path must contain a slash"),
        ({}, [op("replace", "", value=1)], 422, "replace at '': expected an object or a list, got a number"),
        ({}, [op("add", "/a/b", value=1)], 422, "add at '/a/b': there is nothing around 'b'"),
        ({"a": "x"}, [op("add", "/a/b", value=1)], 422, "there is no object or list around 'b'"),
        ({}, [op("remove", "/a")], 422, "remove at '/a': can't remove a non-existent object 'a'"),
        ([1], [op("remove", "/1")], 422, "position 1 is outside of a list of 1"),
        ([1], [op("replace", "/-", value=1)], 422, "'-' is not a list position"),
        ([1], [op("add", "/99999999999999999999", value=1)], 422, "is outside of a list of 1"),
        ({"a": 1}, [op("test", "/a", value=1.0)], 422, "test at '/a': the document holds another value"),
        ({"a": 1}, [op("test", "/a", value=True)], 422, "test at '/a': the document holds another value"),
        (
            {"a": {}},
            [op("move", "/a/b", **{"from": "/a"})],
            422,
            "move at '/a/b': there is nothing around 'b'",
        ),
        ({}, [op("add", "/a", value=None), op("test", "/a")], 422, "operation 1: test at '/a': the document"),
        ({}, [op("test", "/a")] * 10_001, 413, "10001 operations, at most 10000"),
        (
            {"a": "x" * 2_000_000},
            [op("copy", "/b", **{"from": "/a"})] * 2,
            413,
            "copies exceed 3145728 bytes",
        ),
    ],
)
def test_what_does_not_apply_is_named(document: Any, operations: Any, code: int, message: str) -> None:
    with pytest.raises(JSONPatchError) as raised:
        json_patch.apply(document, operations)
    assert message in str(raised.value)
    assert raised.value.code == code


def test_number_texts_are_distinguished_as_decimals() -> None:
    document = {"a": Decimal("1.50")}
    assert json_patch.apply(document, [op("test", "/a", value=Decimal("1.50"))]) == document
    with pytest.raises(JSONPatchError):
        json_patch.apply(document, [op("test", "/a", value=1.5)])


@given(
    OBJECTS, st.lists(st.tuples(st.sampled_from(["add", "replace", "remove", "test"]), VALUES), max_size=4)
)
def test_arguments_stay_as_they_are_and_are_not_shared(document: Any, edits: Any) -> None:
    operations = [op(kind, "/a", value=value) for kind, value in edits]
    before = repr((document, operations))
    try:
        result = json_patch.apply(document, operations)
    except JSONPatchError:
        result = {}
    for value in result.values():
        if isinstance(value, dict | list):
            value.clear()
    assert repr((document, operations)) == before


def test_values_that_are_nested_too_deeply_are_refused() -> None:
    value: Any = {}
    for _ in range(200_000):
        value = {"a": value}
    with pytest.raises(JSONPatchError, match="nested too deeply"):
        json_patch.apply({}, [op("add", "/a", value=value)])
    while value:  # one level at a time: freeing the whole at once would go as deep
        value = value.pop("a")
