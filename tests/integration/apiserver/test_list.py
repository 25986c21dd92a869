"""GET of a collection: selectors, pages of one snapshot, and what becomes of old ones."""

from collections.abc import Callable

import pytest

from tests.integration.apiserver.objects import config_map, labelled, node, pod, running
from tests.integration.apiserver.rest import Collection, Rest, names, ok, refused
from tests.integration.apiserver.server import Server


def test_list_has_kind_version_and_its_items_in_order_of_name(filled: Collection) -> None:
    listed = ok(filled.list(), 200)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert names(listed) == ["a", "b", "c", "d", "e"]


def test_empty_list_has_no_items_but_a_version(maps: Collection) -> None:
    listed = ok(maps.list())
    assert listed["items"] == []
    assert int(listed["metadata"]["resourceVersion"]) > 0


def test_items_carry_neither_kind_nor_version(filled: Collection) -> None:
    for item in ok(filled.list())["items"]:
        assert "kind" not in item
        assert "apiVersion" not in item


def test_version_of_a_list_is_not_below_its_items(filled: Collection) -> None:
    listed = ok(filled.list())
    newest = max(int(item["metadata"]["resourceVersion"]) for item in listed["items"])
    assert int(listed["metadata"]["resourceVersion"]) >= newest


def test_list_over_all_namespaces_is_in_order_of_namespace_then_name(
    rest: Rest, unique: Callable[[str], str]
) -> None:
    mark = unique("mark")
    namespaces = sorted(unique("conformance") for _ in range(2))
    for name in reversed(namespaces):
        ok(rest.collection("namespaces").create({"metadata": {"name": name}}), 201)
        for item in ("b", "a"):
            ok(rest.collection("configmaps", name).create(config_map(item, {"mark": mark})), 201)
    listed = ok(rest.collection("configmaps").list(labelSelector=f"mark={mark}"))
    found = [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed["items"]]
    assert found == [(namespace, item) for namespace in namespaces for item in ("a", "b")]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=web", "ab"),
        ("tier==web", "ab"),
        ("tier!=web", "cde"),
        ("tier in (web,db)", "abc"),
        ("tier in (db)", "c"),
        ("tier notin (web)", "cde"),
        ("tier", "abc"),
        ("!tier", "de"),
        ("tier,tier!=db", "ab"),
        ("tier=web,tier=db", ""),
        ("tier=", ""),
    ],
)
def test_label_selector_selects(filled: Collection, selector: str, expected: str) -> None:
    assert names(ok(filled.list(labelSelector=selector))) == list(expected)


@pytest.mark.parametrize("selector", ["tier in web", "a b", "tier in (web", "=web", "tier=no spaces"])
def test_label_selector_that_is_none_is_400(filled: Collection, selector: str) -> None:
    refused(filled.list(labelSelector=selector), 400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "expected"),
    [("metadata.name=a", "a"), ("metadata.name==b", "b"), ("metadata.name!=a", "bcde"), ("", "abcde")],
)
def test_field_selector_selects_by_name(filled: Collection, selector: str, expected: str) -> None:
    assert names(ok(filled.list(fieldSelector=selector))) == list(expected)


def test_field_selector_selects_by_namespace(rest: Rest, filled: Collection, namespace: str) -> None:
    listed = ok(rest.collection("configmaps").list(fieldSelector=f"metadata.namespace={namespace}"))
    assert names(listed) == ["a", "b", "c", "d", "e"]


def test_label_and_field_selectors_both_hold(filled: Collection) -> None:
    assert names(ok(filled.list(labelSelector="tier=web", fieldSelector="metadata.name!=a"))) == ["b"]


def test_pods_are_selected_by_node_phase_and_scheduler(rest: Rest, pods: Collection, namespace: str) -> None:
    running(rest, namespace, pod("bound"), "node-1")
    ok(pods.create(pod("waiting")), 201)
    ok(pods.create(pod("other", schedulerName="other")), 201)

    def select(selector: str) -> list[str]:
        return names(ok(pods.list(fieldSelector=selector)))

    assert select("spec.nodeName=node-1") == ["bound"]
    assert select("spec.nodeName=") == ["other", "waiting"]
    assert select("spec.nodeName!=") == ["bound"]
    assert select("status.phase=Running") == ["bound"]
    assert select("status.phase!=Running,spec.schedulerName=default-scheduler") == ["waiting"]
    assert select("spec.schedulerName=other") == ["other"]


def test_nodes_are_selected_by_unschedulable(rest: Rest, unique: Callable[[str], str]) -> None:
    mark = unique("mark")
    nodes = rest.collection("nodes")
    ok(nodes.create(node(f"{mark}-a", {"mark": mark}, unschedulable=True)), 201)
    ok(nodes.create(node(f"{mark}-b", {"mark": mark})), 201)
    listed = ok(nodes.list(labelSelector=f"mark={mark}", fieldSelector="spec.unschedulable=true"))
    assert names(listed) == [f"{mark}-a"]


def test_field_that_cannot_be_selected_is_400(filled: Collection) -> None:
    status = refused(filled.list(fieldSelector="data.key=x"), 400, "BadRequest")
    assert "data.key" in status["message"]


def test_pages_together_are_the_list(filled: Collection) -> None:
    pages = [ok(filled.list(limit=2))]
    while token := pages[-1]["metadata"].get("continue"):
        pages.append(ok(filled.list(limit=2, **{"continue": token})))
    assert [names(page) for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]


def test_pages_are_one_snapshot(filled: Collection) -> None:
    first = ok(filled.list(limit=2))
    ok(filled.create(config_map("bb")), 201)
    ok(filled.delete("c"))
    ok(filled.patch("d", {"data": {"late": "yes"}}))
    second = ok(filled.list(limit=10, **{"continue": first["metadata"]["continue"]}))
    assert names(second) == ["c", "d", "e"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert all("late" not in item.get("data", {}) for item in second["items"])


def test_page_may_end_exactly_with_the_list(filled: Collection) -> None:
    listed = ok(filled.list(limit=5))
    assert names(listed) == ["a", "b", "c", "d", "e"]
    assert "continue" not in listed["metadata"]


def test_pages_of_a_selection_do_not_tell_how_many_remain(filled: Collection) -> None:
    first = ok(filled.list(limit=1, labelSelector="tier"))
    assert names(first) == ["a"]
    assert "remainingItemCount" not in first["metadata"]
    rest = ok(filled.list(labelSelector="tier", **{"continue": first["metadata"]["continue"]}))
    assert names(rest) == ["b", "c"]


def test_continue_that_is_no_token_is_400(filled: Collection) -> None:
    refused(filled.list(limit=2, **{"continue": "nonsense"}), 400, "BadRequest")


def test_continue_excludes_a_resource_version(filled: Collection) -> None:
    token = ok(filled.list(limit=2))["metadata"]["continue"]
    refused(filled.list(limit=2, resourceVersion="5", **{"continue": token}), 400, "BadRequest")


def test_list_may_ask_for_any_known_state(filled: Collection) -> None:
    # Version 0 may be answered from a cache that is still catching up.
    listed = ok(filled.list(resourceVersion="0"))
    assert listed["kind"] == "ConfigMapList"
    assert int(listed["metadata"]["resourceVersion"]) > 0


def test_list_may_ask_for_a_state_not_older_than(filled: Collection) -> None:
    version = ok(filled.list())["metadata"]["resourceVersion"]
    listed = ok(filled.list(resourceVersion=version, resourceVersionMatch="NotOlderThan"))
    assert names(listed) == ["a", "b", "c", "d", "e"]
    assert int(listed["metadata"]["resourceVersion"]) >= int(version)


def test_list_may_ask_for_an_exact_state(filled: Collection) -> None:
    version = ok(filled.list())["metadata"]["resourceVersion"]
    ok(filled.delete("a"))
    listed = ok(filled.list(resourceVersion=version, resourceVersionMatch="Exact"))
    assert names(listed) == ["a", "b", "c", "d", "e"]
    assert listed["metadata"]["resourceVersion"] == version


def test_version_match_needs_a_version(filled: Collection) -> None:
    refused(filled.list(resourceVersionMatch="Exact"), 422, "Invalid")


def test_resource_version_that_is_none_is_refused(filled: Collection) -> None:
    assert filled.list(resourceVersion="abc").status_code == 400


def test_state_that_was_forgotten_is_gone(apiserver: Server, filled: Collection) -> None:
    version = ok(filled.create(config_map("f")), 201)["metadata"]["resourceVersion"]
    ok(filled.delete("f"))
    apiserver.forget()
    refused(filled.list(resourceVersion=version, resourceVersionMatch="Exact"), 410, "Expired")


def test_page_of_a_forgotten_snapshot_is_gone(apiserver: Server, filled: Collection) -> None:
    token = ok(filled.list(limit=2))["metadata"]["continue"]
    ok(filled.delete("e"))
    apiserver.forget()
    status = refused(filled.list(limit=2, **{"continue": token}), 410, "Expired")
    # The answer carries a token that goes on inconsistently from the same place, for who does not mind.
    fresh = status["metadata"]["continue"]
    assert names(ok(filled.list(limit=2, **{"continue": fresh}))) == ["c", "d"]


def test_labels_of_listed_objects_are_theirs(maps: Collection) -> None:
    ok(maps.create(labelled(config_map("x"), a="1")), 201)
    (item,) = ok(maps.list())["items"]
    assert item["metadata"]["labels"] == {"a": "1"}
