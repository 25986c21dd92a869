from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import json_patch
from koordpy.api.json_diff import changes, operation
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


def diff(before: Any, after: Any) -> list[dict[str, Any]]:
    return [operation(*change) for change in changes(before, after)]


def op(kind: str, path: str, **members: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **members}


@given(OBJECTS, OBJECTS)
def test_a_diff_leads_from_one_document_to_the_other(before: Any, after: Any) -> None:
    operations = diff(before, after)
    assert equal(json_patch.apply(before, operations), after)
    assert equal(jsonpatch.apply_patch(before, operations), after)


@given(OBJECTS)
def test_equal_documents_have_no_diff(document: Any) -> None:
    assert diff(document, document) == []


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({"a": 1}, {"a": 1, "b/c": 2}, [op("add", "/b~1c", value=2)]),
        ({"a": 1, "~": 2}, {"a": 1}, [op("remove", "/~0")]),
        ({"a": 1}, {"a": 1.0}, [op("replace", "/a", value=1.0)]),
        ({"l": [1, 2, 3]}, {"l": [1, 3]}, [op("remove", "/l/1")]),
        ({"l": [1, 3]}, {"l": [1, 2, 3]}, [op("add", "/l/1", value=2)]),
        ({"l": [{"a": 1}, 2]}, {"l": [{"a": 2}, 2]}, [op("replace", "/l/0/a", value=2)]),
    ],
)
def test_a_diff_names_what_changed_only(before: Any, after: Any, operations: Any) -> None:
    assert diff(before, after) == operations
