"""All workload controllers of a cluster, with one view of it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Self

from koordpy.api.meta import KubeObject
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.cluster.informers import Informers
from koordpy.lib import supervise
from koordpy.lib.clock import Clock, SystemClock

from .controller import Context, Controller
from .cron_job import CronJobController
from .daemon_set import DaemonSetController
from .deployment import DeploymentController
from .endpoints import EndpointsController
from .job import JobController
from .namespace_contents import NamespaceContents
from .node_lifecycle import NodeLifecycleController
from .pod_eviction import PodEvictionController
from .replica_set import ReplicaSetController
from .stateful_set import StatefulSetController

CONTROLLERS: tuple[type[Controller], ...] = (
    CronJobController,
    DaemonSetController,
    DeploymentController,
    EndpointsController,
    JobController,
    NamespaceContents,
    NodeLifecycleController,
    PodEvictionController,
    ReplicaSetController,
    StatefulSetController,
)


class WorkloadControllers:
    """Runs the controllers between `start` and `stop`; also an asynchronous context manager.

    Nothing is kept beyond that: a new one continues where this one was stopped.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        controllers: tuple[type[Controller], ...] = CONTROLLERS,
    ) -> None:
        clock = clock or SystemClock()
        self._cluster = Cluster(clock)
        self._informers = Informers(self._cluster, client, rng=rng)
        self._recorders: dict[str, Recorder] = {}
        self._client, self._clock = client, clock
        context = Context(
            self._cluster, client, clock, rng or random.Random(), self._recorder, self._catch_up
        )
        self._controllers = [type_(context) for type_ in controllers]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, *, sync_timeout: float = 60.0) -> None:
        """List everything, then start to reconcile. Raises TimeoutError if the lists take too long."""
        await self._informers.start()
        await self._informers.wait_synced(sync_timeout)
        for controller in self._controllers:
            self._run(controller.name, controller.run)
        for name, recorder in self._recorders.items():
            self._run(f"events of {name}", recorder.run)

    async def stop(self) -> None:
        """Stop at once; what was begun is finished by the next start."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._informers.stop()
        self._cluster.close()

    def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(supervise.forever(name, work), name=name))

    def _recorder(self, name: str) -> Recorder:
        return self._recorders.setdefault(
            name, Recorder(self._client, controller=name, clock=self._clock, core=True)
        )

    async def _catch_up(self, *types: type[KubeObject]) -> None:
        await self._informers.catch_up(*types)
