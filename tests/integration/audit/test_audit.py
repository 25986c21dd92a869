"""`koordpy audit` on a cluster, and that the audits at the end of tests can fail."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from koordpy import data
from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.audit.finding import Finding
from koordpy.cli import cli
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.commands import audit as command
from koordpy.commands.audit_watch import TICK, Watch
from koordpy.embedded.apiserver import ApiServer, Fault
from tests.audited import Crowded, assert_clean
from tests.eventually import PATIENCE
from tests.moments import always_clean


async def audit(server: ApiServer, *arguments: str) -> Result:
    options = ("--server", server.url, "--recheck", "0", "-o", "json", *arguments)
    return await asyncio.to_thread(CliRunner().invoke, cli, ["audit", *options])


async def add_pod(client: Client, name: str, cpus: str, **devices: Any) -> None:
    annotations = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
    if devices:
        annotations[extension.ANNOTATION_DEVICE_ALLOCATED] = json.dumps(devices)
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
        crowded = Crowded()
        crowded.add("n1")
        assert_clean(server, crowded)
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


async def looking_twice(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, between: Callable[[Client], Awaitable[None]]
) -> tuple[Result, int]:
    """Audit a cluster that changes after it was listed for the first time; return how often it was."""
    listed, lists, loop = command.listed, 0, asyncio.get_running_loop()

    async def list_and_change(client: Client) -> Any:
        nonlocal lists
        found = await listed(client)
        lists += 1
        if lists == 1:
            change = asyncio.run_coroutine_threadsafe(changed(), loop)
            await asyncio.wrap_future(change)
        return found

    async def changed() -> None:
        client = Client(Connection.find(None, None, server.url))
        await between(client)
        await client.close()

    monkeypatch.setattr(command, "listed", list_and_change)
    return await audit(server), lists


async def test_what_is_gone_when_everything_is_listed_again_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        for name, cpus in (("a", "0"), ("b", "0-1"), ("c", "1")):
            await add_pod(client, name, cpus)

        async def end_a(their: Client) -> None:
            await their.delete(Pod, "default", "a", grace_period_seconds=0)

        done, lists = await looking_twice(server, monkeypatch, end_a)
        assert (done.exit_code, lists) == (1, 2), done.output
        assert [found["what"] for found in json.loads(done.output)["findings"]] == ["CPU 1"]

        async def end_c(their: Client) -> None:
            await their.delete(Pod, "default", "c", grace_period_seconds=0)

        monkeypatch.undo()
        done, lists = await looking_twice(server, monkeypatch, end_c)
        assert (done.exit_code, lists) == (0, 2), done.output
        monkeypatch.undo()
        done, lists = await looking_twice(server, monkeypatch, lambda _: asyncio.sleep(0))
        assert (done.exit_code, lists) == (0, 1), "clean books are listed once"
        await client.close()


async def watching(server: ApiServer, *arguments: str) -> asyncio.subprocess.Process:
    """Start the command with `--watch`; return when it says what it follows."""
    code = "from koordpy.cli import main; main()"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "audit", "--watch", "--server", server.url, "-o", "json", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    said = await asyncio.wait_for(process.stderr.readline(), PATIENCE)
    assert b"auditing" in said, said
    return process


async def ended(process: asyncio.subprocess.Process) -> tuple[int, list[dict[str, Any]]]:
    """Interrupt it; return its exit code and what it has printed since."""
    process.send_signal(signal.SIGINT)
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode is not None
    assert b"Traceback" not in err, err.decode()
    return process.returncode, [json.loads(line) for line in out.splitlines()]


async def test_a_watch_tells_what_is_handed_out_twice_once_and_exits_with_1() -> None:
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        await add_pod(client, "a", "0-1")
        process = await watching(server, "--recheck", "0.2")
        try:
            assert process.stdout is not None
            await add_pod(client, "b", "1")
            found = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
            assert (found["severity"], found["node"], found["what"]) == ("error", "n1", "CPU 1")
            await client.delete(Pod, "default", "b", grace_period_seconds=0)
            await asyncio.sleep(1.5)
            await add_pod(client, "c", "0")
            again = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
            assert again["what"] == "CPU 0"
            assert await ended(process) == (1, [])
        finally:
            if process.returncode is None:
                process.kill()
        await client.close()


async def test_a_watch_of_clean_books_exits_with_0_also_without_koordinators_kinds() -> None:
    async with ApiServer() as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        await add_pod(client, "a", "0-1")
        process = await watching(server, "--recheck", "0")
        try:
            await add_pod(client, "b", "2")
            await asyncio.sleep(1.5)
            assert await ended(process) == (0, [])
        finally:
            if process.returncode is None:
                process.kill()
        await client.close()


async def test_a_watch_knows_no_device_to_miss_where_devices_cannot_be_listed() -> None:
    async with ApiServer() as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        await add_pod(client, "a", "0", gpu=[{"minor": 0, "resources": {extension.GPU_CORE: "100"}}])
        process = await watching(server, "--recheck", "0")
        try:
            assert process.stdout is not None
            await add_pod(client, "b", "0")
            first = json.loads(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
            assert first["what"] == "CPU 0"
            assert await ended(process) == (1, [])
        finally:
            if process.returncode is None:
                process.kill()
        await client.close()


async def add_reservation(client: Client, name: str, cpus: str) -> None:
    resource = resource_of(Reservation)
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    annotations = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
    document: dict[str, Any] = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "template": {"spec": {"containers": [container]}},
            "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}],
            "ttl": "1h",
        },
    }
    await client.create_raw(resource, "", document)
    status = {"phase": "Available", "nodeName": "n1", "allocatable": {"cpu": "1"}}
    await client.patch_status(Reservation, "", name, {"status": status})


@pytest.mark.parametrize("stays", [False, True])
async def test_a_watch_that_is_far_behind_shows_nothing_that_was_of_no_moment(stays: bool) -> None:
    """A Reservation's CPU goes to a pod, and the watch of Reservations never says that it is gone."""
    held = asyncio.Event()

    reads = 0

    def behind(method: str, path: str) -> Fault | None:
        """Hold the watch of Reservations, which follows a page and a list of them."""
        nonlocal reads
        reads += method == "GET" and path.endswith("/reservations")
        return Fault(held=held) if method == "GET" and path.endswith("/reservations") and reads == 3 else None

    async with ApiServer(crds=[data.deploy("crds")], faults=behind) as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        await add_reservation(client, "r", "0")
        found: list[Finding] = []
        stopping = asyncio.Event()
        watch = Watch(client, 0.2, found.append)
        following = asyncio.create_task(watch.run(stopping))
        while not watch.synced:
            await asyncio.sleep(0.01)
        if not stays:
            await client.delete(Reservation, "", "r")
        await add_pod(client, "a", "0")
        await asyncio.sleep(3 * TICK)
        assert reads > 3, "new lists were made, while the watch was held"
        stopping.set()
        held.set()
        await following
        assert [each.what for each in found] == (["CPU 0"] if stays else [])
        assert watch.told == len(found)
        await client.close()


async def test_what_was_wrong_for_a_moment_fails_a_test_that_is_always_clean() -> None:
    async with ApiServer(crds=[data.deploy("crds")]) as server:
        client = Client(Connection.find(None, None, server.url))
        await add_node(client)
        await add_pod(client, "a", "0")
        async with always_clean(client):
            await add_pod(client, "other", "1")
        assert_clean(server)
        following = always_clean(client)
        await following.__aenter__()
        await add_pod(client, "b", "0")
        await client.delete(Pod, "default", "b", grace_period_seconds=0)
        with pytest.raises(AssertionError, match="CPU 0"):
            await following.__aexit__(None, None, None)
        with pytest.raises(AssertionError, match="CPU 0"):
            assert_clean(server)
        await client.close()
