"""RemovePodsHavingTooManyRestarts; whole runs are compared with the descheduler's in the parity tests."""

from typing import Any

import pytest

from koordpy_plugins.descheduling.removepodshavingtoomanyrestarts.plugin import (
    RemovePodsHavingTooManyRestarts,
)

from ..one_plugin import OnePlugin, node, pod


def restarted(name: str, *counts: int, init: int = 0, waiting: str = "", phase: str = "Running") -> Any:
    document = pod(name, "n1", phase=phase)
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    document["status"]["containerStatuses"] = [
        {"name": f"c{index}", "restartCount": count, "state": state} for index, count in enumerate(counts)
    ]
    document["status"]["initContainerStatuses"] = [{"name": "i", "restartCount": init}]
    return document


@pytest.mark.parametrize(
    ("args", "evicted"),
    [
        ({}, ["many", "waits", "two"]),
        ({"includingInitContainers": True}, ["init", "many", "waits", "two"]),
        ({"states": ["CrashLoopBackOff"]}, ["waits"]),
        ({"states": ["Running"]}, ["many", "waits"]),
        ({"namespaces": {"exclude": ["a"]}}, []),
    ],
)
async def test_pods_with_enough_restarts_leave_those_with_most_first(
    args: dict[str, Any], evicted: list[str]
):
    pods = [
        restarted("few", 4),
        restarted("two", 2, 3, phase="Failed"),
        restarted("many", 9),
        restarted("waits", 6, waiting="CrashLoopBackOff"),
        restarted("init", 0, init=10),
    ]
    run = OnePlugin(
        RemovePodsHavingTooManyRestarts,
        [node("n1")],
        pods,
        {"podRestartThreshold": 5} | args,
        point="deschedule",
    )
    await run.cycle()
    assert run.evicted == evicted


async def test_the_reason_has_the_numbers():
    run = OnePlugin(
        RemovePodsHavingTooManyRestarts,
        [node("n1")],
        [restarted("p", 7)],
        {"podRestartThreshold": 5},
        point="deschedule",
    )
    await run.cycle()
    assert run.calls == [("p", "its containers restarted 7 times, podRestartThreshold is 5")]
