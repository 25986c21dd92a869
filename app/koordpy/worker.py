"""`koordpy worker`: descheduler and controllers, each run by one process of the cluster, and the QoS manager
of this node.
"""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from koordpy import gates
from koordpy.api.catalogue import Catalogue
from koordpy.cluster import transformers
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Connection
from koordpy.cluster.events import Recorder
from koordpy.cluster.informer_checks import informer_checks
from koordpy.cluster.informers import Informers
from koordpy.cluster.leader import LeaderElector, identity
from koordpy.controllers import host as controller_host
from koordpy.controllers.host import ControllerHost
from koordpy.controllers.interface import Controller
from koordpy.controllers.interface import Handle as ControllerHandle
from koordpy.descheduling import config as descheduling_config
from koordpy.descheduling import framework as descheduling
from koordpy.descheduling.descheduler import Descheduler
from koordpy.http.routes import health
from koordpy.http.routes import metrics as metrics_route
from koordpy.http.server.application import Application
from koordpy.http.server.listener import Listener
from koordpy.lib import supervise
from koordpy.lib.clock import Clock, SystemClock
from koordpy.lib.health import Health
from koordpy.qos import manager as qos_manager
from koordpy.qos import paths
from koordpy.qos.cgroup import CgroupFiles
from koordpy.qos.collectors import Collectors
from koordpy.qos.executor import Executor
from koordpy.qos.interface import Handle as QOSHandle
from koordpy.qos.interface import QOSPlugin
from koordpy.qos.manager import QOSManager
from koordpy.qos.metric_cache import MetricCache
from koordpy.qos.states import StatesInformer
from koordpy.settings import Settings

log = logging.getLogger(__name__)

_LAST_EVENTS_SECONDS = 5.0


class WorkerError(Exception):
    """The worker was asked for something that its settings do not say enough about."""


class Worker:
    """One worker process. Descheduler and controllers see the whole cluster, the QoS manager its own node."""

    def __init__(
        self,
        settings: Settings,
        *,
        descheduler: bool = False,
        qos: bool = False,
        controllers: bool = False,
        connection: Connection | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not (descheduler or qos or controllers):
            raise WorkerError(
                "nothing to host: choose the descheduler, the controllers, the QoS manager, or several"
            )
        self.settings = settings
        self._clock = clock or SystemClock()
        access = settings.client
        self.connection = connection or Connection.find(access.kubeconfig, access.context, access.server)
        self.client = Client(self.connection)
        self.health = Health()
        self._informers: dict[str, Informers] = {}
        self._events = Recorder(self.client, clock=self._clock)
        self.descheduler: Descheduler | None = None
        self.qos: QOSManager | None = None
        self.controllers: ControllerHost | None = None
        qos_plugins = qos_manager.installed() if qos else None
        catalogue = controller_host.installed() if controllers else None
        if descheduler:
            self._host_descheduler()
        if qos_plugins is not None:
            self._host_qos(qos_plugins)
        if catalogue is not None:
            self._host_controllers(catalogue)
        debug = settings.debug
        self.listener = Listener(
            "health",
            Application("koordpy worker", [health.router(self.health), metrics_route.router()], {}),
            host=debug.bind_address,
            port=debug.port,
        )

    def _host_descheduler(self) -> None:
        settings = self.settings.worker.descheduler
        if settings.config is None:
            raise WorkerError(
                "the descheduler needs worker.descheduler.config: a DeschedulerConfiguration file"
            )
        config = descheduling_config.load(Path(settings.config).read_text(encoding="utf-8"))
        for line in config.without_effect:
            log.warning("%s: %s", settings.config, line)
        if settings.dry_run is not None:
            config = config.model_copy(update={"dry_run": settings.dry_run})
        cluster = Cluster(self._clock)
        catalogue = descheduling.installed()
        specs = catalogue.feature_gates(transformers.SPECS, skip_broken=True)
        chosen = gates.chosen(specs, self.settings.feature_gates)
        transformers.install(cluster, chosen)
        self.descheduler = Descheduler(
            config,
            catalogue,
            cluster,
            self.client,
            self._events,
            substitutes=settings.substitute_evictors,
            gates=chosen,
        )
        self._follow("descheduler", Informers(cluster, self.client))

    def _host_controllers(self, catalogue: Catalogue[Controller]) -> None:
        settings = self.settings.worker.controllers
        cluster = Cluster(self._clock)
        own = gates.chosen(catalogue.feature_gates({}), self.settings.feature_gates)
        handle = ControllerHandle(cluster, own, self.client, self._clock)
        host = ControllerHost(controller_host.build(catalogue, settings.selection, settings.args, handle))
        if not host.controllers:
            if self.descheduler is None and self.qos is None:
                raise WorkerError(
                    f"nothing to host: worker.controllers.selection {','.join(settings.selection)!r} and the "
                    f"feature gates leave none of the controllers: {controller_host.described(catalogue)}"
                )
            return
        host.setup()
        self.controllers = host
        self._follow("controllers", Informers(cluster, self.client))

    def _host_qos(self, catalogue: Catalogue[QOSPlugin]) -> None:
        settings = self.settings.worker.qos
        node_name = settings.node_name or os.environ.get("NODE_NAME")
        if not node_name:
            raise WorkerError(
                "the QoS manager needs worker.qos.nodeName or the environment variable NODE_NAME"
            )
        root = Path(settings.cgroup_root)
        cluster = Cluster(self._clock)
        states = StatesInformer(cluster, node_name, paths.detect(root))
        metrics = MetricCache(self._clock)
        files = CgroupFiles(root)
        executor = Executor(files, self._clock)
        handle = QOSHandle(
            node_name=node_name,
            states=states,
            metrics=metrics,
            layout=states.layout,
            cgroups=files,
            executor=executor,
            cluster=cluster,
            gates=gates.chosen(qos_manager.gate_specs(catalogue), self.settings.feature_gates),
            flags=qos_manager.flags_of(catalogue.values(), settings.flags),
            clock=self._clock,
            client=self.client,
            events=self._events,
        )
        collectors = Collectors(
            states,
            metrics,
            files,
            self._clock,
            proc_root=Path(settings.proc_root),
            sys_root=Path(settings.sys_root),
        )
        plugins = qos_manager.build(catalogue, settings.args, handle)
        self.qos = QOSManager(plugins, handle, states=states, executor=executor, collectors=collectors)
        self.qos.setup()
        self._follow("qos", Informers(cluster, self.client))

    def _follow(self, name: str, informers: Informers) -> None:
        self._informers[name] = informers
        self.health.ready[f"informers-{name}"] = lambda: None if informers.synced else "not listed yet"

    async def run(self) -> None:
        """Work until cancelled (or, with a descheduling interval of 0, until the one round is over).

        Raises what a part of it ended with; the other part is stopped then.
        """
        await self.listener.start()
        for name, informers in self._informers.items():
            await informers.start()
            self.health.ready |= informer_checks(informers, name)
        events = asyncio.create_task(supervise.forever("worker events", self._events.run))
        try:
            async with asyncio.TaskGroup() as hosts:
                if self.descheduler is not None:
                    hosts.create_task(self._deschedule(self.descheduler, self._informers["descheduler"]))
                if self.controllers is not None:
                    hosts.create_task(self._control(self.controllers, self._informers["controllers"]))
                if self.qos is not None:
                    hosts.create_task(self.qos.run(sync_timeout=self.settings.worker.qos.sync_timeout))
        except ExceptionGroup as group:
            raise _cause(group) from group
        finally:
            await self._write_last_events()
            events.cancel()
            await asyncio.gather(events, return_exceptions=True)
            for informers in self._informers.values():
                await informers.stop()
            await self.listener.stop()
            await self.client.close()

    async def _write_last_events(self) -> None:
        """Write the last events, but do not let an API server that is away hold up the exit."""
        try:
            async with asyncio.timeout(_LAST_EVENTS_SECONDS):
                await self._events.flush()
        except TimeoutError:
            log.warning("not all events were written within %g s", _LAST_EVENTS_SECONDS)

    async def _control(self, host: ControllerHost, informers: Informers) -> None:
        await informers.wait_synced()
        if not self.settings.worker.leader_elect:
            await host.run()
            return
        lease = self.settings.worker.controllers.lease
        elector = self._elector(
            lease.namespace, lease.name, lease.lease_duration, lease.renew_deadline, lease.retry_period
        )
        await _lead_again_and_again(elector, host.run)

    async def _deschedule(self, descheduler: Descheduler, informers: Informers) -> None:
        await informers.wait_synced()
        election = descheduler.config.leader_election
        if not self.settings.worker.leader_elect or not election.leader_elect:
            await descheduler.serve()
            return
        elector = self._elector(
            election.resource_namespace,
            election.resource_name,
            election.lease_duration / 1e9,
            election.renew_deadline / 1e9,
            election.retry_period / 1e9,
        )
        if descheduler.config.descheduling_interval <= 0:
            await elector.run(descheduler.serve)
        else:
            await _lead_again_and_again(elector, descheduler.serve)

    def _elector(
        self, namespace: str, name: str, lease_duration: float, renew_deadline: float, retry_period: float
    ) -> LeaderElector:
        return LeaderElector(
            self.client,
            namespace,
            name,
            identity(),
            lease_duration=lease_duration,
            renew_deadline=renew_deadline,
            retry_period=retry_period,
            clock=self._clock,
            rng=random.Random(),
        )


async def _lead_again_and_again(elector: LeaderElector, lead: Callable[[], Awaitable[None]]) -> None:
    while True:
        await elector.run(lead)
        log.warning("no longer the leader; waiting for the lease again")


def _cause(error: Exception) -> Exception:
    """Return the first error in groups of errors: the one that ended the work."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
