import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api import json_patch
from koordpy.api.document import Document, DocumentError
from koordpy.api.patch import equal
from koordpy.api.strategic_merge import StrategicMergeError

SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b/c", "~", 1.0])
NAMES = st.sampled_from(["a", "b", "c/d", "e~f", ""])


def values(leaves: int = 6) -> st.SearchStrategy[Any]:
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=leaves,
    )


OBJECTS = st.dictionaries(NAMES, values(12), max_size=4)
PATHS = st.lists(NAMES | st.integers(0, 3), min_size=1, max_size=4).map(tuple)
EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "remove", "append", "insert", "update"]), PATHS, values(), OBJECTS),
    max_size=12,
)


def edit(
    document: Document, kind: str, path: tuple[str | int, ...], value: Any, after: dict[str, Any]
) -> None:
    match kind:
        case "set":
            document.set(path, value)
        case "remove":
            document.remove(path)
        case "append":
            document.append(path, value)
        case "insert":
            document.insert(path, value)
        case "update":
            document.update(copy.deepcopy(after))


@settings(max_examples=400)
@given(OBJECTS, EDITS)
def test_operations_applied_to_the_original_give_the_edited_document(original: Any, edits: Any) -> None:
    document = Document(copy.deepcopy(original))
    for one in edits:
        before = copy.deepcopy(document.raw)
        try:
            edit(document, *one)
        except DocumentError:
            assert equal(document.raw, before)
    operations = json.loads(document.patch_bytes())
    assert equal(json_patch.apply(original, operations), document.raw)
    assert equal(jsonpatch.apply_patch(original, operations), document.raw)


@given(OBJECTS, OBJECTS)
def test_update_makes_the_document_equal_to_the_given_one(original: Any, after: Any) -> None:
    document = Document(copy.deepcopy(original))
    assert document.update(after) is (not equal(original, after))
    assert equal(document.raw, after)
    assert document.changed is (not equal(original, after))


@given(OBJECTS, PATHS, SCALARS)
def test_setting_a_value_twice_records_one_operation(original: Any, path: Any, value: Any) -> None:
    document = Document(copy.deepcopy(original))
    try:
        document.set(path, value)
    except DocumentError:
        return
    recorded = document.operations
    assert len(recorded) <= 1
    assert document.set(path, value) is False
    assert document.operations == recorded


def test_labels_are_created_where_the_pod_has_none() -> None:
    document = Document({"metadata": {"name": "p"}})
    document.set(("metadata", "labels", "koordinator.sh/qosClass"), "BE")
    document.set(("metadata", "labels", "tier"), "batch")
    assert document.operations == [
        {"op": "add", "path": "/metadata/labels", "value": {"koordinator.sh/qosClass": "BE", "tier": "batch"}}
    ]


def test_null_annotations_are_replaced_by_an_object() -> None:
    document = Document({"metadata": {"annotations": None}})
    document.set(("metadata", "annotations", "a"), "1")
    assert document.operations == [{"op": "replace", "path": "/metadata/annotations", "value": {"a": "1"}}]


def test_metadata_is_created_with_its_first_label() -> None:
    document = Document({})
    document.set(("metadata", "labels", "a"), "1")
    assert document.operations == [{"op": "add", "path": "/metadata", "value": {"labels": {"a": "1"}}}]


def test_resource_names_of_a_container_are_translated_in_place() -> None:
    requests = ("spec", "containers", 1, "resources", "requests")
    document = Document(
        {"spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}}
    )
    document.set((*requests, "kubernetes.io/batch-cpu"), "1000")
    assert document.remove((*requests, "cpu"))
    assert document.operations == [
        {
            "op": "add",
            "path": "/spec/containers/1/resources/requests/kubernetes.io~1batch-cpu",
            "value": "1000",
        },
        {"op": "remove", "path": "/spec/containers/1/resources/requests/cpu"},
    ]


@pytest.mark.parametrize("value", ["x", 1, None, {"a": [1]}, [{}]])
def test_setting_an_equal_value_records_nothing(value: Any) -> None:
    document = Document({"a": copy.deepcopy(value)})
    assert document.set(("a",), value) is False
    assert document.operations == []
    assert not document.changed


def test_one_and_true_are_different_values() -> None:
    document = Document({"a": 1})
    assert document.set(("a",), True)
    assert document.operations == [{"op": "replace", "path": "/a", "value": True}]


def test_an_edit_that_is_undone_leaves_no_operation() -> None:
    document = Document({"a": "1", "b": {}})
    document.set(("a",), "2")
    document.set(("a",), "1")
    document.set(("b", "new"), "x")
    document.remove(("b", "new"))
    assert document.operations == []


def test_removing_a_member_that_was_edited_records_the_removal_only() -> None:
    document = Document({"a": {"b": {"c": 1, "d": 2}}})
    document.set(("a", "b", "c"), 2)
    document.remove(("a", "b"))
    assert document.operations == [{"op": "remove", "path": "/a/b"}]


def test_setting_a_removed_member_replaces_it() -> None:
    document = Document({"a": 1})
    document.remove(("a",))
    document.set(("a",), 2)
    assert document.operations == [{"op": "replace", "path": "/a", "value": 2}]


def test_a_replaced_object_that_gets_its_edited_value_back_is_still_replaced() -> None:
    original = {"labels": {"a": "1"}}
    document = Document(copy.deepcopy(original))
    document.set(("labels", "a"), "2")
    document.set(("labels",), {"b": "3"})
    document.set(("labels",), {"a": "2"})
    assert json_patch.apply(original, document.operations) == {"labels": {"a": "2"}}


def test_values_that_are_set_are_copied() -> None:
    constant = {"a": "1"}
    document = Document({})
    document.set(("labels",), constant)
    document.set(("labels", "b"), "2")
    assert constant == {"a": "1"}


def test_removing_what_is_not_there_records_nothing() -> None:
    document = Document({"a": {}})
    assert not document.remove(("a", "b"))
    assert not document.remove(("x", "y", "z"))
    assert document.operations == []


def test_append_creates_an_absent_list() -> None:
    document = Document({"spec": {}})
    document.append(("spec", "schedulingGates"), {"name": "g"})
    document.append(("spec", "schedulingGates"), {"name": "h"})
    assert document.operations == [
        {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "g"}, {"name": "h"}]}
    ]


def test_edits_of_an_appended_item_become_part_of_it() -> None:
    document = Document({"tolerations": [{"key": "a"}]})
    document.append(("tolerations",), {"key": "b"})
    document.set(("tolerations", 1, "effect"), "NoSchedule")
    assert document.operations == [
        {"op": "add", "path": "/tolerations/-", "value": {"key": "b", "effect": "NoSchedule"}}
    ]


def test_a_strategic_merge_patch_is_recorded_as_its_differences() -> None:
    document = Document({"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}})
    assert document.merge({"spec": {"containers": [{"name": "b", "image": "z"}]}}, "Pod")
    assert document.operations == [{"op": "replace", "path": "/spec/containers/1/image", "value": "z"}]


def test_a_strategic_merge_patch_that_fails_changes_nothing() -> None:
    document = Document({"spec": {"containers": [{"name": "a"}]}})
    with pytest.raises(StrategicMergeError, match=r"spec\.containers.*merge key 'name'"):
        document.merge({"metadata": {"name": "x"}, "spec": {"containers": [{"image": "z"}]}}, "Pod")
    assert document.raw == {"spec": {"containers": [{"name": "a"}]}}
    assert not document.changed


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("spec", "containers", 2, "name"), r"spec\.containers\[2\]\.name: 2 is no position in a list of 1"),
        (("spec", "containers", "a"), r"'a' is no position in a list of 1"),
        (("spec", "nodeName", "x"), r"spec\.nodeName\.x: 'x' needs an object around it, got a string"),
        (("spec", 0), r"spec\[0\]: expected a list, got an object"),
        (("spec", "volumes", 0, "name"), r"there is no list for position 0"),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(path: Any, message: str) -> None:
    document = Document({"spec": {"containers": [{}], "nodeName": "n"}})
    with pytest.raises(DocumentError, match=message):
        document.set(path, "x")
    assert not document.changed


def test_get_reads_through_absent_and_null_parents() -> None:
    document = Document({"metadata": {"labels": None}, "spec": {"containers": [{"name": "a"}]}})
    assert document.get(("metadata", "labels", "a")) is None
    assert document.get(("metadata", "annotations", "a"), "") == ""
    assert document.get(("spec", "containers", 0, "name")) == "a"
