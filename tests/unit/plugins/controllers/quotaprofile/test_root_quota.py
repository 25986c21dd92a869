"""Root quotas: tree ids, resources of nodes, ratios, resource keys, and what is written to a stored quota."""

from typing import Any

import pytest

from koordpy.api.core import Node
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.label_selector import SelectorError
from koordpy.api.scheme import decode
from koordpy_plugins.controllers.quotaprofile.root_quota import (
    NodeResources,
    RootQuota,
    resource_keys,
    tree_id,
)

PREFIX = "quota.scheduling.koordinator.sh/"
MAX = "4611686018427387"


def node(name: str, *, ready: str | None = "True", unschedulable: bool = False, **amounts: str) -> Node:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    document = {
        "metadata": {"name": name, "labels": {"pool": "a"}},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": amounts, "conditions": conditions},
    }
    return decode(Node, document)


def profile(ratio: str | None = None, selector: Any = None, **spec: Any) -> ElasticQuotaProfile:
    document: dict[str, Any] = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"quotaName": "root-a", "nodeSelector": {} if selector is None else selector, **spec},
    }
    if ratio is not None:
        document["spec"]["resourceRatio"] = ratio
    return decode(ElasticQuotaProfile, document)


def shown(amounts: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [("", "profile1", "2862972692226656278"), ("kube-system", "profile1", "9816276314407088615")],
)
def test_a_tree_without_name_is_named_by_a_hash_of_its_profile(
    namespace: str, name: str, expected: str
) -> None:
    assert tree_id(namespace, name) == expected


def test_nodes_that_take_no_pods_count_in_total_and_apart() -> None:
    nodes = [
        node("n1", cpu="4", memory="8Gi"),
        node("n2", cpu="2", ready="Unknown"),
        node("n3", cpu="1", unschedulable=True, ready=None),
    ]
    found = NodeResources.of(profile(), nodes)
    assert shown(found.total) == {"cpu": "7", "memory": "8Gi"}
    assert shown(found.unschedulable) == {"cpu": "3"}


@pytest.mark.parametrize(("selector", "cpus"), [(None, 0), ({}, 1), ({"matchLabels": {"pool": "b"}}, 0)])
def test_a_missing_selector_selects_nothing_and_an_empty_one_everything(selector: Any, cpus: int) -> None:
    made = profile(selector=selector or {})
    if selector is None:
        made = decode(ElasticQuotaProfile, {"metadata": {"name": "p"}, "spec": {"nodeSelector": None}})
    found = NodeResources.of(made, [node("n1", cpu="1")])
    assert len(found.total) == cpus


def test_an_invalid_selector_is_an_error() -> None:
    selector = {"matchExpressions": [{"key": "pool", "operator": "Near"}]}
    with pytest.raises(SelectorError):
        NodeResources.of(profile(selector=selector), [])


@pytest.mark.parametrize(
    ("ratio", "cpu", "memory"),
    [
        (None, "3999m", "1001"),
        ("0.5", "1999m", "500"),
        ("0x1p-1", "1999m", "500"),
        ("1", "3999m", "1001"),
        ("1.5", "3999m", "1001"),
        ("0", "3999m", "1001"),
        ("-1", "3999m", "1001"),
        ("NaN", "3999m", "1001"),
        (" 0.5", "3999m", "1001"),
        ("half", "3999m", "1001"),
    ],
)
def test_a_usable_ratio_scales_and_truncates(ratio: str | None, cpu: str, memory: str) -> None:
    found = NodeResources.of(profile(ratio), [node("n1", cpu="3999m", memory="1001")])
    assert shown(found.total) == {"cpu": cpu, "memory": memory}


def test_an_unusable_ratio_still_rounds_to_whole_units() -> None:
    found = NodeResources.of(profile("none"), [node("n1", cpu="1500u", memory="1500m")])
    assert shown(found.total) == {"cpu": "2m", "memory": "2"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ["cpu", "memory"]),
        ('["cpu","nvidia.com/gpu"]', ["cpu", "nvidia.com/gpu"]),
        ('["a",1,"b"]', ["a", "memory", "b"]),
        ("[null,null,null]", ["cpu", "memory", ""]),
        ("[]", []),
        ("null", []),
        ('"cpu"', ["cpu", "memory"]),
        ('{"a":1}', ["cpu", "memory"]),
        ('["cpu"] x', ["cpu", "memory"]),
        ("", ["cpu", "memory"]),
    ],
)
def test_resource_keys_replace_the_default_by_position(text: str | None, expected: list[str]) -> None:
    assert resource_keys({} if text is None else {f"{PREFIX}resource-keys": text}) == expected


def test_labels_of_the_profile_do_not_hide_that_the_quota_is_a_root() -> None:
    made = profile(quotaLabels={f"{PREFIX}is-root": "false", f"{PREFIX}profile": "mine", "team": "a"})
    quota = RootQuota.of(made, "7", NodeResources({}, {}))
    assert quota.labels == {
        f"{PREFIX}is-root": "true",
        f"{PREFIX}profile": "mine",
        f"{PREFIX}tree-id": "7",
        "team": "a",
    }
    assert shown(quota.min) == {"cpu": "0", "memory": "0"}
    assert shown(quota.max) == {"cpu": MAX, "memory": MAX}


def stored(**changes: Any) -> ElasticQuota:
    wanted = RootQuota.of(profile(), "7", NodeResources.of(profile(), [node("n1", cpu="2", memory="1Gi")]))
    document = wanted.document("n", "root-a")
    for path, value in changes.items():
        document["spec"][path] = value
    return decode(ElasticQuota, document)


def test_nothing_is_written_to_a_quota_that_is_right() -> None:
    wanted = RootQuota.of(profile(), "7", NodeResources.of(profile(), [node("n1", cpu="2", memory="1Gi")]))
    assert wanted.patch(stored()) == {}
    assert wanted.patch(stored(min={"cpu": "2000m", "memory": "1024Mi"})) == {}


def test_amounts_are_replaced_as_a_whole_and_labels_of_others_stay() -> None:
    wanted = RootQuota.of(profile(), "8", NodeResources.of(profile(), [node("n1", cpu="3", memory="1Gi")]))
    quota = stored(max={"cpu": MAX, "memory": MAX, "gone": "1"})
    quota.metadata.labels["team"] = "a"
    patch = wanted.patch(quota)
    assert patch["spec"] == {"min": {"cpu": "3"}, "max": {"gone": None}}
    assert patch["metadata"]["labels"] == {f"{PREFIX}tree-id": "8"}
    assert patch["metadata"]["annotations"] == {f"{PREFIX}total-resource": '{"cpu":"3","memory":"1Gi"}'}
