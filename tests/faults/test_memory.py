"""`koordpy serve` in a process of its own, and callers and tenants who try to make it large."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from koordpy import data
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import BadRequest
from koordpy.embedded.apiserver import ApiServer
from tests.e2e.controlplane.process import free_port
from tests.eventually import PATIENCE
from tests.integration.service.stage import CRDS, review_of
from tests.servers.hostile_pods import KINDS, hostile_pod

MOST_MEMORY: Final = 400 << 20
"""Bytes that a process may ever take."""

NODES: Final = [f"n{number}" for number in range(8)]


class Served:
    """A process, the cluster that it serves, and a client of its endpoints."""

    def __init__(self, pid: int, ports: dict[str, int], client: Client, http: httpx.AsyncClient) -> None:
        self._pid, self._ports, self.client, self.http = pid, ports, client, http

    def url(self, listener: str, path: str) -> str:
        scheme = "https" if listener == "admission" else "http"
        return f"{scheme}://127.0.0.1:{self._ports[listener]}{path}"

    def memory(self) -> int:
        """Return the most bytes that the process has ever had in memory."""
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
        raise AssertionError("the kernel reports no VmHWM")

    async def post(self, listener: str, path: str, body: object) -> Any:
        """Send JSON; return the body of the answer."""
        content = json.dumps(body, separators=(",", ":")).encode()
        headers = {"content-type": "application/json"}
        answer = await self.http.post(self.url(listener, path), content=content, headers=headers)
        assert answer.status_code == 200, answer.text[:500]
        return answer.json()

    async def filter(self, pod: object) -> None:
        await self.post("extender", "/extender/filter", {"Pod": pod, "NodeNames": NODES})

    async def create_and_delete(self, pod: dict[str, Any]) -> None:
        """Create a pod in the cluster, so that the process sees it, and delete it."""
        pod["metadata"].pop("uid")
        try:
            await self.client.create_raw(resource_of(Pod), "default", pod)
        except BadRequest:  # the embedded API server takes fewer values in a body than the real one
            return
        await asyncio.sleep(0.02)
        await self.client.delete(Pod, "default", pod["metadata"]["name"], grace_period_seconds=0)

    async def held_by_caches(self) -> float:
        """Return the metric of all caches together."""
        text = (await self.http.get(self.url("debug", "/metrics"))).text
        [total] = [line for line in text.splitlines() if line.startswith("koordpy_caches_bytes ")]
        return float(total.split()[1])


@asynccontextmanager
async def served(folder: Path, *parts: str) -> AsyncIterator[Served]:
    """Run `koordpy serve` with parts and the shipped profiles, on an embedded API server."""
    async with (
        ApiServer(crds=CRDS) as server,
        httpx.AsyncClient(trust_env=False, verify=ssl_for_tests(), timeout=PATIENCE) as http,
    ):
        client = Client(Connection.to(Access(server.url)))
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
        for name in NODES:
            status = {"allocatable": amounts, "capacity": amounts}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
            await client.create_raw(resource_of(Node), "", node)
        ports = {name: free_port() for name in ("extender", "admission", "debug")}
        config = folder / "koordpy.yaml"
        config.write_text(yaml.safe_dump(settings(folder, server.url, ports, parts)))
        with (folder / "log").open("w") as log:
            process = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).with_name("koordpy")),
                *("serve", "--config", str(config)),
                stdout=log,
                stderr=log,
            )
        try:
            found = Served(process.pid, ports, client, http)
            await ready(found, lambda: process.returncode is None, folder / "log")
            yield found
            assert process.returncode is None, (folder / "log").read_text()[-2000:]
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await client.close()


def ssl_for_tests() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def settings(folder: Path, server: str, ports: dict[str, int], parts: tuple[str, ...]) -> dict[str, Any]:
    profiles = data.deploy(
        "kustomize", "components", "gangs-and-quotas", "koordpy-profiles-gangs-and-quotas.yaml"
    )
    return {
        "apiVersion": "config.koordpy.dev/v1alpha1",
        "kind": "KoordpyConfiguration",
        "client": {"server": server},
        "parts": [*parts, "debug"],
        "extender": {
            "bindAddress": "127.0.0.1",
            "port": ports["extender"],
            "schedulerConfig": str(profiles),
            "leaderElect": False,
        },
        "admission": {
            "bindAddress": "127.0.0.1",
            "port": ports["admission"],
            "certDir": str(folder / "certs"),
        },
        "debug": {"port": ports["debug"]},
    }


async def ready(served: Served, is_running: Callable[[], bool], log: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            assert is_running(), await asyncio.to_thread(log.read_text)
            with suppress(httpx.HTTPError):
                if (await served.http.get(served.url("debug", "/readyz"))).status_code == 200:
                    return
            await asyncio.sleep(0.1)


async def test_pods_as_large_as_etcd_takes_them_do_not_fill_the_extender(tmp_path: Path) -> None:
    async with served(tmp_path, "extender") as process:
        for kind in KINDS:
            for number in range(12):
                await process.filter(hostile_pod(kind, number))
            for number in range(12, 16):
                await process.create_and_delete(hostile_pod(kind, number))
        assert process.memory() < MOST_MEMORY
        assert 0 < await process.held_by_caches() < MOST_MEMORY / 2


async def test_one_large_pod_that_is_filtered_again_and_again_does_not_fill_the_extender(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, "extender") as process:
        body = {"Pod": hostile_pod("preferred affinity", 1), "NodeNames": NODES}
        for _ in range(200):
            await process.post("extender", "/extender/filter", body)
        assert process.memory() < MOST_MEMORY


async def test_thousands_of_pods_that_are_never_bound_do_not_fill_the_extender(tmp_path: Path) -> None:
    async with served(tmp_path, "extender") as process:
        for number in range(4000):
            await process.filter(small_pod(number))
        assert process.memory() < MOST_MEMORY


def small_pod(number: int) -> dict[str, Any]:
    """Return a pod of 20 kB, with a scheduler name, labels and selectors of its own."""
    pod = hostile_pod("annotation", 0)
    name = f"small-{number}"
    labels = {f"{name}-{item}": f"value-{number}" for item in range(200)}
    pod["metadata"] = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    pod["spec"]["nodeSelector"] = dict(labels)
    return pod


@pytest.mark.parametrize("path", ["/mutate-pod", "/validate-pod"])
async def test_large_objects_do_not_fill_the_webhooks(tmp_path: Path, path: str) -> None:
    async with served(tmp_path, "admission") as process:
        for kind in KINDS:
            for number in range(15):
                pod = hostile_pod(kind, number)
                pod["metadata"].setdefault("labels", {})["koordinator.sh/qosClass"] = "LS"
                await process.post("admission", path, review_of(pod, uid=f"{kind}-{number}"))
        assert process.memory() < MOST_MEMORY
