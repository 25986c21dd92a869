"""A MigrationController on an API server of this process; the stores are brought up to date by hand."""

from collections.abc import Mapping
from typing import Any

from koordpy import data
from koordpy.api.core import ObjectReference, Pod, ReplicaSet
from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.api.pod_migration_job import PodMigrationJob, PodMigrationJobSpec
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.descheduling.interface import Handle, NoPlugins, SharedObjects, Task
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.simulation.inprocess import ServerChannel
from koordpy.testing import objects
from koordpy.testing.objects import NOW
from koordpy_plugins.descheduling.migrationcontroller.arbitrator import Arbitrator
from koordpy_plugins.descheduling.migrationcontroller.args import MigrationControllerArgs
from koordpy_plugins.descheduling.migrationcontroller.filters import MigrationFilters
from koordpy_plugins.descheduling.migrationcontroller.jobs import MigrationJobs
from koordpy_plugins.descheduling.migrationcontroller.plugin import MigrationController

READY: Mapping[str, Any] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(name: str, *, on: str = "n1", ready: bool = True, **options: Any) -> Pod:
    """Return a running pod of koord-scheduler, of the ReplicaSet `web` unless `owner` says otherwise."""
    options = {"owner": "web", "spec": {"schedulerName": "koord-scheduler"}, **options}
    status = READY if ready else {"phase": "Running"}
    return objects.pod(name, on=on, status=status, **options)


def replica_set(name: str = "web", replicas: int = 20) -> ReplicaSet:
    """Return a ReplicaSet."""
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    found = ReplicaSet(metadata=meta)
    found.spec.replicas = replicas
    return found


class Migrations:
    """The plugin of one process. `server` and `clock` may be those of an earlier process."""

    def __init__(self, *known: KubeObject, server: ApiServer | None = None, **args: Any) -> None:
        self.clock = FakeClock(NOW)
        self.server = server or ApiServer(crds=[data.deploy("crds")], clock=self.clock)
        self.client = Client(ServerChannel(self.server), attempts=1)
        self.cluster = Cluster(self.clock)
        self.recorder = Recorder(self.client, clock=self.clock)
        self.tasks: dict[str, Task] = {}
        self.shared = SharedObjects()
        self.not_evicted: list[str] = []
        self.args = args
        self.plugin = MigrationController.make(self.handle(), args)
        assert isinstance(self.plugin, MigrationController)
        for obj in known:
            self.apply(obj)

    def handle(self, **changes: Any) -> Handle:
        """Return the handle of a profile of this process."""
        given: dict[str, Any] = {
            "cluster": self.cluster,
            "client": self.client,
            "events": self.recorder,
            "clock": self.clock,
            "evictor": None,
            "dry_run": False,
            "report": lambda _: None,
            "gates": FeatureGates(MigrationController.feature_gates),
            "plugins": NoPlugins(),
            "run_while_leading": self.tasks.__setitem__,
            "identity": "ns/lease/p",
            "shared": self.shared,
            "not_evicted": self.not_evicted.append,
        }
        return Handle(**given | changes)

    def apply(self, *known: KubeObject) -> None:
        """Show objects to the plugin."""
        for obj in known:
            self.cluster.store(type(obj)).apply(obj)

    async def job(self, of: Pod, *, name: str = "", phase: str = "", **metadata: Any) -> PodMigrationJob:
        """Create a job for a pod, and show it to the plugin."""
        await self.server.load()
        meta = of.metadata
        reference = ObjectReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)
        job = PodMigrationJob(
            metadata=ObjectMeta(name=name or f"job-{meta.name}", **metadata),
            spec=PodMigrationJobSpec(pod_ref=reference),
        )
        created = await self.client.create(job)
        if phase:
            await self.set_phase(created.metadata.name, phase)
        await self.sync()
        return await self.read(created.metadata.name)

    async def set_phase(self, name: str, phase: str) -> None:
        """Write the phase of a job; the plugin does not see it before `sync`."""
        await self.client.patch_status(PodMigrationJob, "", name, {"status": {"phase": phase}})

    async def read(self, name: str) -> PodMigrationJob:
        """Return a job from the API server."""
        return await self.client.get(PodMigrationJob, "", name)

    async def jobs(self) -> list[PodMigrationJob]:
        """Return all jobs on the API server."""
        return await self.client.list_all(PodMigrationJob)

    async def sync(self) -> None:
        """Show the jobs on the API server to the plugin, as a watch would."""
        self.cluster.store(PodMigrationJob).replace(await self.jobs())

    def arbitration(self) -> tuple[Arbitrator, MigrationJobs]:
        """Return an arbitrator of the same arguments, as after a restart: it knows only the cluster."""
        args = MigrationController.read_args(self.args, "args")
        assert isinstance(args, MigrationControllerArgs)
        handle = self.handle()
        jobs = MigrationJobs(handle)
        finder = self.plugin._controller.finder
        return Arbitrator(args, handle, jobs, MigrationFilters(args, self.cluster, jobs, finder)), jobs
