"""RemoveFailedPods; whole runs are compared with the descheduler's own in the parity tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koordpy.lib.clock import FakeClock
from koordpy_plugins.descheduling.removefailedpods.plugin import RemoveFailedPods

from ..one_plugin import OnePlugin, node, pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def failed(name: str, age: int = 7200, **status: Any) -> dict[str, Any]:
    document = pod(name, "n1", phase="Failed")
    document["metadata"]["creationTimestamp"] = (NOW - timedelta(seconds=age)).isoformat()
    document["status"] |= status
    return document


async def evicted(*pods: dict[str, Any], **args: Any) -> list[str]:
    run = OnePlugin(RemoveFailedPods, [node("n1")], pods, args, point="deschedule", clock=FakeClock(NOW))
    await run.cycle()
    return run.evicted


async def test_failed_pods_of_an_hour_leave():
    running = pod("running", "n1")
    assert await evicted(failed("old"), failed("young", 3599), failed("exact", 3600), running) == [
        "exact",
        "old",
    ]


async def test_null_is_no_least_age_and_a_pod_from_the_future_is_old():
    assert await evicted(failed("young", 1), minPodLifetimeSeconds=None) == ["young"]
    assert await evicted(failed("future", -5)) == ["future"]


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({"reasons": ["Evicted"]}, ["by-reason"]),
        ({"reasons": ["OOMKilled"]}, ["by-container"]),
        ({"reasons": ["Init"]}, []),
        ({"reasons": ["Init"], "includingInitContainers": True}, ["by-init"]),
        ({"exitCodes": [137]}, ["by-container"]),
        ({"exitCodes": [3]}, []),
        ({"exitCodes": [3], "includingInitContainers": True}, ["by-init"]),
        ({"reasons": ["Evicted"], "exitCodes": [137]}, []),
    ],
)
async def test_criteria(args: dict[str, Any], found: list[str]):
    ended = {"name": "c", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    init = {"name": "i", "state": {"terminated": {"reason": "Init", "exitCode": 3}}}
    pods = (
        failed("by-reason", reason="Evicted"),
        failed("by-container", containerStatuses=[ended]),
        failed("by-init", initContainerStatuses=[init]),
    )
    assert await evicted(*pods, **args) == found
