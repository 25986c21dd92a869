"""RemoveDuplicates; whole runs are compared with the descheduler's own in the parity tests."""

from typing import Any

from koordpy_plugins.descheduling.removeduplicates.plugin import RemoveDuplicates

from ..one_plugin import OnePlugin, node, pod


def owned(name: str, node_name: str, owner: str = "o", kind: str = "ReplicaSet") -> dict[str, Any]:
    document = pod(name, node_name)
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner}
    ]
    return document


def profile(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], **args: Any) -> OnePlugin:
    return OnePlugin(RemoveDuplicates, nodes, pods, args)


NODES = [node("n1"), node("n2")]


async def test_pods_beyond_the_average_of_their_owner_leave():
    run = profile(NODES, [owned(f"p{index}", "n1") for index in range(3)])
    await run.cycle()
    assert run.calls == [
        ("p2", "its node has 3 pods like it of ReplicaSet o; the average is 2, rounded up"),
    ]


async def test_pods_of_other_owners_kinds_or_images_are_no_duplicates():
    other_image = owned("p2", "n1")
    other_image["spec"]["containers"][0]["image"] = "other"
    run = profile(NODES, [owned("p0", "n1"), owned("p1", "n1", "other"), other_image, pod("p3", "n1")])
    await run.cycle()
    assert run.evicted == []


async def test_excluded_kinds_of_owners_keep_their_pods():
    run = profile(NODES, [owned(f"p{index}", "n1") for index in range(3)], excludeOwnerKinds=["ReplicaSet"])
    await run.cycle()
    assert run.evicted == []


async def test_pods_stay_if_only_one_node_would_take_them_and_the_reason_is_recorded():
    cordoned = node("n2") | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    run = profile([node("n1"), cordoned], [owned(f"p{index}", "n1") for index in range(3)])
    current = run.decisions.begin(run.clock.now(), dry_run=False)
    await run.cycle()
    assert run.evicted == []
    assert {item.reason for item in current.runs[0].not_evicted} == {
        "labels and taints leave it fewer than two nodes"
    }


async def test_pods_that_may_not_be_evicted_do_not_count():
    run = OnePlugin(
        RemoveDuplicates, NODES, [owned(f"p{index}", "n1") for index in range(3)], kept=["p0", "p1"]
    )
    await run.cycle()
    assert run.evicted == []


async def test_it_objects_to_nodes_that_have_such_a_pod_already():
    run = profile(NODES, [owned("p0", "n1"), owned("p1", "n2"), owned("q", "n2", "other"), pod("r", "n1")])
    assert run.objection("p0", "n2") == (
        "the node would have 2 pods like it of ReplicaSet o; the average is 1, rounded up"
    )
    assert run.objection("p0", "n1") is None
    assert run.objection("q", "n1") is None
    assert run.objection("r", "n2") is None
