from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import json_merge
from koordpy.api.json_merge import JSONMergeError
from koordpy.api.patch import equal


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": [1]}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({"a": None}, {"a": {"b": None}}, {"a": {}}),
        ({}, {"a": [None, {"b": None}, [{"c": None}]]}, {"a": [None, {}, [{}]]}),
        ({"a": 1}, {"a": [{"b": None}]}, {"a": [{}]}),
        ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
        ({"a": {"b": {}}}, {"a": {"b": [None, {"c": None}]}}, {"a": {"b": [None, {"c": None}]}}),
        ([1], {"a": {"b": None}}, {"a": {}}),
        ({"a": 1}, [{"b": None}, None], [{}, None]),
    ],
)
def test_merge_patches_apply_as_in_kube_apiserver(document: Any, patch: Any, result: Any) -> None:
    assert equal(json_merge.apply(document, patch), result)


@pytest.mark.parametrize("patch", [None, 1, "x", True])
def test_a_patch_that_is_a_scalar_is_malformed(patch: Any) -> None:
    with pytest.raises(JSONMergeError, match="expected an object") as raised:
        json_merge.apply({}, patch)
    assert raised.value.code == 400


VALUES = st.recursive(
    st.none() | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(OBJECTS, OBJECTS)
def test_arguments_stay_as_they_are_and_are_not_shared(document: Any, patch: Any) -> None:
    before = repr((document, patch))
    result = json_merge.apply(document, patch)
    for value in result.values():
        if isinstance(value, dict | list):
            value.clear()
    assert repr((document, patch)) == before


@given(OBJECTS)
def test_an_empty_patch_changes_nothing(document: Any) -> None:
    assert equal(json_merge.apply(document, {}), document)


def test_values_that_are_nested_too_deeply_are_refused() -> None:
    value: Any = {}
    for _ in range(200_000):
        value = {"a": value}
    with pytest.raises(JSONMergeError, match="nested too deeply"):
        json_merge.apply({}, value)
    while value:  # one level at a time: freeing the whole at once would go as deep
        value = value.pop("a")


FULL = st.recursive(
    st.integers(0, 2) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from("abc"), FULL), st.dictionaries(st.sampled_from("abc"), FULL))
def test_the_difference_of_two_objects_turns_one_into_the_other(before: Any, after: Any) -> None:
    patch = json_merge.diff(before, after)
    assert equal(json_merge.apply(before, patch), after)
    assert bool(patch) is not equal(before, after)


def test_the_difference_says_no_more_than_it_must() -> None:
    before = {"metadata": {"labels": {"a": "1", "b": "2"}, "name": "p"}, "spec": {"list": [1, 2]}}
    after = {"metadata": {"labels": {"a": "1", "c": "3"}, "name": "p"}, "spec": {"list": [1, 3]}}
    assert json_merge.diff(before, after) == {
        "metadata": {"labels": {"b": None, "c": "3"}},
        "spec": {"list": [1, 3]},
    }
