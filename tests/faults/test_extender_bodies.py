"""The extender and bodies that are malformed, hostile, huge, half sent or slow."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.service.stage import Stage, binding, pod_document, serving
from tests.servers import fuzz
from tests.servers.caller import Caller, head

VERBS = ("filter", "prioritize", "preempt", "bind")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path, parts=["extender"]) as made:
        for name in ("n0", "n1"):
            await made.add_node(name)
        yield made


def rich_pod() -> dict[str, Any]:
    """Return a pod with a value in every field that a filter or a score reads."""
    pod = pod_document("fuzzed", uid="uid-fuzzed", labels={"app": "x"}, annotations={"a": "b"})
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0", "n1"]}
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [requirement]}}
    pod["spec"] |= {
        "schedulerName": "default-scheduler",
        "priority": 5000,
        "priorityClassName": "koord-batch",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "overhead": {"cpu": "10m"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [requirement]}]
                }
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
        },
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }
    pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    return pod


def valid_bodies(stage_pod: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    pod, node = rich_pod(), {"metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "4"}}}
    meta = {"n0": {"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 0}}
    victims = {"n0": {"Pods": [pod], "NumPDBViolations": 1}}
    asked: list[Any] = [
        {"Pod": pod, "NodeNames": ["n0", "n1", "n2"]},
        {"Pod": pod, "Nodes": {"items": [node]}, "NodeNames": None},
    ]
    return {
        "filter": asked,
        "prioritize": asked,
        "preempt": [
            {"Pod": pod, "NodeNameToMetaVictims": meta},
            {"Pod": pod, "NodeNameToVictims": victims},
        ],
        "bind": [binding(stage_pod, "n0"), binding(pod, "n1")],
    }


@pytest.mark.parametrize("verb", VERBS)
async def test_no_body_breaks_the_extender(stage: Stage, verb: str) -> None:
    victim = await stage.add_pod("victim")
    valid = valid_bodies(victim)[verb]
    answers: dict[int, int] = {}
    async with Caller(stage.url("extender")) as caller:
        for body in fuzz.bodies(random.Random(f"extender {verb}"), valid, 1500):
            answer = await caller.post(f"/extender/{verb}", body)
            answers[answer.status] = answers.get(answer.status, 0) + 1
            assert answer.status in (200, 400), (answer.status, answer.body, body[:2000])
            content = json.loads(answer.body)
            if answer.status == 400:
                assert content["Error"].startswith(f"{verb}: "), body[:2000]
    assert set(answers) == {200, 400}  # both paths were taken
    pod = await stage.add_pod("after")
    assert (await stage.filter(pod, "n0", "n1"))["NodeNames"] == ["n0", "n1"]
    assert await stage.bind(pod, "n1") == ""
    await stage.assert_memory_equals_a_rebuild()


@pytest.mark.parametrize(
    "name", ["../../../nodes/n0", "a/b", "..", "%2e%2e", "a?b=c", "a#b", "\x00", "é", "a b"]
)
async def test_names_cannot_escape_their_path_segment(stage: Stage, name: str) -> None:
    seen: list[str] = []
    stage.server.faults = lambda method, path: seen.append(f"{method} {path}")
    for place in ("PodName", "PodNamespace"):
        body = {**binding(pod_document("p", uid="uid-p"), "n0"), place: name}
        answer = await stage.call("bind", body)
        assert answer.status_code == 200
        assert answer.json()["Error"]
    # The extender takes part in the election meanwhile.
    asked = [path for path in seen if not path.startswith("GET /api/v1/watch") and "/leases" not in path]
    assert not any(path.startswith(("POST", "PUT", "PATCH", "DELETE")) for path in asked)
    assert not any("/nodes/n0" in path and "/pods/" not in path for path in asked)


async def test_a_body_may_come_byte_by_byte(stage: Stage) -> None:
    body = json.dumps({"Pod": rich_pod(), "NodeNames": ["n0"]}).encode()
    async with Caller(stage.url("extender")) as caller:
        for byte in head("/extender/filter", len(body)) + body:
            await caller.send(bytes([byte]))
        answer = await caller.answer()
    assert answer.status == 200
    assert "FailedNodes" in json.loads(answer.body)


async def test_half_sent_bodies_are_dropped_without_a_trace(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    body = json.dumps(binding(pod, "n0")).encode()
    for length in (0, 1, len(body) // 2, len(body) - 1):
        async with Caller(stage.url("extender")) as caller:
            await caller.send(head("/extender/bind", len(body)) + body[:length])
    assert await stage.bind(pod, "n1") == ""
    await stage.assert_memory_equals_a_rebuild()


async def test_slow_clients_do_not_delay_others(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    slow = [Caller(stage.url("extender")) for _ in range(50)]
    for caller in slow:
        await caller.__aenter__()
        await caller.send(head("/extender/filter", 1000) + b'{"Pod":')
    assert (await stage.filter(pod, "n0", "n1"))["NodeNames"] == ["n0", "n1"]
    assert await stage.bind(pod, "n0") == ""
    for caller in slow:
        caller.hang_up()


async def test_a_body_beyond_the_limit_is_refused_before_it_is_read(stage: Stage) -> None:
    async with Caller(stage.url("extender")) as caller:
        await caller.send(head("/extender/filter", 1 << 40))
        answer = await caller.answer()
    assert answer.status == 413
    assert "body is larger than" in json.loads(answer.body)["Error"]


async def test_invalid_http_is_a_bad_request(stage: Stage) -> None:
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50,
        b"GARBAGE\r\n\r\n",
        b"\n" * 5,
    ):
        async with Caller(stage.url("extender")) as caller:
            await caller.send(data)
            await asyncio.sleep(0)
    async with Caller(stage.url("extender")) as caller:
        assert (await caller.post("/extender/filter", b"{}")).status == 400
