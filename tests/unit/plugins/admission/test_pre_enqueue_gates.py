from collections.abc import Callable
from typing import Any

import pytest

from koordpy.api.core import Pod

from .pods import handle, pod, respond


def gates(submitted: dict[str, Any], wanted: list[str], *objects: dict[str, Any]) -> list[str] | None:
    """The gates of a pod after admission, where `wanted` are those that its scheduler's plugins need."""
    to = handle(*objects)
    to.pre_enqueue_gates = lambda scheduler, read: wanted if scheduler == "koord-scheduler" else []
    out = respond(submitted, to)["object"]
    found = out["spec"].get("schedulingGates")
    return None if found is None else [gate["name"] for gate in found]


def test_a_pod_gets_the_gates_of_its_scheduler_after_its_own() -> None:
    own = pod(schedulerName="koord-scheduler", schedulingGates=[{"name": "example.com/own"}])
    assert gates(own, ["a/b", "a/c"]) == ["example.com/own", "a/b", "a/c"]
    assert gates(pod(schedulerName="koord-scheduler"), ["a/b"]) == ["a/b"]


def test_a_pod_of_another_scheduler_is_left_alone() -> None:
    assert gates(pod(schedulerName="default-scheduler"), ["a/b"]) is None
    assert gates(pod(schedulerName="koord-scheduler"), []) is None


def test_the_scheduler_that_a_profile_writes_is_the_one_that_counts() -> None:
    profile = {
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "p"},
        "spec": {"schedulerName": "koord-scheduler", "selector": {"matchLabels": {"team": "a"}}},
    }
    assert gates(pod(labels={"team": "a"}), ["a/b"], profile) == ["a/b"]


def test_without_plugins_the_pod_is_not_read() -> None:
    submitted = pod(schedulerName="koord-scheduler")
    to = handle()
    assert to.pre_enqueue_gates is None
    assert "schedulingGates" not in respond(submitted, to)["object"]["spec"]

    def reads(scheduler: str, read: Callable[[], Pod]) -> list[str]:
        return pytest.fail("read") if scheduler == "koord-scheduler" else []

    to.pre_enqueue_gates = reads
    assert "schedulingGates" not in respond(pod(), to)["object"]["spec"]
