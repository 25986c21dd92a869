"""`koordpy audit` on a cluster, and that the audits at the end of tests can fail."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from koordpy import data
from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.embedded.apiserver import ApiServer
from tests.audited import assert_clean

pytestmark = pytest.mark.dirty_books("what the audit finds here is what is tested")


async def audit(server: ApiServer, *arguments: str) -> Result:
    options = ("--server", server.url, "--recheck", "0", "-o", "json", *arguments)
    return await asyncio.to_thread(CliRunner().invoke, cli, ["audit", *options])


async def add_pod(client: Client, name: str, cpus: str) -> None:
    annotations = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [container]},
    }
    await client.create_raw(resource_of(Pod), "default", document)


async def add_node(client: Client) -> None:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    document = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    status = {"status": {"capacity": allocatable, "allocatable": allocatable}}
    await client.create_raw(resource_of(Node), "", {**document, **status})


async def test_a_cluster_is_clean_until_a_cpu_is_handed_out_twice() -> None:
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        await add_pod(client, "a", "0-1")
        clean = await audit(server)
        assert clean.exit_code == 0, clean.output
        assert {check["check"]: check["outcome"] for check in json.loads(clean.output)["checks"]}[
            "cpus"
        ] == "done"
        assert_clean(server)
        await add_pod(client, "b", "1-2")
        found = await audit(server)
        assert found.exit_code == 1, found.output
        (finding,) = json.loads(found.output)["findings"]
        assert finding["what"] == "CPU 1"
        assert [owner["name"] for owner in finding["owners"]] == ["default/a", "default/b"]
        with pytest.raises(AssertionError, match="CPU 1"):
            assert_clean(server)
        assert_clean(server, aside=["n1"])
        await client.close()


async def test_a_cluster_without_koordinators_kinds_says_what_could_not_be_checked() -> None:
    async with ApiServer() as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        await add_pod(client, "a", "0")
        done = await audit(server)
        assert done.exit_code == 0, done.output
        checks = {check["check"]: check for check in json.loads(done.output)["checks"]}
        assert checks["devices"]["outcome"] == "not possible"
        assert checks["devices"]["reason"] == "Device: the cluster has no such resource"
        assert checks["cpus"]["counts"]["nodes without a CPU topology"] == 1
        await client.close()
