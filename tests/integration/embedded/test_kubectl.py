"""What people type first, with a real kubectl against a living cluster over HTTP."""

import asyncio
import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from koordpy import data
from koordpy.api.core import Node
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.kubelet import Kubelets
from koordpy.embedded.scheduler import Scheduler
from koordpy.embedded.workloads import WorkloadControllers
from koordpy.scheduling.profiles import config
from tests.e2e.controlplane import build
from tests.eventually import PATIENCE

Kubectl = Callable[..., Awaitable[str]]

WAIT = f"--timeout={PATIENCE * 0.9:.0f}s"
"""How long a kubectl waits; it says what it waited for before its own end is no longer awaited."""


async def run(folder: Path, story: Callable[[Kubectl], Awaitable[None]], *, reports: float = 1.0) -> None:
    """Run a story on a cluster of four nodes."""
    binary = build.find("kubectl")
    if binary is None:
        pytest.skip("kubectl is not built: run python -m tests.e2e.controlplane.build (needs Go)")
    crds = sorted(data.deploy("crds").glob("*nodemetrics*.yaml"))
    async with ApiServer(crds=crds, controllers=True, metrics=True) as api:

        def client() -> Client:
            return Client(Connection.find(server=api.url))

        async def kubectl(*args: str, code: int = 0) -> str:
            process = await asyncio.create_subprocess_exec(
                str(binary),
                "--server",
                api.url,
                *args,
                env={**os.environ, "HOME": str(folder), "KUBECONFIG": os.devnull},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
            told = f"kubectl {args}: {process.returncode}\n{out.decode()}\n{err.decode()}"
            assert process.returncode == code, told
            return out.decode()

        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        clients = [client() for _ in range(4)]
        for name in ("n0", "n1", "n2", "n3"):
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
                "status": {"capacity": amounts, "allocatable": amounts},
            }
            await clients[0].create_raw(resource_of(Node), "", node)
        document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        scheduler = Scheduler(config.read(document), clients[1])
        await scheduler.start()
        try:
            async with Kubelets(clients[2], reports=reports), WorkloadControllers(clients[3]):
                await story(kubectl)
        finally:
            await scheduler.stop()
            for each in clients:
                await each.close()


def names(printed: str) -> list[str]:
    return [line.split()[0] for line in printed.splitlines()[1:] if line.strip()]


async def test_deployments_are_created_scaled_updated_and_undone(tmp_path: Path) -> None:
    async def story(kubectl: Kubectl) -> None:
        await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3")
        printed = await kubectl("rollout", "status", "deployment/web", WAIT)
        assert 'deployment "web" successfully rolled out' in printed
        await kubectl("scale", "deployment/web", "--replicas=5")
        await kubectl("rollout", "status", "deployment/web", WAIT)
        assert len(names(await kubectl("get", "pods"))) == 5
        await kubectl("set", "image", "deployment/web", "web=web:2")
        await kubectl("rollout", "status", "deployment/web", WAIT)
        image = "jsonpath={.spec.template.spec.containers[0].image}"
        await kubectl("rollout", "undo", "deployment/web")
        await kubectl("rollout", "status", "deployment/web", WAIT)
        assert await kubectl("get", "deployment", "web", "-o", image) == "web:1"
        await kubectl("rollout", "restart", "deployment/web")
        await kubectl("rollout", "status", "deployment/web", WAIT)
        history = await kubectl("rollout", "history", "deployment/web")
        assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["2", "3", "4"]
        await kubectl("delete", "deployment", "web", WAIT, "--cascade=foreground")
        assert await kubectl("get", "pods") == ""

    await run(tmp_path, story)


async def test_stateful_and_daemon_sets_are_updated_and_undone(tmp_path: Path) -> None:
    def workload(kind: str, name: str) -> dict[str, Any]:
        return {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "i:1"}]},
                },
            },
        }

    async def story(kubectl: Kubectl) -> None:
        stateful = workload("StatefulSet", "db")
        stateful["spec"] |= {"replicas": 3, "serviceName": "db"}
        path = tmp_path / "objects.json"
        listed = {"apiVersion": "v1", "kind": "List", "items": [stateful, workload("DaemonSet", "agent")]}
        path.write_text(json.dumps(listed))
        await kubectl("apply", "-f", str(path))
        for name in ("statefulset/db", "daemonset/agent"):
            await kubectl("rollout", "status", name, WAIT)
            await kubectl("set", "image", name, "c=i:2")
            await kubectl("rollout", "status", name, WAIT)
            await kubectl("rollout", "undo", name)
            await kubectl("rollout", "status", name, WAIT)
        images = "jsonpath={.items[*].spec.containers[0].image}"
        assert set((await kubectl("get", "pods", "-o", images)).split()) == {"i:1"}
        assert len(names(await kubectl("get", "pods"))) == 3 + 4

    await run(tmp_path, story)


async def test_pods_are_waited_for_and_deleted(tmp_path: Path) -> None:
    async def story(kubectl: Kubectl) -> None:
        await kubectl("run", "one", "--image=web:1")
        await kubectl("wait", "--for=condition=Ready", "pod/one", WAIT)
        await kubectl("delete", "pod", "one", WAIT)
        assert await kubectl("get", "pods") == ""

    await run(tmp_path, story)


async def test_drain_moves_pods_elsewhere_and_leaves_those_of_daemon_sets(tmp_path: Path) -> None:
    async def story(kubectl: Kubectl) -> None:
        await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=8")
        await kubectl("rollout", "status", "deployment/web", WAIT)
        on_node = "spec.nodeName=n1"
        assert names(await kubectl("get", "pods", "--field-selector", on_node))
        await kubectl("drain", "n1", "--ignore-daemonsets", WAIT)
        assert await kubectl("get", "pods", "--field-selector", on_node) == ""
        await kubectl("rollout", "status", "deployment/web", WAIT)
        assert "SchedulingDisabled" in await kubectl("get", "node", "n1")
        await kubectl("uncordon", "n1")
        assert "SchedulingDisabled" not in await kubectl("get", "node", "n1")

    await run(tmp_path, story)


async def test_jobs_and_cron_jobs(tmp_path: Path) -> None:
    async def story(kubectl: Kubectl) -> None:
        await kubectl("create", "job", "hello", "--image=i:1", "--", "echo", "hello")
        await kubectl("wait", "--for=condition=Complete", "job/hello", WAIT)
        await kubectl("create", "cronjob", "tick", "--image=i:1", "--schedule=0 0 1 1 *", "--", "date")
        await kubectl("create", "job", "now", "--from=cronjob/tick")
        await kubectl("wait", "--for=condition=Complete", "job/now", WAIT)

    await run(tmp_path, story)


async def test_top_shows_what_nodes_and_pods_use(tmp_path: Path) -> None:
    async def story(kubectl: Kubectl) -> None:
        await kubectl("run", "busy", "--image=web:1", "--annotations=usage.koordpy.dev/cpu=3")
        await kubectl("wait", "--for=condition=Ready", "pod/busy", WAIT)
        node = await kubectl("get", "pod", "busy", "-o", "jsonpath={.spec.nodeName}")
        async with asyncio.timeout(PATIENCE):
            while '"busy"' not in await kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/pods"):
                await asyncio.sleep(0.2)
        _, cpu, _ = (await kubectl("top", "pod", "busy", "--no-headers")).split()
        assert 2900 < int(cpu.removesuffix("m")) < 3100
        rows = {
            line.split()[0]: line.split()
            for line in (await kubectl("top", "nodes", "--no-headers")).splitlines()
        }
        assert set(rows) == {"n0", "n1", "n2", "n3"}
        assert int(rows[node][1].removesuffix("m")) > 3000

    await run(tmp_path, story)


async def test_a_namespace_has_an_account_and_goes_with_its_contents(tmp_path: Path) -> None:
    async def story(kubectl: Kubectl) -> None:
        await kubectl("create", "namespace", "team")
        await kubectl("wait", "--for=create", "serviceaccount/default", "-n", "team", WAIT)
        await kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", "team", WAIT)
        await kubectl("create", "deployment", "web", "--image=web:1", "--replicas=3", "-n", "team")
        await kubectl("rollout", "status", "deployment/web", "-n", "team", WAIT)
        await kubectl("delete", "namespace", "team", WAIT)
        assert "team" not in names(await kubectl("get", "namespaces"))
        assert await kubectl("get", "pods", "-A") == ""

    await run(tmp_path, story)
