"""RemovePodsViolatingNodeTaints; whole runs are compared with the descheduler's own in the parity tests."""

from typing import Any

import pytest

from koordpy_plugins.descheduling.removepodsviolatingnodetaints.plugin import RemovePodsViolatingNodeTaints

from ..one_plugin import OnePlugin, node, pod


def tainted(name: str, key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, Any]:
    return node(name) | {"spec": {"taints": [{"key": key, "value": value, "effect": effect}]}}


def tolerant(name: str, node_name: str, key: str) -> dict[str, Any]:
    document = pod(name, node_name)
    document["spec"]["tolerations"] = [{"key": key, "operator": "Exists"}]
    return document


def profile(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], **args: Any) -> OnePlugin:
    return OnePlugin(RemovePodsViolatingNodeTaints, nodes, pods, args, point="deschedule")


async def test_pods_without_a_toleration_leave():
    run = profile(
        [tainted("n1", "k"), node("n2")], [pod("p", "n1"), tolerant("q", "n1", "k"), pod("r", "n2")]
    )
    await run.cycle()
    assert run.calls == [("p", "the pod does not tolerate the taint k:NoSchedule of its node")]


@pytest.mark.parametrize(
    ("effect", "args", "evicted"),
    [
        ("NoExecute", {}, []),
        ("PreferNoSchedule", {}, []),
        ("PreferNoSchedule", {"includePreferNoSchedule": True}, ["p"]),
        ("NoSchedule", {"excludedTaints": ["k"]}, []),
        ("NoSchedule", {"excludedTaints": ["k=v"]}, []),
        ("NoSchedule", {"excludedTaints": ["k=w"]}, ["p"]),
        ("NoSchedule", {"includedTaints": ["k=v"]}, ["p"]),
        ("NoSchedule", {"includedTaints": []}, []),
        ("NoSchedule", {"includedTaints": None}, ["p"]),
        ("NoSchedule", {"namespaces": {"exclude": ["a"]}}, []),
    ],
)
async def test_considered_taints(effect: str, args: dict[str, Any], evicted: list[str]):
    run = profile([tainted("n1", "k", "v", effect)], [pod("p", "n1")], **args)
    await run.cycle()
    assert run.evicted == evicted


async def test_it_objects_to_nodes_with_such_a_taint():
    run = profile([tainted("n1", "k"), tainted("n2", "k", effect="NoExecute")], [pod("p", "n1")])
    assert run.objection("p", "n1") == "the pod does not tolerate the taint k:NoSchedule of its node"
    assert run.objection("p", "n2") is None


async def test_the_wrong_point_is_an_error_of_the_run():
    run = OnePlugin(RemovePodsViolatingNodeTaints, [tainted("n1", "k")], [pod("p", "n1")])
    status = await run.cycle()
    assert status.error == "RemovePodsViolatingNodeTaints does not implement BalancePlugin"
    assert run.evicted == []
