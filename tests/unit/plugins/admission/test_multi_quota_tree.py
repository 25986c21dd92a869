from typing import Any

import pytest

from .pods import mutated, pod, profile

PREFIX = "quota.scheduling.koordinator.sh"
POOL = {"matchLabels": {"pool": "a"}}
IN_POOL = {"key": "pool", "operator": "In", "values": ["a"]}


def quota(
    name: str, tree: str, *, namespace: str = "kube-system", bound: str | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": {f"{PREFIX}/tree-id": tree}}
    if bound is not None:
        metadata["annotations"] = {f"{PREFIX}/namespaces": bound}
    return {"kind": "ElasticQuota", "metadata": metadata}


def tree(tree_id: str = "t", selector: Any = POOL, name: str = "profile") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kube-system", "labels": {f"{PREFIX}/tree-id": tree_id}}
    return {"kind": "ElasticQuotaProfile", "metadata": metadata, "spec": {"nodeSelector": selector}}


def terms(*objects: dict[str, Any], quota_name: str = "q", gate: bool = True, **spec: Any) -> Any:
    """Return the node selector terms of a pod of a quota after admission."""
    submitted = pod(labels={f"{PREFIX}/name": quota_name}, **spec)
    out = mutated(submitted, *objects, MultiQuotaTree=gate)
    node = out["spec"].get("affinity", {}).get("nodeAffinity", {})
    return node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")


def affinity(*terms: Any) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_pod_of_a_tree_gets_the_selector_of_its_nodes() -> None:
    selector = {
        "matchLabels": {"z": "1", "a": "2"},
        "matchExpressions": [
            {"key": "x", "operator": "Exists"},
            {"key": "x", "operator": "Odd", "values": ["1"]},
        ],
    }
    assert terms(quota("q", "t"), tree(selector=selector)) == [
        {
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["2"]},
                {"key": "z", "operator": "In", "values": ["1"]},
                {"key": "x", "operator": "Exists"},
                {"key": "x", "operator": "Odd", "values": ["1"]},
            ]
        }
    ]


def test_every_term_of_the_pod_is_narrowed() -> None:
    own = {"key": "own", "operator": "Exists"}
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    found = terms(quota("q", "t"), tree(), affinity=affinity({"matchExpressions": [own]}, fields))
    assert found == [{"matchExpressions": [own, IN_POOL]}, fields | {"matchExpressions": [IN_POOL]}]


def test_empty_list_of_terms_gets_one() -> None:
    assert terms(quota("q", "t"), tree(), affinity=affinity()) == [{"matchExpressions": [IN_POOL]}]


def test_empty_selector_makes_a_term_that_no_node_meets() -> None:
    assert terms(quota("q", "t"), tree(selector={})) == [{}]


def test_pod_without_a_label_belongs_to_the_quota_named_like_its_namespace() -> None:
    assert terms(quota("ns", "t"), tree(), quota_name="") == [{"matchExpressions": [IN_POOL]}]


def test_pod_of_an_unknown_quota_belongs_to_the_one_its_namespace_is_bound_to() -> None:
    bound = quota("other", "t", bound='["ns", null]')
    assert terms(bound, tree(), quota_name="unknown") == [{"matchExpressions": [IN_POOL]}]


@pytest.mark.parametrize("sent", ["ns", ""])
def test_pod_that_a_profile_moves_belongs_to_the_quota_of_its_new_namespace(sent: str) -> None:
    submitted = pod()
    submitted["metadata"]["namespace"] = sent
    objects = [quota("ns", "other"), quota("elsewhere", "t"), tree()]
    move = profile(patch={"metadata": {"namespace": "elsewhere"}})
    out = mutated(submitted, *objects, move, MultiQuotaTree=True)
    assert out["spec"]["affinity"] == affinity({"matchExpressions": [IN_POOL]})


@pytest.mark.parametrize(
    "objects",
    [
        [tree()],
        [quota("q", "t")],
        [quota("q", ""), tree("")],
        [quota("q", "t"), tree("other")],
        [quota("q", "t"), tree(selector=None)],
        [quota("other", "t", bound="ns"), tree()],
        [quota("other", "t", bound='["ns", 1]'), tree()],
    ],
    ids=["no quota", "no profile", "no tree", "other tree", "no selector", "not JSON", "not texts"],
)
def test_pod_without_a_tree_stays(objects: list[dict[str, Any]]) -> None:
    assert terms(*objects) is None


def test_gate_switches_it_on() -> None:
    assert terms(quota("q", "t"), tree(), gate=False) is None


def test_of_several_profiles_of_a_tree_the_first_by_namespace_and_name_counts() -> None:
    profiles = [tree(selector={"matchLabels": {"pool": name}}, name=name) for name in "bac"]
    [term] = terms(quota("q", "t"), *profiles)
    assert term == {"matchExpressions": [IN_POOL]}
