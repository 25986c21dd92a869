"""What-ifs over HTTP: they show what a scheduler would do, and change nothing."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api.core import Pod
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.scheme import resource_of
from tests.eventually import PATIENCE
from tests.integration.service.stage import Document, Stage, picture, pod_document, serving


def deployment(replicas: int, cpu: str = "1", **spec: Any) -> Document:
    template = pod_document("ignored", cpu, labels={"app": "web"})
    template["spec"] |= spec
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "template": template},
    }


async def ask(stage: Stage, body: Document | bytes | str, query: str = "", **headers: str) -> Any:
    content = json.dumps(body) if isinstance(body, dict) else body
    url = f"{stage.url('debug')}/apis/v1/whatif?{query}"
    return await stage.http.post(url, content=content, headers=headers)


async def test_pods_are_placed_one_after_the_other_until_nothing_is_left(stage: Stage) -> None:
    answer = await ask(stage, deployment(10))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["kind"], found["namespace"], found["name"]) == ("Deployment", "shop", "web")
    assert (found["profile"], found["pods"], found["nodes"]) == ("default-scheduler", 10, 2)
    assert [pod["pod"] for pod in found["placed"]] == [f"web-{i}" for i in range(8)]
    assert found["byNode"] == {"n0": 4, "n1": 4}
    first, last = found["placed"][0], found["placed"][-1]
    assert (first["feasibleNodes"], last["feasibleNodes"]) == (2, 1)
    assert first["topNodes"][0]["node"] == first["node"]
    assert first["total"] == sum(first["topNodes"][0]["plugins"].values())
    assert {"NodeResourcesFit", "LoadAwareScheduling"} <= set(found["weights"])
    [refused] = last["rejections"]
    assert (refused["plugin"], refused["reason"], refused["nodes"]) == (
        "NodeResourcesFit",
        "Insufficient cpu",
        1,
    )
    stop = found["stopped"]
    assert (stop["pod"], stop["pods"], stop["stage"]) == ("web-8", 2, "Filter")
    assert stop["message"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert (stop["rejections"][0]["nodes"], stop["preemptionMightHelp"]) == (2, 2)


async def test_plugins_of_kube_scheduler_run_too(stage: Stage) -> None:
    await stage.add_node("big", "64", labels={"disk": "ssd"})
    found = (await ask(stage, deployment(3, nodeSelector={"disk": "ssd"}))).json()
    assert found["byNode"] == {"big": 3}
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "disk", "labelSelector": {"matchLabels": {"app": "web"}}}
            ]
        }
    }
    found = (await ask(stage, deployment(3, nodeSelector={"disk": "ssd"}, affinity=apart))).json()
    assert found["byNode"] == {"big": 1}
    assert "anti-affinity rules" in found["stopped"]["message"]


async def test_gates_keep_a_pod_from_being_tried(stage: Stage) -> None:
    found = (await ask(stage, deployment(2, schedulingGates=[{"name": "quota"}]))).json()
    assert found["placed"] == []
    assert (found["stopped"]["stage"], found["stopped"]["pods"]) == ("PreEnqueue", 2)


async def test_the_webhooks_run_first(stage: Stage) -> None:
    await stage.client.create_raw(
        resource_of(ClusterColocationProfile),
        "",
        {
            "apiVersion": "config.koordinator.sh/v1alpha1",
            "kind": "ClusterColocationProfile",
            "metadata": {"name": "p"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "schedulerName": "nobody"},
        },
    )
    async with asyncio.timeout(PATIENCE):
        while (answer := await ask(stage, deployment(1))).status_code != 400:
            await asyncio.sleep(0.02)
    assert answer.json()["message"].startswith("spec.schedulerName: no profile for 'nobody'")
    plain = (await ask(stage, deployment(1), "admission=false")).json()
    assert (plain["admission"]["ran"], len(plain["placed"])) == (False, 1)
    assert (await stage.get("/apis/v1/admissions")).json() == []


async def test_a_pod_that_the_webhooks_refuse_goes_nowhere(stage: Stage) -> None:
    document = deployment(2)
    labels = {"koordinator.sh/qosClass": "LSR"}
    document["spec"]["template"]["metadata"] = {"labels": labels}
    found = (await ask(stage, document)).json()
    assert (found["stopped"]["stage"], found["stopped"]["pods"]) == ("Admission", 2)
    assert found["stopped"]["message"].startswith("/validate-pod: ")
    assert found["placed"] == []


async def test_nothing_is_changed(stage: Stage) -> None:
    before = picture(stage.process.cluster)
    decisions = (await stage.get("/apis/v1/decisions")).json()
    assert len((await ask(stage, deployment(8))).json()["placed"]) == 8
    assert picture(stage.process.cluster) == before
    assert (await stage.get("/apis/v1/decisions")).json() == decisions == []
    stage.assert_nothing_is_left_over()
    again = (await ask(stage, deployment(8))).json()
    assert len(again["placed"]) == 8


async def test_a_pod_that_runs_is_placed_as_if_it_were_created_again(stage: Stage) -> None:
    document = await stage.add_pod("p", cpu="3")
    assert await stage.bind(document, "n1") == ""
    running = await stage.client.get_raw(resource_of(Pod), "default", "p")
    found = (await ask(stage, running, "count=2")).json()
    assert found["byNode"] == {"n0": 1}  # the running one keeps its place
    assert found["stopped"]["pod"] == "p-1"


async def test_yaml_is_read_as_well(stage: Stage) -> None:
    answer = await ask(stage, yaml.safe_dump(deployment(2)), **{"content-type": "application/yaml"})
    assert len(answer.json()["placed"]) == 2


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]"
    for before, name in zip("abcdef", "bcdefg", strict=True)
)


@pytest.mark.parametrize(
    ("body", "query", "status", "message"),
    [
        ("{", "", 400, "not JSON"),
        ("a: [", "", 400, "not YAML"),
        (BOMB, "", 400, "line 6, column 8: aliases add more than 262144 values"),
        ("a: &a [*a]", "", 400, "alias *a is part of its own anchor"),
        ("kind: Pod\na: " + "[" * 60_000, "", 400, "levels deep"),
        ("kind: Pod\na: " + "{a: " * 15_000, "", 400, "levels deep"),
        ("- " * 30_000, "", 400, "levels deep"),
        ('{"kind": "Pod", "a": ' + "[" * 500_000, "", 400, "levels deep"),
        ("kind: Service", "", 400, "kind: got 'Service', expected a Pod or a workload"),
        ("[]", "", 400, "expected one Kubernetes object"),
        ("kind: DaemonSet\nspec: {template: {}}", "", 400, "DaemonSet"),
        ("kind: Pod\nmetadata: []\nspec: {containers: [{name: a, image: a}]}", "", 200, ""),
        ("kind: Pod\nmetadata: {name: web}", "", 400, "spec.containers: Required value"),
        ("kind: Pod\nmetadata: [1]", "", 400, "metadata: got '[1]'"),
        ("kind: Pod\nspec: {containers: 7}", "", 400, "spec.containers"),
        ("kind: Pod\nspec: {overhead: {cpu: lots}}", "", 400, "quantity 'lots'"),
        ("kind: Pod", "cuont=5", 400, "got parameter 'cuont', expected count, admission, top"),
        ("kind: Deployment\nspec: {replicas: 5000, template: {}}", "", 400, "count: got 5000"),
        ("kind: Deployment\nspec: {replicas: 0, template: {}}", "", 400, "count: got 0"),
        ("kind: Pod", "count=5000", 400, "expected less than or equal to 1000"),
        ("#" * (1 << 20) + "#", "", 413, "larger than"),
        ("#" * (300 << 10), "", 413, "send JSON"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    stage: Stage, body: str, query: str, status: int, message: str
) -> None:
    answer = await ask(stage, body, query)
    assert answer.status_code == status, answer.text
    assert message in answer.text


async def test_without_the_webhooks_the_pod_is_taken_as_it_is(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["extender", "debug"]) as stage:
        await stage.add_node("n0")
        found = (await ask(stage, deployment(1, priorityClassName="high"))).json()
        assert not found["admission"]["ran"]
        assert "does not serve the webhooks" in found["admission"]["message"]
        assert "the value of priority class high is unknown" in found["notes"][0]
        answer = await ask(stage, deployment(1), "admission=true")
        assert answer.status_code == 400


async def test_without_the_extender_part_there_are_no_what_ifs(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["admission", "debug"]) as stage:
        answer = await ask(stage, deployment(1))
        assert (answer.status_code, answer.json()) == (
            404,
            {"message": "there is no node table: this process does not have the part extender"},
        )
