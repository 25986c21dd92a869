"""After any events the quota trees are as if they had been built from all objects."""

import json
import os
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import format_time
from koordpy.cluster.cluster import Cluster
from koordpy.testing.objects import NOW, Document
from koordpy.testing.random_objects import NODES, Kind
from koordpy.testing.rebuild import check_rebuild, rebuilt
from koordpy_plugins.scheduling.elasticquota.state.settings import QuotaSettings
from koordpy_plugins.scheduling.elasticquota.state.trees import QuotaTrees

from ..quota_world import World

SEEDS = int(os.environ.get("KOORDPY_REBUILD_SEEDS", "30"))

SPECIAL = ("koordinator-default-quota", "koordinator-system-quota", "koordinator-root-quota")
NAMES = ("a", "b", "c", "d", "e")
QUOTAS = tuple(f"q/{name}" for name in (*NAMES, *SPECIAL))
"""Their names are their namespaces' too, so that pods of the namespace `a` may be in the quota `a`."""
NAMESAKES = ("a/a", "b/b", "q2/c")
PODS = tuple(f"{namespace}/{name}" for namespace in ("a", "b", "x", "y") for name in ("p0", "p1", "p2"))

_PREFIX = "quota.scheduling.koordinator.sh"


def amounts(rng: Random, *names: str) -> Document:
    return {name: str(rng.randint(0, 9)) for name in names if rng.random() < 0.8}


def quota(rng: Random, name: str) -> Document:
    """Return a quota: mostly in a tree without gaps, since the parents of most are created first."""
    if name in SPECIAL:
        most = amounts(rng, "cpu", "memory") if rng.random() < 0.5 else {"cpu": "50", "memory": "50"}
        return {"metadata": {}, "spec": {"max": most}}
    above = NAMES[: NAMES.index(name)] if rng.random() < 0.9 else [each for each in NAMES if each != name]
    labels = {extension.LABEL_QUOTA_IS_PARENT: rng.choice(("true", "false"))}
    if above and rng.random() < 0.6:
        labels[extension.LABEL_QUOTA_PARENT] = rng.choice(above)
    if rng.random() < 0.4:
        labels[extension.LABEL_QUOTA_ALLOW_LENT_RESOURCE] = "false"
    annotations = {}
    if rng.random() < 0.3:
        annotations[extension.ANNOTATION_QUOTA_NAMESPACES] = json.dumps(rng.sample(("x", "y", "z"), 2))
    if rng.random() < 0.3:
        annotations[extension.ANNOTATION_QUOTA_SHARED_WEIGHT] = json.dumps(amounts(rng, "cpu", "memory"))
    if rng.random() < 0.3:
        labels[extension.LABEL_QUOTA_TREE_ID] = tree = rng.choice("tu")
        if rng.random() < 0.5:
            labels[extension.LABEL_QUOTA_IS_ROOT] = "true"
            annotations[extension.ANNOTATION_QUOTA_TOTAL_RESOURCE] = json.dumps(amounts(rng, "cpu", tree))
            if rng.random() < 0.3:
                labels[extension.LABEL_QUOTA_IGNORE_DEFAULT_TREE] = "true"
    # Of several quotas of a namespace the oldest counts; those of one second have no certain order.
    since = format_time(NOW - timedelta(seconds=rng.randint(0, 10**8)))
    metadata: Document = {"labels": labels, "annotations": annotations, "creationTimestamp": since}
    if rng.random() < 0.05:
        metadata["deletionTimestamp"] = format_time(NOW)
    spec = {"min": amounts(rng, "cpu", "memory"), "max": amounts(rng, "cpu", "memory", "x.io/gpu")}
    if rng.random() < 0.1:
        del spec["min"]
    return {"metadata": metadata, "spec": spec}


def pod(rng: Random, name: str) -> Document:
    labels = {}
    if rng.random() < 0.5:
        labels[extension.LABEL_QUOTA_NAME] = rng.choice((*NAMES, SPECIAL[2]))
    if rng.random() < 0.3:
        labels[f"{_PREFIX}/preemptible"] = "false"
    on = rng.choice(("", *NODES))
    return {
        "metadata": {"labels": labels},
        "spec": {
            "nodeName": on,
            "containers": [
                {"name": "c", "resources": {"requests": amounts(rng, "cpu", "memory", "x.io/gpu")}}
            ],
        },
        "status": {"phase": rng.choice(("Running", "Running", "Running", "Failed")) if on else "Pending"},
    }


KINDS = (Kind(ElasticQuota, (*QUOTAS, *NAMESAKES), quota), Kind(Pod, PODS, pod))

SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "guarantees_usage": {"guarantees_usage": True},
    "multi_tree": {"multi_tree": True},
    "multi_tree_and_guarantees": {"multi_tree": True, "guarantees_usage": True},
    "label_only": {"label_only": True, "multi_tree": True},
    "no_scaling": {"scales_min": False},
}


def assume(trees: QuotaTrees, rng: Random) -> Any:
    """Count a pod between filter and Reserve, or one that has passed Reserve."""
    waiting = [
        pod
        for pod in trees.cluster.store(Pod)
        if not pod.spec.node_name and not pod.is_terminal and pod.metadata.uid not in trees.unconfirmed()
    ]
    if not waiting:
        return None
    chosen = rng.choice(sorted(waiting, key=lambda pod: pod.metadata.key))
    if rng.random() < 0.5:
        trees.charge(chosen)
        return lambda: trees.discharge(chosen.metadata.uid)
    trees.reserve(chosen)
    return lambda: trees.unreserve(chosen)


def make(settings: QuotaSettings) -> Any:
    def shared(cluster: Cluster) -> QuotaTrees:
        trees = cluster.shared(QuotaTrees, settings)
        trees.managers  # noqa: B018 - events before the first reading are not followed one by one
        return trees

    return shared


@pytest.mark.parametrize("settings", SETTINGS)
def test_trees_equal_a_rebuild_after_any_events(settings: str) -> None:
    defaults: dict[str, Any] = {
        "default_max": (("cpu", 50), ("memory", 50)),
        "system_max": (("cpu", 50), ("memory", 50)),
    }
    made = make(QuotaSettings(**defaults, **SETTINGS[settings]))
    check_rebuild(made, kinds=KINDS, assume=assume, seeds=range(SEEDS), steps=80)


CHANGES: dict[str, dict[str, Any]] = {
    "the minimum of a quota that does not lend": {"name": "shy", "least": 9, "allow_lent_resource": "false"},
    "a quota that does not lend any more": {"name": "leaf", "least": 3, "allow_lent_resource": "false"},
    "the maximum of a parent": {"name": "top", "most": 50},
    "another parent": {"name": "leaf", "parent": "other"},
    "the place of a quota with children": {"name": "middle", "parent": "other"},
    "a new quota": {"name": "new", "parent": "top", "least": 3},
    "the namespaces of a quota": {"name": "leaf", "parent": "middle", "namespaces": ["default"]},
    "the default quota": {"name": SPECIAL[0], "most": 7},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("guarantees", [False, True])
def test_a_change_of_a_quota_does_not_build_the_trees_anew(change: str, guarantees: bool) -> None:
    world = World(ElasticQuotaGuaranteeUsage=guarantees)
    world.node("n", 100)
    for name, parent in (("top", ""), ("other", ""), ("middle", "top"), ("leaf", "middle")):
        world.quota(name, parent, least=2, most=40)
    world.quota("shy", "middle", least=4, allow_lent_resource="false")
    for number in range(3):
        world.pod(f"p{number}", "leaf" if number else "", 5, node="n")
    tree = world.trees.managers.default
    what = dict(CHANGES[change])
    bound = what.pop("namespaces", [])
    changed = world.quota(**what)
    if bound:
        annotations = {extension.ANNOTATION_QUOTA_NAMESPACES: json.dumps(bound)}
        metadata = {"name": changed.metadata.name, "namespace": "quotas", "annotations": annotations}
        world.put(ElasticQuota, {"metadata": metadata, "spec": {"max": {"cpu": "40"}}})
    assert world.trees.managers.default is tree
    assert (
        world.trees.snapshot() == rebuilt(world.cluster).shared(QuotaTrees, world.trees.settings).snapshot()
    )


def test_a_quota_without_its_parent_does_not_count_until_the_parent_exists() -> None:
    world = World()
    world.node("n", 100)
    world.quota("leaf", "top", least=2, most=40)
    world.pod("p", "leaf", 5)
    assert world.trees.refresh_runtime("leaf") is None
    world.quota("top", most=40)
    assert {name: str(each) for name, each in (world.trees.refresh_runtime("leaf") or {}).items()} == {
        "cpu": "5"
    }


def test_a_quota_with_an_amount_that_cannot_be_read_is_left_out() -> None:
    world = World()
    world.node("n", 100)
    world.quota("leaf", most=40)
    bad = {"metadata": {"name": "bad", "namespace": "quotas"}, "spec": {"max": {"cpu": "many"}}}
    world.put(ElasticQuota, bad)
    assert world.trees.quota("bad") is None
    assert world.trees.quota("leaf") is not None


def test_a_reserved_pod_that_changes_its_quota_is_taken_back_there() -> None:
    world = World()
    world.node("n", 100)
    world.quota("a", most=40)
    world.quota("b", most=40)
    pod = world.pod("p", "a", 5)
    world.trees.reserve(pod)
    world.pod("p", "b", 6)
    assert (world.used("a"), world.used("b")) == ("0", "6")
    world.trees.unreserve(pod)
    assert world.used("b") == "0"


def test_minimums_are_scaled_to_nothing_where_the_default_quota_uses_all_there_is() -> None:
    world = World()
    world.node("n", 10)
    world.quota("a", least=4, most=40)
    world.pod("greedy", "", 10, node="n")
    world.trees.refresh_all()
    info = world.trees.quota("a")
    assert info is not None
    assert str(info.auto_scale_min["cpu"]) == "0"
    again = rebuilt(world.cluster).shared(QuotaTrees, world.trees.settings)
    assert world.trees.snapshot() == again.snapshot()
