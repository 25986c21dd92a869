"""What only the embedded API server has: its life in a process, snapshots, injected faults, controllers."""

import asyncio
import errno
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from tests import loopback
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE

Document = dict[str, Any]

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEFINITION: Document = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}
THINGS = "/apis/example.com/v1/namespaces/default/things"


def client(server: ApiServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=PATIENCE)


def pod(name: str, labels: Document | None = None, owner: Document | None = None) -> Document:
    metadata: Document = {"name": name, "labels": labels or {}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}


def reference_to(owner: Document) -> Document:
    metadata = owner["metadata"]
    return {"apiVersion": "v1", "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}


async def ok(response: httpx.Response) -> Document:
    assert response.is_success, response.text
    body: Document = response.json()
    return body


async def eventually(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.01)


def test_server_runs_on_a_thread_for_callers_that_block() -> None:
    with ApiServer.in_thread() as server:
        assert loopback.get(f"{server.url}/readyz").text == "ok"
    with pytest.raises(httpx.ConnectError):
        loopback.get(f"{server.url}/readyz")


async def test_a_snapshot_that_cannot_be_written_is_retried_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.jsonl"
    really = os.fsync

    def full_disk(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with ApiServer(snapshot=file, snapshot_interval=0.01) as server, client(server) as http:

        async def created(name: str) -> None:
            await ok(await http.post(MAPS, json={"metadata": {"name": name}}))

        async def ready(expected: int) -> str:
            async with asyncio.timeout(PATIENCE):
                while (found := await http.get("/readyz")).status_code != expected:
                    await asyncio.sleep(0.01)
            return found.text

        async def saved(text: str) -> None:
            async with asyncio.timeout(PATIENCE):
                while not file.exists() or text not in file.read_text(encoding="utf-8"):
                    await asyncio.sleep(0.01)

        await created("first")
        await saved("first")
        before = file.read_text(encoding="utf-8")
        monkeypatch.setattr(os, "fsync", full_disk)
        await created("second")
        assert "[-]snapshot failed: not written: No space left on device" in await ready(500)
        assert (await http.get("/livez")).text == "ok"
        assert "No space left on device" in caplog.text
        assert file.read_text(encoding="utf-8") == before
        monkeypatch.setattr(os, "fsync", really)
        await saved("second")
        assert await ready(200) == "ok"
        monkeypatch.setattr(os, "fsync", full_disk)
        await created("third")
    assert os.listdir(tmp_path) == [file.name]
    assert "second" in file.read_text(encoding="utf-8")


async def test_objects_survive_a_restart_with_a_snapshot(tmp_path: Path) -> None:
    file = tmp_path / "cluster.jsonl"
    async with ApiServer(snapshot=file, crds=[DEFINITION]) as server, client(server) as http:
        created = await ok(await http.post(MAPS, json={"metadata": {"name": "a"}, "data": {"key": "value"}}))
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"n": 1}}
        await ok(await http.post(THINGS, json=thing))
    async with ApiServer(snapshot=file) as server, client(server) as http:
        assert await ok(await http.get(f"{MAPS}/a")) == created
        assert (await ok(await http.get(f"{THINGS}/t")))["spec"] == {"n": 1}
        later = await ok(await http.post(MAPS, json={"metadata": {"name": "b"}}))
        assert int(later["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
        old = created["metadata"]["resourceVersion"]
        listed = await http.get(MAPS, params={"resourceVersion": old, "resourceVersionMatch": "Exact"})
        assert listed.status_code == 410


async def test_definitions_are_read_from_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "things.yaml").write_text(json.dumps(DEFINITION))
    async with ApiServer(crds=[tmp_path]) as server, client(server) as http:
        assert (await ok(await http.get(THINGS)))["kind"] == "ThingList"


async def test_server_starts_again_on_its_port_with_its_objects() -> None:
    server = ApiServer(port=free_port())
    await server.start()
    port = server.port
    async with client(server) as http:
        await ok(await http.post(MAPS, json={"metadata": {"name": "a"}}))
    await server.stop()
    await server.start()
    try:
        assert server.port == port
        async with client(server) as http:
            await ok(await http.get(f"{MAPS}/a"))
    finally:
        await server.stop()


async def test_stopping_ends_open_watches() -> None:
    server = ApiServer()
    await server.start()
    async with client(server) as http, http.stream("GET", MAPS, params={"watch": "true"}) as watch:
        ending = asyncio.create_task(server.stop())
        assert [line async for line in watch.aiter_lines()] == []
        await ending


async def test_watch_ends_with_the_definition_of_its_resource() -> None:
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com"
    async with (
        ApiServer(crds=[DEFINITION]) as server,
        client(server) as http,
        http.stream("GET", THINGS, params={"watch": "true"}) as watch,
    ):
        await ok(await http.delete(definition))
        assert [line async for line in watch.aiter_lines()] == []
        assert (await http.get(THINGS)).status_code == 404


async def test_cut_watch_is_an_error_for_its_client() -> None:
    async with (
        ApiServer() as server,
        client(server) as http,
        http.stream("GET", MAPS, params={"watch": "true"}) as watch,
    ):
        server.cut_watches()
        with pytest.raises(httpx.RemoteProtocolError):
            await watch.aread()


async def test_fault_answers_with_its_status() -> None:
    def faults(method: str, path: str) -> Fault | None:
        return Fault(status=429, retry_after=7) if method == "POST" else None

    async with ApiServer(faults=faults) as server, client(server) as http:
        response = await http.post(MAPS, json={"metadata": {"name": "a"}})
        assert (response.status_code, response.json()["reason"]) == (429, "TooManyRequests")
        assert response.headers["Retry-After"] == "7"
        assert (await http.get(f"{MAPS}/a")).status_code == 404


@pytest.mark.parametrize("after", [False, True])
async def test_fault_cuts_the_connection_before_or_after_the_write(after: bool) -> None:
    def faults(method: str, path: str) -> Fault | None:
        return Fault(cut=True, after=after) if method == "POST" else None

    async with ApiServer(faults=faults) as server, client(server) as http:
        with pytest.raises(httpx.TransportError):
            await http.post(MAPS, json={"metadata": {"name": "a"}})
        assert (await http.get(f"{MAPS}/a")).status_code == (200 if after else 404)


async def test_small_window_forgets_old_versions() -> None:
    async with ApiServer(window=5) as server, client(server) as http:
        first = await ok(await http.post(MAPS, json={"metadata": {"name": "a"}}))
        for number in range(20):
            await ok(await http.post(MAPS, json={"metadata": {"name": f"n{number}"}}))
        params = {"watch": "true", "resourceVersion": first["metadata"]["resourceVersion"]}
        event = json.loads((await http.get(MAPS, params=params)).text)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_time_comes_from_the_clock() -> None:
    clock = FakeClock(datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC))
    async with ApiServer(clock=clock) as server, client(server) as http:
        created = await ok(await http.post(MAPS, json={"metadata": {"name": "a"}}))
        assert created["metadata"]["creationTimestamp"] == "2030-01-02T03:04:05Z"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x00",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"NONSENSE\r\n\r\n",
    ],
)
async def test_bytes_that_are_no_request_close_the_connection(request_bytes: bytes) -> None:
    async with ApiServer() as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(request_bytes)
        async with asyncio.timeout(PATIENCE):
            await reader.read()
        writer.close()
        async with client(server) as http:
            assert (await http.get("/readyz")).status_code == 200


async def test_body_that_is_too_large_is_413() -> None:
    async with ApiServer() as server, client(server) as http:
        response = await http.post(MAPS, content=b"x" * (4 << 20))
        assert response.status_code == 413


async def test_body_that_is_nested_too_deeply_is_400() -> None:
    async with ApiServer() as server, client(server) as http:
        content = b'{"metadata":{"name":"a"},"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        response = await http.post(MAPS, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code == 400


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with ApiServer() as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        body = b'{"metadata":{"name":"a"}}'
        fields = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        head = f"POST {MAPS} HTTP/1.1\r\n{fields}\r\n\r\n".encode()
        last = f"GET {MAPS}/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        writer.write(head + body + last)
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
        assert answer.count(b"HTTP/1.1 201") == 1
        assert answer.index(b"HTTP/1.1 201") < answer.index(b"HTTP/1.1 200")


async def test_controller_keeps_the_status_of_budgets() -> None:
    async with ApiServer(controllers=True) as server, client(server) as http:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        await ok(await http.post(BUDGETS, json={"metadata": {"name": "b"}, "spec": spec}))
        merge = {"Content-Type": "application/merge-patch+json"}
        for name in ("a", "b"):
            await ok(await http.post(PODS, json=pod(name, {"app": "web"})))
            ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            await ok(await http.patch(f"{PODS}/{name}/status", json=ready, headers=merge))

        async def allowed(number: int) -> bool:
            status = (await ok(await http.get(f"{BUDGETS}/b"))).get("status", {})
            return bool(status.get("disruptionsAllowed") == number)

        await eventually(lambda: allowed(1))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
        await ok(await http.post(f"{PODS}/a/eviction", json=eviction))
        await eventually(lambda: allowed(0))
        eviction["metadata"] = {"name": "b"}
        assert (await http.post(f"{PODS}/b/eviction", json=eviction)).status_code == 429


async def test_controller_empties_terminating_namespaces() -> None:
    async with ApiServer(controllers=True) as server, client(server) as http:
        await ok(await http.post("/api/v1/namespaces", json={"metadata": {"name": "team"}}))
        await ok(await http.post("/api/v1/namespaces/team/pods", json=pod("a")))
        await ok(await http.delete("/api/v1/namespaces/team"))

        async def gone() -> bool:
            return (await http.get("/api/v1/namespaces/team")).status_code == 404

        await eventually(gone)
        assert (await ok(await http.get("/api/v1/namespaces/team/pods")))["items"] == []


async def test_objects_whose_owner_is_gone_are_collected() -> None:
    async with ApiServer(controllers=True) as server, client(server) as http:
        owner = await ok(await http.post(MAPS, json={"metadata": {"name": "owner"}}))
        await ok(await http.post(PODS, json=pod("a", owner=reference_to(owner))))
        await ok(await http.delete(f"{MAPS}/owner"))

        async def gone() -> bool:
            return (await http.get(f"{PODS}/a")).status_code == 404

        await eventually(gone)


async def test_orphaned_objects_stay() -> None:
    async with ApiServer(controllers=True) as server, client(server) as http:
        owner = await ok(await http.post(MAPS, json={"metadata": {"name": "owner"}}))
        await ok(await http.post(PODS, json=pod("a", owner=reference_to(owner))))
        await http.delete(f"{MAPS}/owner", params={"propagationPolicy": "Orphan"})

        async def gone() -> bool:
            return (await http.get(f"{MAPS}/owner")).status_code == 404

        await eventually(gone)
        assert "ownerReferences" not in (await ok(await http.get(f"{PODS}/a")))["metadata"]
