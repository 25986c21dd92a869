"""Whether the doctor knows what is enabled from what runs in the cluster."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from koordpy import data
from koordpy.api.core import ConfigMap, DaemonSet, Deployment, Namespace, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.commands.deployed import Deployed, deployed
from koordpy.doctor.installation import Installation, parts_of
from koordpy.embedded.apiserver import ApiServer
from koordpy.features.feature import Part
from koordpy.lib.clock import SystemClock
from koordpy.settings import Settings

SYSTEM = "koordinator-system"
BASE = data.deploy("kustomize", "base")
CONFIG_MAPS = {
    "koordpy-webhooks-config": [BASE / "webhooks" / "koordpy.yaml"],
    "koordpy-scheduler-config": [
        BASE / "extender" / "koordpy.yaml",
        BASE / "extender" / "kube-scheduler-config.yaml",
    ],
    "koordpy-scheduler-profiles": [data.deploy("demo", "koordpy-profiles.yaml")],
    "koordpy-worker-config": [BASE / "worker" / "koordpy.yaml", BASE / "worker" / "descheduler.yaml"],
    "koordpy-qos-agent-config": [BASE / "qos-agent" / "koordpy.yaml"],
}
"""What the overlay `full` mounts, with profiles that have every plugin."""

WORKLOADS: dict[str, type[KubeObject]] = {
    "webhooks/deployment.yaml": Deployment,
    "extender/deployment.yaml": Deployment,
    "worker/deployment.yaml": Deployment,
    "qos-agent/daemonset.yaml": DaemonSet,
}


@asynccontextmanager
async def cluster(*, without: str = "", only: str = "") -> AsyncIterator[tuple[ApiServer, Client]]:
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        client = Client(Connection.find(None, None, server.url))
        await client.create_raw(resource_of(Namespace), "", {"metadata": {"name": SYSTEM}})
        for name, files in CONFIG_MAPS.items():
            if name != without:
                content = {file.name: file.read_text() for file in files}
                document = {"metadata": {"name": name}, "data": content}
                await client.create_raw(resource_of(ConfigMap), SYSTEM, document)
        for file, type_ in WORKLOADS.items():
            if only in file:
                await client.create_raw(resource_of(type_), SYSTEM, shipped(file))
        yield server, client
        await client.close()


def shipped(file: str) -> Any:
    [document] = yaml.safe_load_all((BASE / file).read_text())
    return document


async def found(client: Client, folder: Path) -> Deployed:
    return await deployed(client, SYSTEM, folder, Settings())


async def test_all_parts_are_known_with_their_files(tmp_path: Path) -> None:
    async with cluster() as (_, client):
        it = await found(client, tmp_path)
        assert it.remarks == []
        assert [name.partition("/")[2] for name in it.workloads] == [
            "koordpy-scheduler",
            "koordpy-webhooks",
            "koordpy-worker",
            "koordpy-qos-agent",
        ]
        assert set(parts_of(it.settings)) == set(Part)
        assert it.settings.debug.authentication
        assert it.scheduler_file is not None
        assert "extenders" in it.scheduler_file.read_text()
        installation = Installation(client, it.settings, parts_of(it.settings), SystemClock())
        assert installation.problems == []
        assert installation.unchecked(Part.EXTENDER, "DeviceShare") == ""
        shown = it.as_in_pods(f"{it.settings.extender.profiles_file}: broken")
        assert shown == "/etc/koordpy/koordpy-profiles.yaml: broken"


async def test_a_config_map_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    async with cluster(without="koordpy-worker-config", only="worker") as (_, client):
        it = await found(client, tmp_path)
        problem, unread = it.remarks
        assert problem.state == "problem"
        assert (
            "mounts ConfigMap koordinator-system/koordpy-worker-config, which does not exist"
            in problem.message
        )
        assert "/etc/koordpy/koordpy.yaml is in no ConfigMap" in unread.message


async def test_arguments_of_a_container_count_as_in_its_process(tmp_path: Path) -> None:
    document = shipped("webhooks/deployment.yaml")
    document["spec"]["template"]["spec"]["containers"][0]["args"] += [
        "--feature-gates=NodeMutatingWebhook=true"
    ]
    async with cluster(only="nothing") as (_, client):
        await client.create_raw(resource_of(Deployment), SYSTEM, document)
        it = await found(client, tmp_path)
        assert it.settings.feature_gates == {"NodeMutatingWebhook": True}
        assert parts_of(it.settings) == (Part.ADMISSION,)


async def test_arguments_with_which_it_does_not_start_are_a_problem(tmp_path: Path) -> None:
    document = shipped("webhooks/deployment.yaml")
    document["spec"]["template"]["spec"]["containers"][0]["args"] += ["--no-such-option"]
    async with cluster(only="nothing") as (_, client):
        await client.create_raw(resource_of(Deployment), SYSTEM, document)
        it = await found(client, tmp_path)
        assert [remark.state for remark in it.remarks] == ["problem"]
        assert "No such option" in it.remarks[0].message


async def test_files_of_a_control_plane_node_are_left_to_the_user(tmp_path: Path) -> None:
    pod = yaml.safe_load(data.deploy("kubeadm", "kube-scheduler+strategic.yaml").read_text())
    pod["metadata"] |= {"name": "kube-scheduler-cp", "labels": {"component": "kube-scheduler"}}
    pod["spec"] |= {"volumes": [], "nodeName": "cp"}
    pod["spec"]["containers"][0]["image"] = "kube-scheduler"
    for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        container.pop("volumeMounts", None)
    async with cluster(only="nothing") as (_, client):
        await client.create_raw(resource_of(Pod), "kube-system", pod)
        it = await found(client, tmp_path)
        assert it.workloads == []
        [remark] = it.remarks
        assert (remark.state, remark.subject) == ("note", "Pod kube-system/kube-scheduler-cp")
        assert "/etc/kubernetes/koordpy/koordpy-profiles.yaml is in no ConfigMap" in remark.message


async def test_the_command_says_what_it_read_and_what_it_left_out() -> None:
    async with cluster(only="extender") as (server, _):
        arguments = ["doctor", "--server", server.url]
        text = await asyncio.to_thread(CliRunner().invoke, cli, arguments)
        assert "configured by Deployment koordinator-system/koordpy-scheduler\n" in text.output
        assert "not examined\n  webhooks: part admission is not among the parts\n" in text.output
        as_json = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, "-o", "json"])
        report = json.loads(as_json.output)
        assert "skipped" not in {each["state"] for each in report["findings"] if each["area"] == "devices"}
        assert report["configurations"] == ["Deployment koordinator-system/koordpy-scheduler"]


async def test_without_any_workload_the_command_says_what_it_examines_instead() -> None:
    async with cluster(only="nothing") as (server, _):
        done = await asyncio.to_thread(CliRunner().invoke, cli, ["doctor", "--server", server.url])
        assert "examined is what `koordpy serve` needs by default" in done.output
        assert "  devices: no profile has NodeNUMAResource or DeviceShare\n" in done.output
