"""The history of a pod over HTTP and on the command line, with a scheduler that really calls."""

import asyncio
import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from koordpy.cluster.client import PatchType
from tests.eventually import PATIENCE
from tests.integration.service.scheduling import node_of, scheduling, shipped
from tests.integration.service.stage import Stage, pod_document, serving, until

Document = dict[str, Any]


async def history(stage: Stage, name: str, query: str = "") -> Document:
    answer = await stage.get(f"/apis/v1/pods/default/{name}/history{query}")
    assert answer.status_code == 200, answer.text
    document: Document = answer.json()
    return document


def whats(found: Document) -> list[str]:
    return [step["what"] for step in found["steps"]]


async def why(stage: Stage, *args: str) -> Any:
    command = ["why", "--history", "--debug-server", stage.url("debug"), *args]
    return await asyncio.to_thread(CliRunner().invoke, cli, command)


async def test_a_gated_pod_is_followed_from_its_creation_to_its_node(stage: Stage) -> None:
    async with scheduling(stage, shipped(stage)):
        document = pod_document("p")
        document["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        await stage.client.create_raw(resource_of(Pod), "default", document)
        await until(lambda: stage.process.cluster.store(Pod).get("default", "p") is not None)
        found = await history(stage, "p")
        assert (found["state"], whats(found)) == ("pending", ["seen", "gated"])
        assert [cause["cause"] for cause in found["causes"]] == ["Gated"]
        await stage.client.patch(Pod, "default", "p", {"spec": {"schedulingGates": None}}, PatchType.MERGE)
        await until(lambda: node_of(stage, "p") != "")

        async def is_bound() -> bool:
            return whats(await history(stage, "p"))[-1] == "bound"

        async with asyncio.timeout(PATIENCE):
            while not await is_bound():
                await asyncio.sleep(0.02)
    found = await history(stage, "p")
    assert whats(found) == ["seen", "gated", "ungated", "filtered", "binding", "bound"]
    assert (found["state"], found["cycles"], found["causes"]) == ("bound", 1, [])
    assert found["steps"][3]["evaluatedNodes"] == 2
    assert found["node"] == found["steps"][-1]["node"] == node_of(stage, "p")


async def test_a_pod_that_in_tree_plugins_refuse_has_that_cause(stage: Stage) -> None:
    async with scheduling(stage, shipped(stage)):
        await stage.add_pod("huge", cpu="64")

        async with asyncio.timeout(PATIENCE):
            while "reported" not in whats(await history(stage, "huge")):
                await asyncio.sleep(0.02)
    found = await history(stage, "huge")
    assert found["cycles"] == 0
    [cause] = found["causes"]
    assert (cause["cause"], cause["certainty"]) == ("RefusedInTree", "certain")
    assert "Insufficient cpu" in cause["message"]


async def test_without_the_extender_entry_pods_go_by_and_the_cause_is_found(stage: Stage) -> None:
    document = shipped(stage)
    del document["extenders"]
    async with scheduling(stage, document):
        await stage.add_pod("goes-by")
        await until(lambda: node_of(stage, "goes-by") != "")
    found = await history(stage, "goes-by")
    assert whats(found)[-1] == "bound-by-others"
    assert [cause["cause"] for cause in found["causes"]] == ["AlreadyBound", "ExtenderNotConfigured"]
    await stage.add_pod("waits")
    causes = [cause["cause"] for cause in (await history(stage, "waits"))["causes"]]
    assert causes[0] == "ExtenderNotConfigured"


async def test_managed_resources_keep_a_pod_from_us(stage: Stage) -> None:
    document = shipped(stage)
    filters, binds = document["extenders"]
    # kube-scheduler refuses to have a resource managed by two entries.
    document["extenders"] = [
        {**filters, "bindVerb": binds["bindVerb"], "managedResources": [{"name": "example.com/widget"}]}
    ]
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "20", "example.com/widget": "4"}
    patch = {"status": {"capacity": capacity, "allocatable": capacity}}
    await stage.client.patch_status(Node, "", "n0", patch)
    async with scheduling(stage, document):
        ours = pod_document("ours")
        widgets = {"example.com/widget": "1"}
        ours["spec"]["containers"][0]["resources"] = {"requests": widgets, "limits": widgets}
        await stage.client.create_raw(resource_of(Pod), "default", ours)
        await until(lambda: node_of(stage, "ours") == "n0")
        await stage.add_pod("plain")
        await until(lambda: node_of(stage, "plain") != "")
    assert whats(await history(stage, "plain"))[-1] == "bound-by-others"
    assert whats(await history(stage, "ours"))[-1] == "bound"


async def test_a_deleted_pod_keeps_its_history_and_its_successor_has_its_own(stage: Stage) -> None:
    first = await stage.add_pod("p")
    await stage.delete_pod("p")
    await until(lambda: stage.process.cluster.store(Pod).get("default", "p") is None)
    found = await history(stage, "p")
    assert (found["state"], whats(found), found["causes"]) == ("deleted", ["seen", "deleted"], [])
    second = await stage.add_pod("p")
    uid, other = first["metadata"]["uid"], second["metadata"]["uid"]
    found = await history(stage, "p")
    assert (found["uid"], found["otherUids"], found["state"]) == (other, [uid], "pending")
    found = await history(stage, "p", f"?uid={uid}")
    assert (found["uid"], found["otherUids"], found["state"]) == (uid, [other], "deleted")


async def test_an_unknown_pod_is_404(stage: Stage) -> None:
    answer = await stage.get("/apis/v1/pods/default/ghost/history")
    assert (answer.status_code, answer.json()["message"]) == (
        404,
        "pod default/ghost does not exist, and has no recorded history",
    )
    told = await why(stage, "default/ghost")
    assert told.exit_code == 1
    assert "pod default/ghost does not exist" in told.output


async def test_without_the_extender_part_nothing_is_followed(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["debug"]) as stage:
        answer = await stage.get("/apis/v1/pods/default/p/history")
        assert (answer.status_code, answer.json()["message"]) == (
            404,
            "pods are not followed: this process does not serve the extender",
        )


async def test_the_command_line_prints_the_history_as_text_json_and_yaml(stage: Stage) -> None:
    pod = await stage.add_pod("p")
    await stage.filter(pod, "n0", "n1")
    assert await stage.bind(pod, "n1") == ""
    text = await why(stage, "default/p")
    assert text.exit_code == 0, text.output
    lines = text.output.splitlines()
    assert lines[0] == "pod default/p (schedulerName default-scheduler): bound on n1"
    assert [line.split()[1 if i == 0 else -1] for i, line in enumerate(lines[2:3])] == ["seen"]
    assert any("2 of 2 nodes are feasible" in line for line in lines)
    assert any("bound" in line and "to n1" in line for line in lines[3:])
    as_json = json.loads((await why(stage, "default/p", "-o", "json")).output)
    assert whats(as_json) == ["seen", "filtered", "binding", "bound"]
    assert yaml.safe_load((await why(stage, "default/p", "-o", "yaml")).output) == as_json


async def test_the_command_line_prints_why_a_pod_waits(stage: Stage) -> None:
    document = pod_document("p")
    document["spec"]["schedulerName"] = "volcano"
    await stage.client.create_raw(resource_of(Pod), "default", document)
    await until(lambda: stage.process.cluster.store(Pod).get("default", "p") is not None)
    text = (await why(stage, "default/p")).output
    assert "kube-scheduler has never called koordpy for this pod." in text
    assert "certain OtherScheduler: spec.schedulerName is 'volcano'" in text
