"""The kubelets and koordlets of all nodes of a cluster: pods, heartbeats, and reports of usage."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.events import Recorder
from koordpy.cluster.informers import Informers
from koordpy.lib import supervise
from koordpy.lib.clock import Clock, SystemClock

from .heartbeats import Heartbeats, is_alive
from .koordlets import Koordlets
from .measured import MeasuredRuntime
from .network import Network
from .pods import PodKubelets, node_of
from .usage import Usage

log = logging.getLogger(__name__)

REPORT_SECONDS = 15.0
_WITHOUT_METRICS = 60.0
"""Seconds after which koordlets try again where the API server does not serve NodeMetrics."""


class Kubelets:
    """Runs the pods of every node of a cluster between `start` and `stop`; also a context manager.

    `reports` is the interval in seconds at which usage is reported as NodeMetrics; None: it is not.
    """

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        reports: float | None = REPORT_SECONDS,
    ) -> None:
        clock, rng = clock or SystemClock(), rng or random.Random()
        self._client, self._clock = client, clock
        self._cluster = Cluster(clock)
        self._nodes, self._pods = self._cluster.store(Node), self._cluster.store(Pod)
        self._pods.index(node_of)
        self._informers = Informers(self._cluster, client, rng=rng)
        self.usage = Usage()
        self._runtime = MeasuredRuntime(client, self.usage)
        network = self._network = Network()
        self._recorder = Recorder(client, controller="kubelet", clock=clock, core=True)
        self._heartbeats = Heartbeats(self._nodes, client, clock, network, rng=rng)
        self._nodes.subscribe(self._joined, self._changed, self._left)
        self._kubelets = PodKubelets(
            self._pods,
            client,
            clock,
            self._runtime,
            events=self._recorder,
            network=network,
            is_alive=lambda name: is_alive(self._nodes.get("", name)),
        )
        self._koordlets: Koordlets | None = None
        if reports is not None:
            self._koordlets = Koordlets(self.usage, self._pods, client, clock, interval=reports)
        self._tasks: list[asyncio.Task[None]] = []
        self._later: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, *, sync_timeout: float = 60.0) -> None:
        """List everything, then start. Raises TimeoutError if the lists take too long."""
        await self._informers.start()
        await self._informers.wait_synced(sync_timeout)
        self._run("kubelets", self._kubelets.run)
        self._run("heartbeats", self._heartbeats.run)
        self._run("events of kubelets", self._recorder.run)
        if self._koordlets is not None:
            self._run("koordlets", self._report)

    async def stop(self) -> None:
        """Stop as if all nodes lost their power: pods stay as they are."""
        tasks, self._tasks = [*self._tasks, *self._later], []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._informers.stop()
        self._cluster.close()

    async def report(self) -> None:
        """Report usage now, besides the reports at intervals."""
        if self._koordlets is not None:
            await self._koordlets.report(self._clock.monotonic())

    async def _report(self) -> None:
        assert self._koordlets is not None
        try:
            await self._koordlets.run()
        except NotFound:
            await asyncio.sleep(_WITHOUT_METRICS)

    def _run(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(supervise.forever(name, work), name=name))

    # --- nodes -----------------------------------------------------------------------------------

    def _joined(self, node: Node) -> None:
        self._runtime.node_changed(node)
        self._kubelets.take_up(node.metadata.name)

    def _changed(self, old: Node, new: Node) -> None:
        if (old.status.allocatable, old.metadata.annotations) != (
            new.status.allocatable,
            new.metadata.annotations,
        ):
            self._runtime.node_changed(new)
        if is_alive(new) and not is_alive(old):
            self._kubelets.take_up(new.metadata.name)

    def _left(self, node: Node) -> None:
        name = node.metadata.name
        if self._koordlets is not None:
            self._koordlets.gone(name)
            task = asyncio.create_task(self._delete_metric(name))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        for pod in self._pods.index(node_of).get(name):
            self._runtime.stopped(pod)
        self.usage.drop(name)
        self._network.forget(name)

    async def _delete_metric(self, node: str) -> None:
        with suppress(ApiError, ConnectionFailed):
            await self._client.delete(NodeMetric, "", node)
