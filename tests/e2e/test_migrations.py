"""Fifty migrations on a real control plane whose worker is killed, twice: nothing is done twice or left over.

Deployments and kubelets are the stand-ins that the demo uses, kube-scheduler and the API server the real
ones. Every Deployment has a PodDisruptionBudget, whose status the test maintains as kube-controller-manager
would.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api.core import Deployment, Event, Node, Pod, PodDisruptionBudget
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import Conflict
from koordpy.cluster.informers import Informers
from koordpy.embedded.kubelet.kubelets import Kubelets
from koordpy.embedded.workloads.controllers import WorkloadControllers
from tests.e2e.controlplane.process import Process
from tests.e2e.installation import Installation

pytestmark = pytest.mark.timeout(900)

APPS, REPLICAS, MIN_AVAILABLE, NODES = 10, 5, 3, 10
LEASE = "koordinator-system/koord-descheduler"
EVICTIONS_AT_KILLS = (10, 30)
PATIENCE = 420.0

DESCHEDULER = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "leaderElection": {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"},
    "deschedulingInterval": "1h",
    "profiles": [
        {
            "name": "default",
            "plugins": {
                **{point: {"disabled": [{"name": "*"}]} for point in ("deschedule", "balance")},
                **{
                    point: {"disabled": [{"name": "*"}], "enabled": [{"name": "MigrationController"}]}
                    for point in ("evict", "filter")
                },
            },
            "pluginConfig": [
                {
                    "name": "MigrationController",
                    "args": {
                        "apiVersion": "descheduler/v1alpha2",
                        "kind": "MigrationControllerArgs",
                        "maxConcurrentReconciles": 4,
                        "evictLocalStoragePods": True,
                        "objectLimiters": {"workload": {"duration": "0s"}},
                        "skipEvictionGates": [
                            "MaxMigratingPerNode",
                            "MaxMigratingPerWorkload",
                            "MaxUnavailablePerWorkload",
                            "ExpectedReplicas",
                        ],
                    },
                }
            ],
        }
    ],
}

SETTINGS = {
    "apiVersion": "config.koordpy.dev/v1alpha1",
    "kind": "KoordpyConfiguration",
    "parts": ["descheduler"],
}


class Budgets:
    """The status of PodDisruptionBudgets, and the fewest healthy pods that any application ever had."""

    def __init__(self, client: Client) -> None:
        self.cluster = Cluster()
        self._client, self._pods = client, self.cluster.store(Pod)
        self._wake = asyncio.Event()
        self.fewest = REPLICAS
        self.watches = False
        self._pods.subscribe(self._changed, lambda _, new: self._changed(new), self._changed)

    def _changed(self, pod: Pod) -> None:
        self._wake.set()
        app = pod.metadata.labels.get("app", "")
        if self.watches and app:
            self.fewest = min(self.fewest, len(self._healthy(app)))

    def _healthy(self, app: str) -> set[str]:
        return {
            pod.metadata.name
            for pod in self._pods
            if pod.metadata.labels.get("app") == app
            and pod.metadata.deletion_timestamp is None
            and any(item.type == "Ready" and item.status == "True" for item in pod.status.conditions)
        }

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for index in range(APPS):
                with suppress(Conflict):
                    await self._settle(f"web-{index}")
            await asyncio.sleep(0.2)

    async def _settle(self, app: str) -> None:
        resource = resource_of(PodDisruptionBudget)
        document = await self._client.get_raw(resource, "default", app)
        known = document.get("status", {})
        there = {pod.metadata.name for pod in self._pods if pod.metadata.deletion_timestamp is None}
        disrupted = {
            name: since for name, since in (known.get("disruptedPods") or {}).items() if name in there
        }
        healthy = len(self._healthy(app) - disrupted.keys())
        status = {
            "observedGeneration": document["metadata"]["generation"],
            "disruptionsAllowed": max(0, healthy - MIN_AVAILABLE),
            "currentHealthy": healthy,
            "desiredHealthy": MIN_AVAILABLE,
            "expectedPods": REPLICAS,
            "disruptedPods": disrupted,
        }
        if any(known.get(key) != value for key, value in status.items() if value or key in known):
            document["status"] = status
            await self._client.update_raw(resource, "default", app, document, subresource="status")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "descheduler.yaml").write_text(yaml.safe_dump(DESCHEDULER))
    settings = {**SETTINGS, "worker": {"descheduler": {"config": str(tmp_path / "descheduler.yaml")}}}
    (tmp_path / "koordpy.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def application(name: str) -> Iterable[tuple[type[Any], dict[str, Any]]]:
    """Yield a Deployment and its budget."""
    labels = {"app": name}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}}}
    spec = {"schedulerName": "koord-scheduler", "terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    yield (
        Deployment,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template},
        },
    )
    yield (
        PodDisruptionBudget,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"minAvailable": MIN_AVAILABLE, "selector": {"matchLabels": labels}},
        },
    )


def job(pod: Pod, number: int) -> dict[str, Any]:
    """Return a job; every other one as if the descheduler had created it."""
    annotations = {"koordinator.sh/job-created-by": LEASE} if number % 2 else {}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": f"job-{number}", "annotations": annotations},
        "spec": {"ttl": "2m", "podRef": {"namespace": "default", "name": pod.metadata.name}},
    }


def evictions(audit_log: Path) -> Counter[str]:
    """Return how often the eviction of each pod was accepted."""
    found: Counter[str] = Counter()
    for line in audit_log.read_text().splitlines():
        with suppress(json.JSONDecodeError):  # the last line may be incomplete
            event = json.loads(line)
            about = event.get("objectRef") or {}
            if (event["verb"], about.get("resource"), about.get("subresource")) == (
                "create",
                "pods",
                "eviction",
            ) and event.get("responseStatus", {}).get("code", 500) < 400:
                found[about["name"]] += 1
    return found


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = PATIENCE) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(seconds):
        while not await holds():
            await asyncio.sleep(0.5)


def test_fifty_migrations_survive_two_kills_of_the_worker(folder: Path) -> None:
    with Installation("full", folder) as installation:
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            installation.plane.kubectl("delete", kind, "--all")
        installation.scheduler()
        asyncio.run(story(installation, folder))


async def story(installation: Installation, folder: Path) -> None:
    plane = installation.plane
    access = Access(plane.url, authorization=f"Bearer {plane.token}", ca=plane.ca_file.read_bytes())
    client = Client(Connection.to(access))
    budgets = Budgets(client)
    for index in range(NODES):
        await create_node(client, f"n{index}")
    for index in range(APPS):
        for type_, document in application(f"web-{index}"):
            await client.create_raw(resource_of(type_), "default", document)
    workers: list[Process] = []

    def worker() -> Process:
        command = [sys.executable, "-c", "from koordpy.cli import main; main()", "worker"]
        options = [
            f"--config={folder}/koordpy.yaml",
            f"--kubeconfig={plane.kubeconfig}",
            "--debug-bind=127.0.0.1:0",
        ]
        workers.append(Process(f"worker-{len(workers)}", [*command, *options], folder))
        return workers[-1]

    async def running() -> bool:
        pods = await client.list_all(Pod, "default")
        ready = [
            pod
            for pod in pods
            if any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
        ]
        return len(ready) == APPS * REPLICAS

    async def ended() -> bool:
        jobs = await client.list_all(PodMigrationJob)
        return not any(found.is_unfinished for found in jobs)

    async def clean() -> bool:
        return not await client.list_all(Reservation)

    audit_log = folder / "audit.log"
    try:
        async with (
            Kubelets(client, reports=None),
            WorkloadControllers(client),
            Informers(budgets.cluster, client) as informers,
        ):
            await informers.wait_synced()
            settling = asyncio.create_task(budgets.run())
            await until(running)
            budgets.watches = True
            process = worker()
            for number, pod in enumerate(await client.list_all(Pod, "default")):
                await client.create_raw(resource_of(PodMigrationJob), "", job(pod, number))
            for wanted in EVICTIONS_AT_KILLS:

                async def enough(wanted: int = wanted) -> bool:
                    return evictions(audit_log).total() >= wanted or await ended()

                await until(enough)
                process.kill()
                process = worker()
            await until(ended)
            await until(clean, 120.0)
            phases = Counter([found.status.phase for found in await client.list_all(PodMigrationJob)])
            await until(running)
            await migrate_again_and_again(client)
            settling.cancel()
        counts = evictions(audit_log)
        assert set(counts.values()) == {1}, counts
        assert counts.total() >= EVICTIONS_AT_KILLS[-1], phases
        assert phases["Succeeded"] + phases["Failed"] == APPS * REPLICAS
        # Pods of one Deployment may use each other's Reservations: the job of one is then refused, and that
        # of the other times out.
        assert phases["Succeeded"] >= APPS, phases
        assert budgets.fewest >= MIN_AVAILABLE
        events = {
            (event.regarding.kind, event.reason, event.action) for event in await client.list_all(Event)
        }
        steps = ("ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete")
        assert {("PodMigrationJob", step, "Migrating") for step in steps} <= events
        assert ("Pod", "Descheduled", "Migrating") in events
    finally:
        for process in workers:
            process.kill()
        await client.close()


async def migrate_again_and_again(client: Client) -> None:
    """Migrate one pod, its successor, and that one's successor; each goes to another node."""
    [pod, *_] = await client.list_all(Pod, "default")
    for number in range(100, 103):
        name, node = f"job-{number}", pod.spec.node_name
        await client.create_raw(resource_of(PodMigrationJob), "", job(pod, number))

        async def ended(name: str = name) -> bool:
            return not (await client.get(PodMigrationJob, "", name)).is_unfinished

        await until(ended)
        found = await client.get(PodMigrationJob, "", name)
        assert found.status.phase == "Succeeded", found.status
        assert found.status.pod_ref is not None
        pod = await client.get(Pod, "default", found.status.pod_ref.name)
        assert pod.spec.node_name == found.status.node_name != node


async def create_node(client: Client, name: str) -> None:
    """Create a ready node."""
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    await client.create_raw(
        resource_of(Node), "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    )
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True", "reason": "test"}],
    }
    await client.patch_status(Node, "", name, {"status": status})
