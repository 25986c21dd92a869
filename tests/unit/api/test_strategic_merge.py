from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import strategic_merge
from koordpy.api.patch_types import patch_types
from koordpy.api.strategic_merge import StrategicMergeError


def containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    return {"spec": spec}


MERGES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "null removes a member": (
        {"labels": {"a": "1", "b": "2"}},
        {"labels": {"a": None}},
        {"labels": {"b": "2"}},
    ),
    "null of an absent member is dropped": ({}, {"labels": {"a": None, "b": "1"}}, {"labels": {"b": "1"}}),
    "finalizers are merged as a set": (
        {"finalizers": ["a", "b"]},
        {"finalizers": ["b", "c"]},
        {"finalizers": ["a", "b", "c"]},
    ),
    "$deleteFromPrimitiveList removes finalizers": (
        {"finalizers": ["a", "b", "c"]},
        {"$deleteFromPrimitiveList/finalizers": ["a", "c", "x"]},
        {"finalizers": ["b"]},
    ),
    "$deleteFromPrimitiveList of an absent list does nothing": (
        {"name": "p"},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"name": "p"},
    ),
    "$deleteFromPrimitiveList with null removes the list": (
        {"finalizers": ["a"], "name": "p"},
        {"$deleteFromPrimitiveList/finalizers": None},
        {"name": "p"},
    ),
    "$setElementOrder orders a set of scalars": (
        {"finalizers": ["a", "b", "c"]},
        {"$setElementOrder/finalizers": ["c", "a"]},
        {"finalizers": ["b", "c", "a"]},
    ),
    "$patch delete empties a map": ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
    "$patch replace replaces a map": (
        {"labels": {"a": "1"}},
        {"labels": {"$patch": "replace", "b": "2"}},
        {"labels": {"b": "2"}},
    ),
    "a map with $patch is dropped where there is nothing": (
        {"name": "p"},
        {"labels": {"$patch": "replace", "b": "2"}},
        {"name": "p"},
    ),
    "$patch null is a null where there is nothing": (
        {"name": "p"},
        {"labels": {"$patch": None, "b": "2"}},
        {"name": "p", "labels": {"b": "2"}},
    ),
    "field names match without regard to case": (
        {"ownerreferences": [{"uid": "a"}]},
        {"ownerreferences": [{"uid": "b"}]},
        {"ownerreferences": [{"uid": "b"}, {"uid": "a"}]},
    ),
    "$retainKeys drops what it does not name": (
        {"name": "p", "labels": {"a": "1"}, "annotations": {"x": "y"}},
        {"$retainKeys": ["name", "labels"], "labels": {"b": "2"}},
        {"name": "p", "labels": {"a": "1", "b": "2"}},
    ),
    "merge keys of different JSON types are different": (
        {"ownerReferences": [{"uid": "1", "name": "text"}]},
        {"ownerReferences": [{"uid": 1, "name": "number"}]},
        {"ownerReferences": [{"uid": 1, "name": "number"}, {"uid": "1", "name": "text"}]},
    ),
    "an empty list merged with an empty list stays": (
        {"ownerReferences": []},
        {"ownerReferences": []},
        {"ownerReferences": []},
    ),
}

SPECS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "an item is merged by its key": (
        {"containers": [{"name": "a", "image": "x", "env": [{"name": "E", "value": "1"}]}]},
        {"containers": [{"name": "a", "env": [{"name": "F", "value": "2"}]}]},
        {
            "containers": [
                {
                    "name": "a",
                    "image": "x",
                    "env": [{"name": "F", "value": "2"}, {"name": "E", "value": "1"}],
                }
            ]
        },
    ),
    "a new item goes first": (
        {"containers": containers("a", "b")},
        {"containers": containers("x")},
        {"containers": containers("x", "a", "b")},
    ),
    "a new item after a known one keeps its place": (
        {"containers": containers("a", "b")},
        {"containers": containers("b", "x")},
        {"containers": containers("a", "b", "x")},
    ),
    "$setElementOrder orders the items": (
        {"containers": containers("a", "b", "c")},
        {
            "$setElementOrder/containers": containers("c", "b", "a"),
            "containers": [{"name": "b", "image": "x"}],
        },
        {"containers": [{"name": "c"}, {"name": "b", "image": "x"}, {"name": "a"}]},
    ),
    "$setElementOrder stays as a member where the object is new": (
        {"hostname": "h"},
        {"affinity": {"$setElementOrder/x": [], "nodeAffinity": {}}},
        {"hostname": "h", "affinity": {"$setElementOrder/x": [], "nodeAffinity": {}}},
    ),
    "$patch delete removes an item": (
        {"containers": containers("a", "b")},
        {"containers": [{"name": "a", "$patch": "delete"}, {"name": "x", "$patch": "delete"}]},
        {"containers": containers("b")},
    ),
    "$patch replace in an item replaces the list": (
        {"containers": containers("a", "b")},
        {"containers": [{"$patch": "replace"}, {"name": "c"}]},
        {"containers": containers("c")},
    ),
    "directive items are dropped where the list is new": (
        {"hostname": "h"},
        {"containers": [{"name": "a", "$patch": "delete"}, {"name": "b"}]},
        {"hostname": "h", "containers": containers("b")},
    ),
    "an appended item keeps its nulls": (
        {"containers": containers("a")},
        {"containers": [{"name": "b", "image": None}]},
        {"containers": [{"name": "b", "image": None}, {"name": "a"}]},
    ),
    "tolerations are replaced whole": (
        {"tolerations": [{"key": "a"}]},
        {"tolerations": [{"key": "b", "value": None}]},
        {"tolerations": [{"key": "b", "value": None}]},
    ),
    "$retainKeys swaps the source of a volume": (
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]},
        {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
    ),
    "a value of another type replaces without nulls": (
        {"affinity": "x"},
        {"affinity": {"nodeAffinity": None, "podAffinity": {}}},
        {"affinity": {"podAffinity": {}}},
    ),
    "ports are merged by containerPort": (
        {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}]}]},
    ),
}

FAILURES: dict[str, tuple[dict[str, Any], dict[str, Any], int, str]] = {
    "an unknown $patch": (
        {"affinity": {}},
        {"affinity": {"$patch": "x"}},
        500,
        r"spec\.affinity: \$patch must be replace or delete, got 'x'",
    ),
    "a $patch of an item to merge": (
        {"containers": containers("a")},
        {"containers": [{"name": "a", "$patch": "merge"}]},
        500,
        r"spec\.containers: \$patch of an item must be delete or replace",
    ),
    "an item without its merge key": (
        {"containers": containers("a")},
        {"containers": [{"image": "x"}]},
        500,
        r"spec\.containers: an item lacks its merge key 'name'",
    ),
    "a deletion without merge key": (
        {"containers": containers("a")},
        {"containers": [{"$patch": "delete"}]},
        500,
        r"lacks its merge key 'name'",
    ),
    "items of different types": (
        {"containers": containers("a")},
        {"containers": ["a"]},
        500,
        r"spec\.containers: the items must be of one type, got object, string",
    ),
    "a list of lists": ({"containers": [[]]}, {"containers": [[]]}, 422, r"a list of lists"),
    "$retainKeys that is no list": (
        {},
        {"$retainKeys": "x"},
        400,
        r"\$retainKeys must be a list, got a string",
    ),
    "$retainKeys that misses a member": (
        {},
        {"$retainKeys": ["hostname"], "subdomain": "x"},
        400,
        r"\$retainKeys does not name 'subdomain'",
    ),
    "$setElementOrder that is no list": (
        {},
        {"$setElementOrder/containers": {}},
        500,
        r"spec\.\$setElementOrder/containers must be a list, got an object",
    ),
    "$setElementOrder without a list name": ({}, {"$setElementOrder": []}, 400, r"\$setElementOrder/LIST"),
    "$setElementOrder against the patch's order": (
        {"containers": containers("a", "b")},
        {"$setElementOrder/containers": containers("a", "b"), "containers": containers("b", "a")},
        500,
        r"spec\.containers: the items of the patch are not in the order of \$setElementOrder",
    ),
    "$setElementOrder of a field that is no list": (
        {},
        {"$setElementOrder/hostname": []},
        500,
        r"spec\.hostname is not a list",
    ),
    "a field that the type lacks": ({"x": {}}, {"x": {}}, 500, r"spec\.x: PodSpec has no such field"),
    "objects inside a map with free keys": (
        {"nodeSelector": {"a": {}}},
        {"nodeSelector": {"a": {}}},
        500,
        r"spec\.nodeSelector\.a: spec\.nodeSelector has no fields",
    ),
    "a place inside an item": (
        {"containers": [{"name": "a", "env": [{"name": "E"}]}]},
        {"containers": [{"name": "a", "env": [{"value": "1"}]}]},
        500,
        r"spec\.containers\[name=a\]\.env: an item lacks",
    ),
}


@pytest.mark.parametrize("case", MERGES)
def test_metadata(case: str) -> None:
    before, patch, after = MERGES[case]
    assert strategic_merge.apply({"metadata": before}, {"metadata": patch}, "Pod") == {"metadata": after}


@pytest.mark.parametrize("case", SPECS)
def test_pod_spec(case: str) -> None:
    before, patch, after = SPECS[case]
    assert strategic_merge.apply(pod(before), pod(patch), "Pod") == pod(after)


@pytest.mark.parametrize("case", FAILURES)
def test_what_cannot_be_merged_is_named(case: str) -> None:
    before, patch, code, message = FAILURES[case]
    with pytest.raises(StrategicMergeError, match=message) as raised:
        strategic_merge.apply(pod(before), pod(patch), "Pod")
    assert raised.value.code == code


@pytest.mark.parametrize("case", SPECS)
def test_arguments_stay_as_they_are(case: str) -> None:
    before, patch, _ = SPECS[case]
    texts = str(before), str(patch)
    result = strategic_merge.apply(before, patch, "PodSpec")
    result["new"] = 1
    assert (str(before), str(patch)) == texts


def test_a_patch_that_is_no_object_is_malformed() -> None:
    with pytest.raises(StrategicMergeError, match="the patch must be an object, got a list") as raised:
        strategic_merge.apply({}, [], "Pod")
    assert raised.value.code == 400


def test_a_null_patch_changes_nothing() -> None:
    assert strategic_merge.apply({"a": 1}, None, "Pod") == {"a": 1}


def test_custom_resources_have_no_merge_keys() -> None:
    assert not strategic_merge.supports("NodeMetric")
    with pytest.raises(StrategicMergeError) as raised:
        strategic_merge.apply({}, {}, "NodeMetric")
    assert raised.value.code == 415


def test_the_template_of_a_reservation_is_merged_like_a_pod() -> None:
    before = {
        "spec": {"owners": [{"object": {"name": "a"}}], "template": pod({"containers": containers("a", "b")})}
    }
    patch = {"spec": {"owners": [{}], "template": pod({"containers": [{"name": "b", "image": "x"}]})}}
    assert strategic_merge.apply(before, patch, "Reservation") == {
        "spec": {
            "owners": [{}],
            "template": pod({"containers": [{"name": "a"}, {"name": "b", "image": "x"}]}),
        }
    }


def test_the_selector_of_a_disruption_budget_is_replaced_whole() -> None:
    before = {"spec": {"selector": {"matchLabels": {"a": "1"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"b": "2"}}}}
    assert strategic_merge.apply(before, patch, "PodDisruptionBudget") == patch


def test_service_ports_are_merged_by_port() -> None:
    before = {"spec": {"ports": [{"port": 80, "name": "http"}]}}
    patch = {"spec": {"ports": [{"port": 80, "nodePort": 30080}]}}
    assert strategic_merge.apply(before, patch, "Service") == {
        "spec": {"ports": [{"port": 80, "name": "http", "nodePort": 30080}]}
    }


def test_every_field_refers_to_a_known_type() -> None:
    types = patch_types()
    unknown = {field.type for type_ in types.values() for field in type_._fields.values()} - {"", *types}
    assert not unknown


NAMES = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@given(NAMES, NAMES)
def test_a_merged_list_holds_every_item_once_with_both_orders_kept(
    current: list[str], patch: list[str]
) -> None:
    before = pod({"containers": containers(*current)})
    result = strategic_merge.apply(before, pod({"containers": containers(*patch)}), "Pod")
    names = [item["name"] for item in result["spec"]["containers"]]
    assert sorted(names) == sorted({*current, *patch})
    assert [name for name in names if name in patch] == patch
    others = [name for name in current if name not in patch]
    assert [name for name in names if name not in patch] == others


def test_values_that_are_nested_too_deeply_are_refused() -> None:
    value: Any = {}
    for _ in range(200_000):
        value = {"a": value}
    with pytest.raises(StrategicMergeError, match="nested too deeply"):
        strategic_merge.apply({}, value, "Pod")
    while value:  # one level at a time: freeing the whole at once would go as deep
        value = value.pop("a")
