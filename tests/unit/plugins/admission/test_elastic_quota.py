"""ElasticQuotas: what is filled in, and what the tree lets pass."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.reading import read
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.topology import QuotaTopology

from ....parity.rules.admission_elasticquota import MUTATE, VALIDATE
from ....parity.rules.admission_review import ask, chains_on, fill

PREFIX = "quota.scheduling.koordinator.sh/"
WEIGHT = f"{PREFIX}shared-weight"
ROOT = "koordinator-root-quota"


def quota(
    name: str,
    parent: str = "",
    min: dict[str, str] | None = None,
    max: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **labels: str,
) -> dict[str, Any]:
    """A quota; labels are written with underscores."""
    own = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()}
    if parent:
        own[f"{PREFIX}parent"] = parent
    return {
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": "q",
            "labels": own,
            "annotations": {f"{PREFIX}{key}": value for key, value in (annotations or {}).items()},
        },
        "spec": {"min": min or {"cpu": "0"}, "max": max or {"cpu": "10"}},
    }


class Stage:
    """The two webhooks on one tree."""

    def __init__(self, *objects: dict[str, Any], **gates: bool) -> None:
        self.cluster = Cluster()
        self.chains = chains_on(self.cluster, [MUTATE, VALIDATE], gates)
        fill(self.cluster, list(objects))

    @property
    def topology(self) -> QuotaTopology:
        return self.cluster.shared(QuotaTopology)

    def ask(self, path: str, operation: str, new: Any, old: Any = None, **request: Any) -> dict[str, Any]:
        resource = {"group": "scheduling.sigs.k8s.io", "version": "v1alpha1", "resource": "elasticquotas"}
        sent = {"uid": "u", "operation": operation, "resource": resource, "object": new, "oldObject": old}
        return ask(self.chains[path], sent | request)

    def default(self, new: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata after defaulting."""
        answer = self.ask(MUTATE, "CREATE", new)
        assert answer["allowed"], answer
        metadata: dict[str, Any] = answer.get("object", new)["metadata"]
        return metadata

    def create(self, new: dict[str, Any], **request: Any) -> str:
        """Return why a creation is refused, empty if it is not."""
        return str(self.ask(VALIDATE, "CREATE", new, **request).get("message", ""))

    def update(self, old: dict[str, Any], new: dict[str, Any]) -> str:
        return str(self.ask(VALIDATE, "UPDATE", new, old).get("message", ""))

    def delete(self, old: dict[str, Any] | None) -> str:
        return str(self.ask(VALIDATE, "DELETE", None, old).get("message", ""))


PARENT = quota("a", min={"cpu": "10"}, is_parent="true")
CHILD = quota("a1", "a", min={"cpu": "4"})


def pod(name: str, namespace: str = "default", quota_name: str = "") -> dict[str, Any]:
    labels = {f"{PREFIX}name": quota_name} if quota_name else {}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels}}


@pytest.mark.parametrize(
    ("weight", "most", "expected"),
    [
        (None, {"memory": "1Mi", "cpu": "120"}, '{"cpu":"120","memory":"1Mi"}'),
        ('{"cpu": 0}', {"cpu": "1"}, '{"cpu": 0}'),
        ('{"cpu":0,"memory":0}', {"memory": "1Mi"}, '{"memory":"0"}'),
        ('{"cpu":0}', {"cpu": "1", "memory": "1Mi"}, '{"cpu":"0","memory":"1Mi"}'),
        ('{"cpu":0}', {"memory": "1Mi"}, '{"memory":"1Mi"}'),
        ("null", {"cpu": "1"}, '{"cpu":"1"}'),
    ],
)
def test_shared_weight_has_the_resources_of_the_maximum(
    weight: str | None, most: dict[str, str], expected: str
) -> None:
    annotations = {} if weight is None else {"shared-weight": weight}
    assert Stage().default(quota("a", max=most, annotations=annotations))["annotations"][WEIGHT] == expected


def test_shared_weight_is_measured_where_it_is_a_default() -> None:
    stage = Stage()
    stage.default(quota("measured", max={"memory": "1Mi", "cpu": "1500m"}))
    stage.default(quota("own", max={"cpu": "1"}, annotations={"shared-weight": '{"cpu":"5"}'}))

    def weight(name: str, resource: str) -> float | None:
        labels = {"elasticquota_name": name, "resource_name": resource}
        return REGISTRY.get_sample_value("koord_manager_webhook_quota_shared_weight", labels)

    assert (weight("measured", "memory"), weight("measured", "cpu")) == (1048576, 2)
    assert weight("own", "cpu") is None


def test_the_measured_weight_of_a_deleted_quota_is_gone_and_a_dry_run_measures_none() -> None:
    stage = Stage()
    gone, tried = quota("gone", max={"cpu": "1"}), quota("tried", max={"cpu": "1"})
    stage.default(gone)
    stage.cluster.store(ElasticQuota).put(read(gone))
    stage.cluster.store(ElasticQuota).discard("q/gone")
    stage.ask(MUTATE, "CREATE", tried, dryRun=True)
    for name in ("gone", "tried"):
        labels = {"elasticquota_name": name, "resource_name": "cpu"}
        assert REGISTRY.get_sample_value("koord_manager_webhook_quota_shared_weight", labels) is None


def test_parent_defaults_to_the_root_and_tree_comes_from_the_parent() -> None:
    stage = Stage(quota("a", is_parent="true", tree_id="t1"))
    assert stage.default(quota("b"))["labels"] == {f"{PREFIX}parent": ROOT}
    assert stage.default(quota("a1", "a"))["labels"][f"{PREFIX}tree-id"] == "t1"
    answer = stage.ask(MUTATE, "CREATE", quota("c1", "c"))
    assert (answer["code"], answer["message"]) == (400, "fill quota c1 failed, parent not exist")


def test_root_quota_gets_no_defaults() -> None:
    assert "object" not in Stage().ask(MUTATE, "CREATE", quota(ROOT))


def test_valid_creation_counts_before_the_watch_shows_it() -> None:
    stage = Stage(PARENT)
    assert stage.create(CHILD) == ""
    assert stage.create(CHILD) == "AddQuota quota already exist:a1"
    assert stage.create(quota("a2", "a", min={"cpu": "7"})).startswith("checkMinQuotaSum all brothers'")
    assert stage.topology.children_of("a") == ["a1"]


def test_dry_run_leaves_the_tree_alone() -> None:
    stage = Stage(PARENT)
    assert stage.create(CHILD, dryRun=True) == ""
    assert stage.topology.get("a1") is None


@pytest.mark.parametrize(
    ("new", "problem"),
    [
        (quota("b", max={"cpu": "-1"}), "b quota.Spec.Max's value < 0, in dimensions :[cpu]"),
        (quota("b", min={"cpu": "11"}), "resourceKey cpu of quota b min 11 > max 10"),
        (quota("b", min={"gpu": "1"}), "resourceKey gpu of quota b is included in min, which is not"),
        (quota("b", annotations={"shared-weight": '{"cpu":-1}'}), "in dimension :[cpu]"),
        (quota("b", "x"), "b has parentName x but not find parentInfo in quotaInfoMap"),
        (quota("b", "a1"), "b has parentName a1 but the parentQuotaInfo's IsParent is false"),
        (quota("b", "a", tree_id="t"), "b tree id is different from parent a, [t] vs []"),
        (quota("b", "a", max={"gpu": "1"}, min={"gpu": "0"}), "a's max keys are not the same with b's"),
        (quota("b", annotations={"namespaces": '["n1"]'}), "namespace n1 is already bound to quota a2"),
        (quota("b", max={"x": "-1", "cpu": "-1"}), "b quota.Spec.Max's value < 0, in dimensions :[cpu x]"),
        (
            quota("b", annotations={"shared-weight": '{"x":-1,"cpu":-1}'}),
            f"b quota.Annotation[{WEIGHT}]'s value < 0, in dimension :[cpu x]",
        ),
        (quota("b", annotations={"shared-weight": '{"cpu":"x"}'}), "quantity 'x': expected digits"),
        (
            quota("b", "a", min={"x": "0"}, max={"cpu": "10", "x": "10"}),
            "failed to check sub and parent group quotaKey, err: checkSubAndParentGroupQuotaKey failed: "
            "a's max keys are not the same with b's",
        ),
    ],
)
def test_inconsistent_quota_is_refused(new: dict[str, Any], problem: str) -> None:
    bound = quota("a2", "a", annotations={"namespaces": '["n1"]'})
    stage = Stage(PARENT, CHILD, bound)
    assert problem in stage.create(new)
    assert stage.topology.get("b") is None


def test_minimum_names_only_what_the_parents_minimum_names() -> None:
    most = {"cpu": "10", "memory": "1Gi"}
    parent = quota("a", min={"cpu": "10"}, max=most, is_parent="true")
    assert Stage(parent).create(quota("a1", "a", min={"memory": "0"}, max=most)) == (
        "failed to check sub and parent group quotaKey, err: checkSubAndParentGroupQuotaKey failed: "
        "a1's min keys are not all included in a's"
    )


def test_new_keys_of_a_parent_are_refused_by_the_name_of_the_child() -> None:
    wider = quota("a", min={"cpu": "10"}, max={"cpu": "10", "memory": "1Gi"}, is_parent="true")
    assert "checkSubAndParentGroupQuotaKey failed: a1's max keys are not the same with a's" in Stage(
        PARENT, CHILD
    ).update(PARENT, wider)


def test_a_tree_begins_below_the_root_quota_and_reaches_down_to_known_children() -> None:
    root = quota(ROOT, is_parent="true")
    assert Stage(root).create(quota("a", tree_id="t", is_parent="true")) == ""
    assert Stage(quota("a1", "a")).create(quota("a", tree_id="t", is_parent="true")) == (
        "a tree id is different from child a1, [t] vs []"
    )


def test_key_update_gate_requires_inclusion_only() -> None:
    parent = quota("a", max={"cpu": "10", "memory": "1Gi"}, is_parent="true")
    assert "not the same" in Stage(parent).create(CHILD | {"spec": {"max": {"cpu": "1"}}})
    gated = Stage(parent, ElasticQuotaEnableUpdateResourceKey=True)
    assert gated.create(CHILD | {"spec": {"max": {"cpu": "1"}}}) == ""


def test_force_update_skips_the_sums() -> None:
    stage = Stage(PARENT)
    assert stage.create(quota("a1", "a", min={"cpu": "10"}, max={"cpu": "11"})) == ""
    assert stage.create(quota("a2", "a", min={"cpu": "1"}, allow_force_update="true")) == ""


def test_update_that_keeps_place_and_amounts_is_not_judged() -> None:
    unknown = quota("x", "nowhere", annotations={"namespaces": '["n"]'})
    assert Stage().update(unknown, unknown | {"status": {"used": {"cpu": "1"}}}) == ""
    assert "not exist" in Stage().update(unknown, quota("x", "nowhere", max={"cpu": "10000m"}))


def test_quota_moves_to_its_new_parent() -> None:
    other = quota("b", min={"cpu": "10"}, is_parent="true")
    stage = Stage(PARENT, CHILD, other)
    assert stage.update(CHILD, quota("a1", "b", min={"cpu": "4"})) == ""
    assert (stage.topology.children_of("a"), stage.topology.children_of("b")) == ([], ["a1"])


def test_quota_with_pods_does_not_become_a_parent() -> None:
    leaf = quota("b", annotations={"namespaces": '["n1"]'})
    for obstacle in (pod("p", quota_name="b"), pod("p", "b"), pod("p", "n1")):
        assert "quota has bound pods" in Stage(leaf, obstacle).update(leaf, quota("b", is_parent="true"))
    assert Stage(leaf, pod("p")).update(leaf, quota("b", is_parent="true")) == ""


def test_quota_with_children_stays_a_parent() -> None:
    assert "quota has children" in Stage(PARENT, CHILD).update(PARENT, quota("a", min={"cpu": "10"}))


def test_reserved_quotas_are_kept() -> None:
    stage = Stage()
    for name in (ROOT, "koordinator-system-quota"):
        assert stage.update(quota(name), quota(name, max={"cpu": "1"})) == f"invalid quota {name}"
    for name in (ROOT, "koordinator-system-quota", "koordinator-default-quota"):
        assert stage.delete(quota(name)) == f"can not delete quotaGroup :{name}"


def test_quota_in_use_is_not_deleted() -> None:
    pods = [pod(f"p{index}", quota_name="a1") for index in range(3)]
    stage = Stage(PARENT, CHILD, *pods)
    assert stage.delete(PARENT) == "delete quota failed, quota a has 1 child quotas"
    assert stage.delete(CHILD) == "delete quota failed, quota a1 has 3 child pods: p0, p1, ..."
    assert stage.delete(None) == "not found quota:"
    assert Stage(PARENT, CHILD).delete(CHILD) == ""


def test_a_deletion_is_validated_again_until_the_watch_shows_it() -> None:
    stage = Stage(PARENT, CHILD)
    assert [stage.delete(CHILD), stage.delete(CHILD)] == ["", ""]
    stage.cluster.store(ElasticQuota).discard("q/a1")
    assert stage.delete(CHILD) == "not found quota:a1"


@pytest.mark.parametrize(
    ("minimum", "sibling", "passes"), [("5", "2", True), ("7", "3", True), ("8", "3", False)]
)
def test_ancestors_guarantee_the_minimum(minimum: str, sibling: str, passes: bool) -> None:
    parent = quota(
        "a",
        min={"cpu": "11"},
        max={"cpu": "20"},
        is_parent="true",
        tree_id="t",
        annotations={"guaranteed": '{"cpu":"10"}'},
    )
    brother = quota(
        "a2", "a", tree_id="t", max={"cpu": "20"}, annotations={"guaranteed": f'{{"cpu":"{sibling}"}}'}
    )
    parent["spec"]["min"] = {"cpu": "10"}
    own = quota(
        "a1",
        "a",
        min={"cpu": minimum},
        max={"cpu": "20"},
        tree_id="t",
        annotations={"guaranteed": '{"cpu":"6"}'},
    )
    problem = Stage(parent, brother, ElasticQuotaGuaranteeUsage=True).create(own)
    assert problem == ("" if passes else "tree root quota a can't guarantee for min a1")


@pytest.mark.parametrize("parent", ["nowhere", "b"])
def test_a_guarantee_needs_ancestors_up_to_the_root(parent: str) -> None:
    """Neither an unknown ancestor nor a circle of them guarantees anything."""
    small = {"guaranteed": '{"cpu":"1"}'}
    above = quota("a", parent, min={"cpu": "5"}, is_parent="true", tree_id="t", annotations=small)
    below = quota("b", "a", min={"cpu": "10"}, is_parent="true", tree_id="t", annotations=small)
    stage = Stage(above, below, ElasticQuotaGuaranteeUsage=True)
    assert stage.create(quota("a2", "b", min={"cpu": "4"}, tree_id="t")) == f"parent {parent} not found a2"


def test_deletion_in_the_watch_frees_namespaces() -> None:
    bound = quota("a2", annotations={"namespaces": '["n1"]'})
    stage = Stage(bound)
    found = stage.topology.find("x", "n1")
    assert found is not None
    assert found.name == "a2"
    stage.topology.deleted(read(bound))
    assert stage.topology.find("x", "n1") is None


def test_a_namespace_changes_hands_in_whatever_order_a_list_has_them() -> None:
    bound = {"namespaces": '["n1"]'}
    stage = Stage(quota("a"), quota("b", annotations=bound))
    fill(stage.cluster, [quota("a", annotations=bound)])
    fill(stage.cluster, [quota("b")])
    found = stage.topology.find("x", "n1")
    assert found is not None
    assert found.name == "a"


NAMES = st.sampled_from("abcd")


@given(st.lists(st.tuples(NAMES, NAMES | st.just(""), st.booleans()), max_size=12))
def test_tree_equals_one_rebuilt_from_the_quotas_there_are(events: list[tuple[str, str, bool]]) -> None:
    stage = Stage()
    there: dict[str, dict[str, Any]] = {}
    for name, parent, is_deletion in events:
        if is_deletion and name in there and not stage.topology.children_of(name):
            stage.cluster.store(ElasticQuota).discard(f"q/{name}")
            del there[name]
        elif not is_deletion:
            there[name] = quota(name, parent)
            fill(stage.cluster, [there[name]])
    rebuilt = Stage(*there.values()).topology
    assert stage.topology.infos == rebuilt.infos
    assert families(stage.topology) == families(rebuilt)


def families(topology: QuotaTopology) -> dict[str, list[str]]:
    return {name: topology.children_of(name) for name in topology.children if topology.children[name]}
