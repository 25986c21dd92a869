"""The quota tree, from what the watch shows and from changes that were found valid."""

from typing import Any

import pytest

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import ROOT, QuotaInfo
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.topology import QuotaTopology

PREFIX = "quota.scheduling.koordinator.sh/"


def quota(name: str, parent: str = "", namespaces: str = "", **labels: str) -> ElasticQuota:
    labels = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()}
    if parent:
        labels[f"{PREFIX}parent"] = parent
    annotations = {f"{PREFIX}namespaces": namespaces} if namespaces else {}
    metadata = {"name": name, "namespace": "q", "labels": labels, "annotations": annotations}
    spec = {"min": {"cpu": "1"}, "max": {"cpu": "2"}}
    return decode(ElasticQuota, {"metadata": metadata, "spec": spec})


def info(*given: Any, **labels: str) -> QuotaInfo:
    return QuotaInfo.of(quota(*given, **labels))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def tree(cluster: Cluster) -> QuotaTopology:
    return cluster.shared(QuotaTopology)


def show(cluster: Cluster, *quotas: ElasticQuota) -> None:
    for each in quotas:
        cluster.store(ElasticQuota).apply(each)


def test_a_namespace_follows_the_quota_that_binds_it(cluster: Cluster, tree: QuotaTopology) -> None:
    show(cluster, quota("a", namespaces='["n1","n2"]'), quota("b", namespaces='["n3"]'))
    assert tree.by_namespace == {"n1": "a", "n2": "a", "n3": "b"}
    show(cluster, quota("a", namespaces='["n2","n4"]'))
    assert tree.by_namespace == {"n2": "a", "n3": "b", "n4": "a"}
    found = tree.find("unknown", "n4")
    assert found is not None
    assert found.name == "a"
    assert tree.find("b", "n4") is tree.get("b")
    assert tree.find("unknown", "n1") is None
    cluster.store(ElasticQuota).discard("q/a")
    assert tree.by_namespace == {"n3": "b"}


def test_of_two_quotas_that_bind_a_namespace_the_later_one_keeps_it(
    cluster: Cluster, tree: QuotaTopology
) -> None:
    show(cluster, quota("a", namespaces='["n"]'), quota("b", namespaces='["n"]'))
    assert tree.by_namespace == {"n": "b"}
    cluster.store(ElasticQuota).discard("q/a")
    assert tree.by_namespace == {"n": "b"}


def test_children_outlive_their_parent(cluster: Cluster, tree: QuotaTopology) -> None:
    show(cluster, quota("a"), quota("a1", "a"), quota("a2", "a"))
    cluster.store(ElasticQuota).discard("q/a")
    assert tree.get("a") is None
    assert tree.children_of("a") == ["a1", "a2"]
    assert tree.children_of(ROOT) == []
    show(cluster, quota("a"))
    assert tree.children_of("a") == ["a1", "a2"]


def test_events_about_quotas_and_parents_that_were_never_shown_are_taken(tree: QuotaTopology) -> None:
    tree.deleted(quota("gone", "never", '["n"]'))
    assert tree.snapshot() == {"quotas": {}, "children": {}, "namespaces": {}}
    tree.updated(quota("x", "never"), quota("x", "b"))
    assert tree.children_of("b") == ["x"]
    assert tree.children_of("never") == []


def test_what_was_found_valid_is_unconfirmed_until_the_watch_shows_it(
    cluster: Cluster, tree: QuotaTopology
) -> None:
    tree.add(info("a", "", '["n1"]'))
    assert set(tree.unconfirmed()) == {"a"}
    assert tree.by_namespace == {"n1": "a"}
    show(cluster, quota("a", namespaces='["n1"]'))
    assert set(tree.unconfirmed()) == set()

    tree.replace(info("a", "b", '["n2"]'), ("n1",))
    assert set(tree.unconfirmed()) == {"a"}
    assert tree.by_namespace == {"n2": "a"}
    assert (tree.children_of(ROOT), tree.children_of("b")) == ([], ["a"])
    show(cluster, quota("a", "b", '["n2"]'))
    assert set(tree.unconfirmed()) == set()

    tree.remove("a", "b", ("n2",))
    assert set(tree.unconfirmed()) == {"a"}
    assert tree.by_namespace == {}
    assert tree.get("a") is None
    cluster.store(ElasticQuota).discard("q/a")
    assert set(tree.unconfirmed()) == set()


def test_the_watch_undoes_what_the_api_server_rejects_after_all(
    cluster: Cluster, tree: QuotaTopology
) -> None:
    show(cluster, quota("p"), quota("r"), quota("a", "p", '["n1"]'))
    before = tree.document(), dict(tree.by_namespace)
    touched = quota("a", "p", '["n1"]', touched="yes")

    tree.remove("a", "p", ("n1",))
    show(cluster, touched)
    assert (tree.document(), tree.by_namespace) == before

    tree.replace(info("a", "r", '["n2"]'), ("n1",))
    show(cluster, quota("a", "p", '["n1"]'))
    assert (tree.document(), tree.by_namespace) == before

    tree.replace(info("a", "r", '["n2"]'), ("n1",))
    cluster.store(ElasticQuota).discard("q/a")
    assert (tree.children_of("p"), tree.children_of("r"), tree.by_namespace) == ([], [], {})
    assert set(tree.unconfirmed()) == set()


def test_a_quota_that_is_created_anew_begins_without_children(tree: QuotaTopology) -> None:
    tree.added(quota("a1", "a"))
    assert tree.children_of("a") == ["a1"]
    tree.add(info("a"))
    assert tree.children_of("a") == []


def test_the_snapshot_has_quotas_families_and_namespaces(cluster: Cluster, tree: QuotaTopology) -> None:
    show(cluster, quota("b", namespaces='["n"]'), quota("a2", "b"), quota("a1", "b"))
    assert tree.snapshot() == {
        "quotas": {"b": info("b", "", '["n"]'), "a1": info("a1", "b"), "a2": info("a2", "b")},
        "children": {ROOT: ["b"], "b": ["a1", "a2"]},
        "namespaces": {"n": "b"},
    }


def test_the_document_is_koordinators(cluster: Cluster, tree: QuotaTopology) -> None:
    show(cluster, quota("b", is_parent="true", allow_lent_resource="false"), quota("a", "b"))
    amounts = {"max": {"cpu": "2"}, "min": {"cpu": "1"}}
    assert tree.document() == {
        "quotaInfoMap": {
            "a": {"name": "a", "parentName": "b", "isParent": False, "allowLentResource": True, **amounts},
            "b": {"name": "b", "parentName": ROOT, "isParent": True, "allowLentResource": False, **amounts},
        },
        "quotaHierarchyInfo": {"a": [], "b": ["a"], ROOT: ["b"]},
    }
    assert list(tree.document()["quotaInfoMap"]) == ["a", "b"]
