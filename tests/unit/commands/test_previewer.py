"""What a profile would do to pods, against a world of a few pods in files."""

from typing import Any

import pytest

from koordpy.commands.known import Access, NothingGiven
from koordpy.commands.preview import preview
from koordpy.commands.previewer import Preview, workload_of

MANAGED = {"config.koordinator.sh/controller-managed": "true"}
BATCH: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "koord-batch"},
    "value": 5000,
}


def profile(name: str = "p", marks: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name, "labels": marks or {}},
        "spec": spec,
    }


def pod(
    name: str, app: str = "spark", *, owner: str = "", node: str = "n", cpu: str = "1", **spec: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "ns", "uid": name, "labels": {"app": app}}
    if owner:
        kind, _, owner_name = owner.partition("/")
        metadata["ownerReferences"] = [{"kind": kind, "name": owner_name, "controller": True}]
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"priority": 0, "nodeName": node, "containers": [container], **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }


async def previewed(new: list[dict[str, Any]], *there: dict[str, Any], **options: Any) -> Preview:
    return await preview(new, list(there), access=Access(), **options)


def changes(found: Preview) -> list[tuple[str, str, Any, Any]]:
    [group] = found.groups
    return [(change.op, change.path, change.before, change.after) for change in group.changes]


SPARK: dict[str, Any] = {"selector": {"matchLabels": {"app": "spark"}}}


async def test_pods_that_a_new_profile_selects_are_listed_by_workload() -> None:
    pods = [pod(f"a-{i}", owner="StatefulSet/a") for i in range(3)] + [pod("b"), pod("c", "web")]
    found = await previewed([profile(**SPARK, schedulerName="koord-scheduler")], *pods)
    assert [(item.name, item.status, item.pods) for item in found.profiles] == [("p", "new", 4)]
    assert (found.pods, found.touched, found.refused, found.pending, found.patched) == (5, 4, 0, 0, 0)
    assert changes(found) == [("add", "/spec/schedulerName", None, "koord-scheduler")]
    [group] = found.groups
    assert group.changes[0].cause == "ClusterColocationProfile p: schedulerName"
    assert [(item.kind, item.name, item.pods, item.example) for item in group.workloads] == [
        ("StatefulSet", "a", 3, "a-0"),
        ("Pod", "b", 1, "b"),
    ]


async def test_a_changed_profile_shows_only_what_is_different() -> None:
    old = profile(**SPARK, schedulerName="one", labels={"x": "1"})
    new = profile(**SPARK, schedulerName="two", labels={"x": "1"})
    found = await previewed([new], old, pod("a"))
    assert found.profiles[0].status == "changed"
    assert changes(found) == [("replace", "/spec/schedulerName", "one", "two")]


async def test_a_profile_that_no_longer_selects_a_pod_is_a_difference() -> None:
    old = profile(**SPARK, schedulerName="one")
    new = profile(selector={"matchLabels": {"app": "web"}}, schedulerName="one")
    found = await previewed([new], old, pod("a"))
    assert found.profiles[0].pods == 0
    assert changes(found) == [("remove", "/spec/schedulerName", "one", None)]
    assert found.groups[0].changes[0].cause == "no longer ClusterColocationProfile p: schedulerName"


async def test_what_an_existing_profile_overwrites_makes_no_difference() -> None:
    later = profile("z", **SPARK, schedulerName="mine")
    found = await previewed([profile("a", **SPARK, schedulerName="other")], later, pod("a"))
    assert (found.profiles[0].pods, found.touched) == (1, 0)
    assert found.groups[0].changes == []


async def test_an_unchanged_profile_touches_nothing() -> None:
    same = profile(**SPARK, schedulerName="one")
    found = await previewed([same], same, pod("a"))
    assert (found.profiles[0].status, found.touched) == ("unchanged", 0)


async def test_values_that_differ_from_pod_to_pod_are_counted() -> None:
    pods = [pod("a", cpu="1"), pod("b", cpu="1"), pod("c", cpu="2")]
    found = await previewed([profile(**SPARK, qosClass="BE", priorityClassName="koord-batch"), BATCH], *pods)
    [group] = found.groups
    by_path = {change.path: change for change in group.changes}
    batch = by_path["/spec/containers/0/resources/requests/kubernetes.io~1batch-cpu"]
    assert (batch.after, batch.values) == ("1k", 2)
    assert by_path["/spec/priority"].values == 1
    assert batch.cause == "resource translation, priority class koord-batch"


async def test_pods_that_admission_would_refuse_come_first() -> None:
    pods = [pod("a"), pod("b", priority=5000), pod("c", priority=5000)]
    found = await previewed([profile(**SPARK, qosClass="BE")], *pods)
    refused, changed = found.groups
    assert found.refused == 1
    assert (refused.pods, changed.pods, changed.refused) == (1, 2, "")
    assert "koordinator.sh/qosClass=BE and priorityClass= cannot be used in combination" in refused.refused


async def test_a_profile_that_cannot_be_applied_refuses_pods() -> None:
    found = await previewed([profile(**SPARK, priorityClassName="gone")], pod("a"))
    assert found.refused == found.touched == 1
    assert found.groups[0].refused == 'PriorityClass.scheduling.k8s.io "gone" not found'


async def test_a_pod_that_is_refused_anyway_is_not_the_profiles_fault() -> None:
    broken = pod("a") | {
        "metadata": {"name": "a", "labels": {"app": "spark", "koordinator.sh/qosClass": "BE"}}
    }
    found = await previewed([profile(**SPARK, schedulerName="x")], broken)
    assert (found.refused, found.touched) == (0, 1)


async def test_the_controller_patches_pending_pods_of_its_profiles() -> None:
    pods = [pod("a", node=""), pod("b", node=""), pod("c"), pod("d", "web", node="")]
    new = profile(**SPARK, annotations={"x": "y"})
    assert (await previewed([new], *pods)).patched == 0
    for found in (
        await previewed([profile(marks=MANAGED, **SPARK, annotations={"x": "y"})], *pods),
        await previewed([new], *pods, reconcile_by_default=True),
    ):
        assert (found.pending, found.patched) == (3, 2)
        [group] = found.groups
        assert group.pods == 3
        assert [item.model_dump() for item in group.controller] == [
            {"profile": "p", "pods": 2, "patch": {"metadata": {"annotations": {"x": "y"}}}, "problem": ""}
        ]


async def test_a_change_that_the_webhook_refuses_is_a_problem_of_the_controller() -> None:
    new = profile(marks=MANAGED, **SPARK, qosClass="BE")
    found = await previewed([new], pod("a", node="", priority=5000))
    assert found.patched == 0
    [action] = found.groups[0].controller
    assert action.problem.startswith("/validate-pod refuses the change: labels.koordinator.sh/qosClass")


async def test_other_profiles_count_but_are_not_previewed() -> None:
    other = profile("other", marks=MANAGED, **SPARK, annotations={"o": "1"})
    found = await previewed([profile("new", **SPARK, schedulerName="x")], other, pod("a", node=""))
    assert [item.name for item in found.profiles] == ["new"]
    assert changes(found) == [("add", "/spec/schedulerName", None, "x")]
    assert found.groups[0].controller == []


async def test_a_probability_rolls_in_favour_of_its_profile() -> None:
    found = await previewed([profile(**SPARK, schedulerName="x", probability=1)], pod("a"))
    assert found.touched == 1
    found = await previewed([profile(**SPARK, schedulerName="x", probability=0)], pod("a"))
    assert found.touched == 0


async def test_without_a_profile_there_is_nothing_to_preview() -> None:
    with pytest.raises(NothingGiven, match="nothing to preview"):
        await previewed([BATCH], pod("a"))


@pytest.mark.parametrize(
    ("owner", "labels", "told"),
    [
        ("", {}, ("ns", "Pod", "p")),
        ("Job/j", {}, ("ns", "Job", "j")),
        ("ReplicaSet/web-5d8f", {"pod-template-hash": "5d8f"}, ("ns", "Deployment", "web")),
        ("ReplicaSet/web-5d8f", {}, ("ns", "ReplicaSet", "web-5d8f")),
    ],
)
def test_the_owner_of_a_pod_is_named(owner: str, labels: dict[str, str], told: tuple[str, str, str]) -> None:
    document = pod("p", owner=owner)
    document["metadata"]["labels"] = labels
    assert workload_of(document) == told
