"""`koordpy gang`, and `koordpy why` for pods of gangs, about a running service."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from koordpy.api.koordinator import PodGroup
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from tests.integration.service.stage import Stage, serving, until

GANG = "gang.scheduling.koordinator.sh"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    file = tmp_path / "profiles.yaml"
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourcesFit"}, {"name": "Coscheduling"}]}},
    }
    document: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    file.write_text(yaml.safe_dump(document))
    extender = {"port": 0, "schedulerConfig": str(file), "leaderElect": False}
    async with serving(tmp_path, parts=["extender", "debug"], extender=extender) as made:
        await made.add_node("n0")
        yield made


async def koordpy(stage: Stage, *arguments: str) -> Result:
    where = ("--debug-server", stage.url("debug"))
    return await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, *where])


async def add_member(stage: Stage, name: str, gang: str, least: int, cpu: str = "1") -> dict[str, Any]:
    notes = {f"{GANG}/name": gang, f"{GANG}/min-available": str(least)}
    return await stage.add_pod(name, cpu=cpu, annotations=notes)


async def test_an_incomplete_gang_says_how_many_pods_are_missing(stage: Stage) -> None:
    await add_member(stage, "few-0", "few", 3)
    listed = await koordpy(stage, "gang", "list")
    assert listed.exit_code == 0
    assert "default/few" in listed.output
    assert "2 more to be created" in listed.output
    told = await koordpy(stage, "why", "default/few-0")
    assert "GangIncomplete: gang default/few has 1 of at least 3 pods" in told.output
    assert "gang default/few (from pods): incomplete" in told.output


async def test_a_gang_without_room_names_the_pod_that_has_none(stage: Stage) -> None:
    first = await add_member(stage, "big-0", "big", 2)
    await add_member(stage, "big-1", "big", 2, cpu="64")
    assert (await stage.filter(first, "n0"))["NodeNames"] == []
    shown = await koordpy(stage, "gang", "show", "default/big")
    assert shown.exit_code == 0
    assert "waits for a node for default/big-1" in shown.output
    assert "1 of 2 pods of default/big fit; pod default/big-1 does not" in shown.output
    told = await koordpy(stage, "why", "default/big-0")
    assert "GangMemberFailed: gang default/big needs 2 pods at once, and its pod default/big-1" in told.output


async def test_members_of_a_planned_gang_are_listed_with_the_nodes_that_are_held(stage: Stage) -> None:
    pods = [await add_member(stage, f"fit-{number}", "fit", 2) for number in range(2)]
    assert (await stage.filter(pods[0], "n0"))["NodeNames"] == ["n0"]
    [gang] = (await stage.get("/apis/v1/gangs")).json()
    assert (gang["gang"], gang["state"]) == ("default/fit", "planned")
    assert [(member["state"], member["node"]) for member in gang["members"]] == [("planned", "n0")] * 2
    assert all(member["secondsLeft"] > 0 for member in gang["members"])


async def test_a_member_that_waits_says_for_whom_and_how_long(stage: Stage) -> None:
    pods = [await add_member(stage, f"two-{number}", "two", 2) for number in range(2)]
    await stage.filter(pods[0], "n0")
    binding = asyncio.create_task(stage.bind(pods[0], "n0"))
    await until(lambda: len(stage.extender.handle.waiting_pods) == 1)
    found = (await stage.get("/apis/v1/pods/default/two-0/history")).json()
    assert found["gang"]["state"] == "waiting"
    [cause] = [cause for cause in found["causes"] if cause["cause"] == "GangWaits"]
    assert "the pod waits in Permit until 1 more pod of gang default/two" in cause["message"]
    shown = await koordpy(stage, "gang", "show", "two", "-n", "default")
    assert "1 more at Permit" in shown.output
    await stage.filter(pods[1], "n0")
    assert await stage.bind(pods[1], "n0") == ""
    assert await binding == ""
    await until(lambda: len(stage.extender.handle.waiting_pods) == 0)
    listed = await koordpy(stage, "gang", "list", "-n", "default")
    assert "scheduled" in listed.output


async def test_gangs_of_pod_groups_say_so(stage: Stage) -> None:
    resource = resource_of(PodGroup)
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "group", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    await stage.client.create_raw(resource, "default", document)
    await until(lambda: stage.process.cluster.store(PodGroup).get("default", "group") is not None)
    shown = await koordpy(stage, "gang", "show", "default/group")
    assert "gang default/group (from PodGroup): incomplete" in shown.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("gang", "show", "g"), 1, "got 'g', expected NAMESPACE/NAME"),
        (("gang", "show", "a/b", "-n", "c"), 1, "expected one namespace"),
        (("gang", "show", "a/b"), 1, "cannot find gang a/b"),
        (("gang", "list"), 0, "no gangs"),
        (("gang", "list", "-A"), 0, "no gangs"),
        (("gang", "list", "-A", "-n", "a"), 2, "cannot be combined"),
        (("quota", "tree"), 1, "plugin ElasticQuota is not enabled in any profile"),
    ],
)
async def test_what_is_not_there_is_said(
    stage: Stage, arguments: tuple[str, ...], code: int, message: str
) -> None:
    found = await koordpy(stage, *arguments)
    assert (found.exit_code, message in found.output) == (code, True)
