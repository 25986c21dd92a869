"""The demo, as run from a fresh clone of the repository."""

import asyncio
import io
import json
import re
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from rich.console import Console

from koordpy import data, settings
from koordpy.api import quantity
from koordpy.api.core import Deployment, Lease, Node, Pod
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.scheme import Resource
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.commands.demo import story
from koordpy.commands.demo.access import Endpoints, kubeconfig_path, port_or_any
from koordpy.commands.demo.cluster import DemoCluster, DemoFailed, DemoOptions
from koordpy.commands.demo.story import Demo
from koordpy.compose.process import Process
from koordpy.doctor.examination import Question, examine
from koordpy.doctor.finding import State
from koordpy.doctor.installation import parts_of
from koordpy.settings import Settings
from tests.eventually import PATIENCE


def options(folder: Path, **chosen: Any) -> DemoOptions:
    fields: dict[str, Any] = {"nodes": 8, "port": 0, "kubeconfig": folder / "kubeconfig"}
    return DemoOptions(**fields | chosen)


async def test_its_pods_run_and_it_prints_what_to_try(tmp_path: Path) -> None:
    to = io.StringIO()
    async with AsyncExitStack() as stack:
        demo = Demo(Console(file=to, width=200), options(tmp_path), tmp_path, stack)
        await demo.tell()
        demo.invite()
        pods = await demo.cluster.client.list_all(Pod)
        assert {pod.status.phase for pod in pods} == {"Running"}
        async with asyncio.timeout(PATIENCE):
            while not await measured_nodes(demo):
                await asyncio.sleep(0.1)
        scale = {"spec": {"replicas": 23}}
        await demo.cluster.client.patch(Deployment, "shop", "web", scale)
        async with asyncio.timeout(PATIENCE):
            while sum(_is_ready_web(pod) for pod in await demo.cluster.client.list_all(Pod)) != 23:
                await asyncio.sleep(0.1)
        worker = demo.cluster.endpoints.worker
        async with httpx.AsyncClient() as http:
            [newest, *_] = (await http.get(f"{worker}/apis/v1/descheduling/rounds")).json()
        assert newest["error"] == ""
        jobs = await demo.cluster.client.list_all(PodMigrationJob)
        assert jobs
        assert {job.status.phase for job in jobs} == {"Succeeded"}
        assert await offered(demo, "node-001") > 0
        use = {"metadata": {"annotations": {"usage.koordpy.dev/cpu": "11"}}}
        await demo.cluster.client.patch(Node, "", "node-001", use)
        async with asyncio.timeout(PATIENCE):
            while await offered(demo, "node-001") > 0:
                await demo.cluster.kubelets.report()
                await asyncio.sleep(0.1)
    told = to.getvalue()
    assert re.search(r"batch pods, and why\nnode node-\d+: colocation on, last report", told), told
    assert re.search(r"kubernetes.io/batch-cpu: \w+ \(the node has \w+\)\n +batchAllocatable\[CPU", told)
    assert re.search(r"koordpy colocate explain node-\d+\n", told), told
    assert re.search(r"\d+ pods? moved, each to a place that was reserved for it first\n", told), told
    chart = re.search(r"\n  node-003 +█\S* +(\d+)% +█\S* +(\d+)%\n", told)
    assert chart is not None, told
    before, after = chart.groups()
    assert int(before) > 65 >= int(after)
    assert re.search(r"export KUBECONFIG=\S+/kubeconfig\n", told), told
    assert re.search(r"koordpy why \w+/\S+ --history( --debug-server http://127.0.0.1:\d+)?\n", told), told
    assert not (tmp_path / "kubeconfig").exists()


async def offered(demo: Demo, node: str) -> int:
    """The milli-cores that a node offers to batch pods."""
    found = await demo.cluster.client.get(Node, "", node)
    return quantity.value(found.status.allocatable["kubernetes.io/batch-cpu"])


async def measured_nodes(demo: Demo) -> list[str]:
    """The nodes that `kubectl top` shows."""
    metrics = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, Node)
    return [item["metadata"]["name"] async for item in demo.cluster.client.list_raw(metrics)]


def _is_ready_web(pod: Pod) -> bool:
    conditions = {condition.type: condition.status for condition in pod.status.conditions}
    return pod.metadata.labels.get("app") == "web" and conditions.get("Ready") == "True"


async def test_the_doctor_finds_nothing_wrong_and_everything_answers_where_the_files_say(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        cluster = DemoCluster(options(tmp_path), tmp_path, stack)
        await cluster.start_control_plane()
        await cluster.objects.create_all(data.documents("demo", "objects.yaml"))
        await cluster.serve()
        cluster.endpoints.write(tmp_path / "endpoints.json")
        found = json.loads((tmp_path / "endpoints.json").read_text())
        names = ["kubeconfig", "apiServer", "admission", "extender", "debug", "worker", "extenderHeaders"]
        assert list(found) == names

        client = Client(Connection.find(kubeconfig=found["kubeconfig"]))
        stack.push_async_callback(client.close)
        assert client.connection.server == found["apiServer"]
        read = Settings.model_validate({"client": {"server": found["apiServer"]}})
        await _held(client, "koordinator-system", "koord-scheduler")
        await _held(client, "kube-system", "kube-scheduler")
        report = await examine(client, Question(read, parts_of(read)))
        wrong = [f for f in report.findings if f.state in (State.PROBLEM, State.UNKNOWN)]
        assert [
            (finding.subject, finding.message) for finding in wrong if "NodeMetric" not in str(finding)
        ] == []

        async with httpx.AsyncClient(verify=False) as http:
            assert (await http.get(f"{found['debug']}/readyz")).status_code == 200
            assert (await http.get(f"{found['admission']}/healthz")).status_code == 200
            answer = await http.post(f"{found['extender']}/filter", json={}, headers=found["extenderHeaders"])
            assert answer.status_code == 400


async def _held(client: Client, namespace: str, name: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not any(
            lease.metadata.key == f"{namespace}/{name}" and lease.spec.holder_identity
            for lease in await client.list_all(Lease)
        ):
            await asyncio.sleep(0.05)


async def test_a_worker_runs_against_it_at_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cluster = DemoCluster(options(tmp_path), tmp_path, stack)
        await cluster.start_control_plane()
        await cluster.serve()
        worker = {"descheduler": {"config": str(data.deploy("demo", "descheduler.yaml"))}}
        chosen = {"client": {"kubeconfig": str(cluster.kubeconfig)}, "worker": worker, "debug": {"port": 0}}
        process = Process(settings.load(None, chosen), ["descheduler", "debug"])
        stack.push_async_callback(process.stop)
        await process.start()
        await process.wait_ready(20)


async def test_it_runs_with_the_users_configuration(tmp_path: Path) -> None:
    fit = {"enabled": [{"name": "NodeResourcesFit"}]}
    profiles = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": name, "plugins": {"filter": fit}}
            for name in ("default-scheduler", "koord-scheduler", "mine")
        ],
    }
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(profiles))
    (tmp_path / "koordpy.yaml").write_text(
        "apiVersion: config.koordpy.dev/v1alpha1\nkind: KoordpyConfiguration\nextender: {decisions: 7}\n"
    )
    to = io.StringIO()
    async with AsyncExitStack() as stack:
        chosen = options(
            tmp_path, config=tmp_path / "koordpy.yaml", scheduler_config=str(tmp_path / "profiles.yaml")
        )
        demo = Demo(Console(file=to, width=200), chosen, tmp_path, stack)
        await demo.tell()
        assert demo.cluster.process.settings.extender.decisions == 7
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "mine", "namespace": "shop"},
            "spec": {"schedulerName": "mine", "containers": [{"name": "main", "image": "app:1"}]},
        }
        await demo.cluster.objects.create(pod)
        async with asyncio.timeout(PATIENCE), httpx.AsyncClient() as http:
            url = f"{demo.cluster.endpoints.debug}/apis/v1/decisions/shop/mine"
            while (answer := await http.get(url)).status_code != 200:
                await asyncio.sleep(0.1)
        assert {decision["profile"] for decision in answer.json()} == {"mine"}
    assert "With this configuration: " in to.getvalue()


async def test_profiles_that_leave_pods_of_the_demo_out_are_an_error_at_once(tmp_path: Path) -> None:
    profiles = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "mine"}],
    }
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(profiles))
    async with AsyncExitStack() as stack:
        chosen = options(tmp_path, scheduler_config=str(tmp_path / "profiles.yaml"))
        with pytest.raises(DemoFailed, match=r"default-scheduler, koord-scheduler too; it has mine$"):
            await Demo(Console(file=io.StringIO()), chosen, tmp_path, stack).tell()


async def test_it_says_what_it_waits_for_and_ends_where_no_pod_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(story, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(story, "CUSTOM_WAIT_SECONDS", 1.5)
    args = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeAffinityArgs",
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "absent", "operator": "Exists"}]}]
            }
        },
    }
    profiles = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": name,
                "plugins": {"filter": {"enabled": [{"name": "NodeAffinity"}]}},
                "pluginConfig": [{"name": "NodeAffinity", "args": args}],
            }
            for name in ("default-scheduler", "koord-scheduler")
        ],
    }
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(profiles))
    to = io.StringIO()
    async with AsyncExitStack() as stack:
        chosen = options(tmp_path, scheduler_config=str(tmp_path / "profiles.yaml"))
        demo = Demo(Console(file=to, width=200), chosen, tmp_path, stack)
        with pytest.raises(DemoFailed, match=r"^0 of 4 pods of crunch run after \d+ s"):
            await demo.tell()
    assert re.search(r"0 of 4 pods of crunch run after \d+ s.* \(for 1.5 s at most\)\n", to.getvalue())


async def test_a_chosen_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port_or_any(port) == 0
        async with AsyncExitStack() as stack:
            with pytest.raises(DemoFailed, match=rf"^--port: 127.0.0.1:{port} cannot be used: "):
                await DemoCluster(options(tmp_path, port=port), tmp_path, stack).start_control_plane()


def test_two_demos_write_two_kubeconfigs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert kubeconfig_path(8001) == tmp_path / "koordpy" / "demo.kubeconfig"
    assert kubeconfig_path(40001) == tmp_path / "koordpy" / "demo-40001.kubeconfig"


def test_a_file_of_endpoints_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        Endpoints(kubeconfig="k", api_server="http://127.0.0.1:1").write(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
