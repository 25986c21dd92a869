"""PodLifeTime; whole runs are compared with the descheduler's own in the parity tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koordpy.lib.clock import FakeClock
from koordpy_plugins.descheduling.podlifetime.plugin import PodLifeTime

from ..one_plugin import OnePlugin, node, pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def aged(name: str, age: float, node_name: str = "n1", **status: Any) -> dict[str, Any]:
    document = pod(name, node_name)
    document["metadata"]["creationTimestamp"] = at(age)
    document["status"] |= status
    return document


async def evicted(*pods: dict[str, Any], **args: Any) -> list[str]:
    run = OnePlugin(
        PodLifeTime, [node("n1"), node("n2")], pods, args, point="deschedule", clock=FakeClock(NOW)
    )
    await run.cycle()
    return run.evicted


async def test_pods_older_than_the_limit_leave_the_oldest_of_all_nodes_first():
    pods = [aged("a", 200), aged("b", 100.9), aged("c", 300, "n2"), aged("d", 101), aged("e", -5)]
    assert await evicted(*pods, maxPodLifeTimeSeconds=100) == ["c", "a", "d"]


async def test_a_pod_without_creation_time_is_the_oldest():
    assert await evicted(aged("p", 200), pod("q", "n1"), maxPodLifeTimeSeconds=100) == ["q", "p"]


def waiting(reason: str) -> list[dict[str, Any]]:
    return [{"name": "c", "state": {"waiting": {"reason": reason}}}]


@pytest.mark.parametrize(
    ("status", "args", "leaves"),
    [
        ({"phase": "Pending"}, {"states": ["Pending"]}, True),
        ({"phase": "Running"}, {"states": ["Pending"]}, False),
        ({"phase": "Failed", "reason": "NodeLost"}, {"states": ["NodeLost"]}, True),
        ({"containerStatuses": waiting("Error")}, {"states": ["Error"]}, True),
        ({"initContainerStatuses": waiting("Error")}, {"states": ["Error"]}, False),
        (
            {"initContainerStatuses": waiting("Error")},
            {"states": ["Error"], "includingInitContainers": True},
            True,
        ),
        (
            {"ephemeralContainerStatuses": waiting("Error")},
            {"states": ["Error"], "includingEphemeralContainers": True},
            True,
        ),
        (
            {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}]},
            {"exitCodes": [0]},
            True,
        ),
        ({"containerStatuses": [{"name": "c", "state": {"running": {}}}]}, {"exitCodes": [0]}, False),
        (
            {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(60)}]},
            {"conditions": [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 60}]},
            True,
        ),
        (
            {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at(59.9)}]},
            {"conditions": [{"type": "Ready", "minTimeSinceLastTransitionSeconds": 60}]},
            False,
        ),
        (
            {"conditions": [{"type": "Ready", "status": "False"}]},
            {"conditions": [{"minTimeSinceLastTransitionSeconds": 0}]},
            False,
        ),
        (
            {"conditions": [{"type": "Ready", "status": "False", "reason": "R"}]},
            {"conditions": [{"status": "True"}, {"reason": "R"}]},
            True,
        ),
        ({"phase": "Pending"}, {"states": ["Pending"], "exitCodes": [1]}, False),
    ],
)
async def test_criteria(status: dict[str, Any], args: dict[str, Any], leaves: bool):
    assert await evicted(aged("p", 10, **status), **args) == ["p"] * leaves


@pytest.mark.parametrize(
    ("owners", "leaving"),
    [({"include": ["Job"]}, ["job"]), ({"exclude": ["Job"]}, ["bare", "set"]), ({}, ["bare", "job", "set"])],
)
async def test_owner_kinds(owners: dict[str, Any], leaving: list[str]):
    pods = [aged("bare", 10), aged("job", 10), aged("set", 10)]
    for document, kind in ((pods[1], "Job"), (pods[2], "ReplicaSet")):
        document["metadata"]["ownerReferences"] = [{"kind": kind, "name": "o", "uid": "u"}]
    assert await evicted(*pods, maxPodLifeTimeSeconds=1, ownerKinds=owners) == leaving
