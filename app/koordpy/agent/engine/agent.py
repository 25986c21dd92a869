"""The node agent: everything that it consists of, constructed from its settings, and its order of start.

Services that make the states known start first. Once the states are known, callbacks run, and the other
services, the collectors and the QoS plugins start; each plugin only if its gate is on. A callback so never
sees one state before the agent knows the others. All of them are supervised alike. The order is
Koordinator's (pkg/koordlet/koordlet.go).
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from prometheus_client import Gauge

from koordpy.agent.cgroups import detection
from koordpy.agent.cgroups.containers import ContainerKiller
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.pressure import PressureMonitor
from koordpy.agent.cgroups.service import ExecutorService
from koordpy.agent.engine import container_runtime, pod_source, privileges
from koordpy.agent.engine.container_runtime import ContainerRuntimeFlags
from koordpy.agent.engine.eviction import NodeEviction
from koordpy.agent.engine.eviction_metrics import EvictionMetrics
from koordpy.agent.engine.evictor import Evictor
from koordpy.agent.engine.host import PluginHost
from koordpy.agent.engine.periodic import Periodic
from koordpy.agent.engine.plugins import Installed, flags_of
from koordpy.agent.engine.privileges import Held, Missing
from koordpy.agent.engine.reloading import Desired, Reloading, refuse_what_needs_a_restart
from koordpy.agent.engine.roots import NodeRoots
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.engine.supervisor import Supervisor
from koordpy.agent.engine.uninstalling import Uninstalling
from koordpy.agent.engine.unit import Unit
from koordpy.agent.hooks.runtime_hooks import RuntimeHooks
from koordpy.agent.interface.collector import Collector
from koordpy.agent.interface.flags import FlagSet, FlagValue
from koordpy.agent.interface.gates import PRESSURE_TRIGGERS, check
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.hook import Hook, HookError
from koordpy.agent.interface.metrics import COLLECT_INTERVAL
from koordpy.agent.interface.node_plugin import NodePlugin
from koordpy.agent.interface.plugin import QOSPlugin
from koordpy.agent.interface.service import DeclaresFlags, Service
from koordpy.agent.metrics.service import MetricCacheService
from koordpy.agent.prediction.histogram import nanoseconds
from koordpy.agent.prediction.service import PredictServer
from koordpy.agent.reporting.audit.log import AuditLog
from koordpy.agent.reporting.audit.subjects import Subjects
from koordpy.agent.reporting.device_reporter import DeviceReporter
from koordpy.agent.reporting.kubelet_configuration import KubeletConfiguration
from koordpy.agent.reporting.node_metric import NodeMetricReporter
from koordpy.agent.reporting.topology_reporter import TopologyReporter
from koordpy.agent.states import resource_gauges
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.states.kubelet import Kubelet
from koordpy.agent.states.kubelet_pods import KubeletPods
from koordpy.agent.states.task_ids import PodTaskIds
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.lib.clock import Clock
from koordpy.lib.endpoint import Answer, Endpoint, Request
from koordpy.lib.feature_gates import FeatureGates

log = logging.getLogger(__name__)

START_TIME: Final = Gauge("koordlet_start_time", "When the agent started, in seconds since 1970.", ["node"])

FLAGGED_SERVICES: Final[tuple[type[DeclaresFlags], ...]] = (
    NodeRoots,
    AuditLog,
    ContainerRuntimeFlags,
    DeviceReporter,
    ExecutorService,
    MetricCacheService,
    NodeEviction,
    KubeletPods,
    NodeMetricReporter,
    PodTaskIds,
    PredictServer,
    RuntimeHooks,
    TopologyReporter,
)
"""The services that have flags. A new one goes here, and into `services` of the agent."""


class AgentError(Exception):
    """The agent cannot start: the states did not become known in time."""


def declared_flags(installed: Installed, given: Mapping[str, FlagValue] | None = None) -> FlagSet:
    """Return the flags of the agent, its services and its plugins, some of them set. Raises FlagError.

    Where plugins cannot be used, a flag that nothing declares may be theirs, and is ignored.
    """
    types = [*FLAGGED_SERVICES, *installed.types()]
    return flags_of(types, given, ignore_unknown=bool(installed.broken))


class NodeAgent:
    """The agent of one node: services and plugins. Call `setup`, then `run`."""

    def __init__(
        self,
        settings: AgentSettings,
        installed: Installed,
        *,
        cluster: Cluster,
        gates: FeatureGates,
        clock: Clock,
        client: Client | None = None,
        events: Recorder | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Construct everything. Raises ConfigError, FlagError, FeatureGateError, PluginError; ValueError
        without nodeName.
        """
        check(gates)
        if not settings.node_name:
            raise ValueError("the node agent needs agent.nodeName or the environment variable NODE_NAME")
        self.flags = declared_flags(installed, settings.flags)
        container_runtime.warn(self.flags)
        roots = NodeRoots.of(self.flags, settings)
        gates.set(installed.extension_gates(self.flags))
        keeping = MetricCacheService(self.flags, clock, sleep)
        self.metrics = keeping.cache
        from_kubelet = pod_source.is_kubelet(self.flags)
        files = CgroupFiles(roots.cgroup, proc_root=roots.proc, sys_root=roots.sys, sys_fs_root=roots.sys_fs)
        audit = AuditLog(self.flags, gates, clock, sleep=sleep)
        writing = ExecutorService(
            files, self.flags, clock, kubelet_dir=roots.kubelet, audit_dir=audit.folder, sleep=sleep
        )
        if audit.enabled:
            writing.executor.writer.observers.append(audit.written)
        layout = detection.detect(roots.cgroup, writing.kubelet.cgroup_driver)
        self.states = StatesInformer(
            cluster,
            settings.node_name,
            layout,
            installed.slo_extensions(),
            pods_from_kubelet=from_kubelet,
        )
        resource_gauges.publish(self.states)
        audit.about = Subjects(self.states, layout).of
        self.executor = writing.executor
        pressure = (
            PressureMonitor(files, self.states.layout, self.states, sleep=sleep)
            if gates.enabled(PRESSURE_TRIGGERS)
            else None
        )
        evictions = EvictionMetrics(settings.node_name, clock)
        eviction = NodeEviction(
            self.flags,
            Evictor(client, events, clock, evictions, audit),
            ContainerKiller(files, self.states.layout),
            evictions,
            audit,
        )
        self.handle = Handle(
            node_name=settings.node_name,
            states=self.states,
            metrics=self.metrics,
            layout=self.states.layout,
            cgroups=files,
            executor=self.executor,
            cluster=cluster,
            gates=gates,
            flags=self.flags,
            clock=clock,
            audit=audit,
            rng=rng or random.Random(),
            proc_root=roots.proc,
            sys_root=roots.sys,
            sys_fs_root=roots.sys_fs,
            client=client,
            events=events,
            eviction=eviction,
            pressure=pressure,
            sleep=sleep,
        )
        START_TIME.labels(settings.node_name).set(int(clock.now().timestamp()))
        self.supervisor = Supervisor(sleep=sleep)
        for name, error in installed.broken.items():
            log.error("%s; the agent runs without it", error)
            self.supervisor.report(self._idle_unit(name), "import", str(error))
        self.host = PluginHost(installed, settings.args, self.handle)
        self.prediction = PredictServer(
            self.states, self.metrics, self.flags, lambda: nanoseconds(clock.now()), sleep
        )
        self.hooks = RuntimeHooks.usable(
            [plugin for plugin in self.host.plugins if isinstance(plugin, Hook)], self.handle
        )
        for name, reason in self.hooks.refused.items():
            self.supervisor.report(self.host.runs[name].unit, "setup", reason)
        self._held = Held(files, roots.kubelet)
        self._sync_timeout = settings.sync_timeout
        self.started: datetime | None = None
        """When the states were known, and the plugins started."""
        kubelet = None
        self.first_services: list[Service] = []
        """What makes the states known; started first."""
        if from_kubelet and client is not None:
            kubelet = Kubelet(client, settings.node_name, self.flags, clock.monotonic)
            self.first_services.append(
                pod_source.kubelet_pods(kubelet, self.states, files, self.flags, clock)
            )
        self.services: list[Service] = [
            self.states,
            keeping,
            writing,
            self.prediction,
            Periodic("eviction-metrics", evictions.expire, 60.0, delayed=True, sleep=sleep),
            audit,
            self.hooks,
            PodTaskIds(self.states, files, self.flags, sleep),
            TopologyReporter(
                self.handle,
                self.states,
                kubelet_dir=roots.kubelet,
                kubelet=kubelet,
                configuration=KubeletConfiguration(writing.kubelet),
            ),
            DeviceReporter(self.handle, lambda: self.handle.gates),
            NodeMetricReporter(
                self.states,
                self.metrics,
                self.prediction.prod_predictor,
                cluster=cluster,
                client=client,
                flags=self.flags,
                gates=gates,
                clock=clock,
                rng=self.handle.rng,
                sleep=sleep,
            ),
            *([] if pressure is None else [pressure]),
        ]
        """What needs the states; started in this order once they are known."""
        if settings.undo_with_daemon_set:
            uninstalling = Uninstalling(
                settings.undo_with_daemon_set, cluster, self.states, files, writing.changes, clock
            )
            uninstalling.setup()
            self.services.append(uninstalling)
        self.endpoints: dict[str, Endpoint] = {
            "/apis/v1/changes": Endpoint(
                lambda request: Answer.json(writing.explain(request.value("target"), self.states))
            ),
            "/debug/plugins": Endpoint(self._show_plugins),
            **audit.endpoints,
            **self.host.endpoints(),
        }
        """HTTP endpoints besides those of every process, by path."""

    @property
    def plugins(self) -> list[NodePlugin]:
        """All plugins, enabled or not."""
        return self.host.plugins

    @property
    def running(self) -> list[str]:
        """The names of the plugins that were started."""
        return [*self.host.running, *(hook.name for hook in self.hooks.hooks)]

    def missing_privileges(self) -> Iterator[Missing]:
        """Yield the privileges that this process lacks for the plugins that run."""
        plugins = {name: self.host.installed.type(name) for name in self.running}
        for name, needs in privileges.needs(plugins, self.handle.gates, self.flags):
            yield from self._held.missing(name, needs)

    def setup(self) -> None:
        """Set up every plugin, enabled or not. One that fails does not prevent the others."""
        self.hooks.setup()
        self.host.set_up()

    def not_ready(self) -> dict[str, str]:
        """Return the services and plugins that are not ready, with the reason."""
        found = {unit.name: unit.not_ready() for unit in self.supervisor.units.values()}
        if self.started is None:
            awaited: list[Service] = [self.states, *self.first_services]
            found |= {f"service/{service.name}": service.not_ready() for service in awaited}
        return {name: reason for name, reason in found.items() if reason is not None}

    async def run(self) -> None:
        """Run services and enabled plugins until cancelled, then stop the plugins.

        Raises AgentError if the states do not become known in time.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.supervisor.run())
            for service in self.first_services:
                tasks.create_task(self.supervisor.keep(self._unit(service)))
            await self._synced()
            for service in self.services:
                tasks.create_task(self.supervisor.keep(self._unit(service)))
            try:
                self.host.start(self.supervisor, without=self._left_out(self.flags))
                log.info("plugins running: %s", ", ".join(self.running) or "none")
                privileges.warn(self.missing_privileges())
                self.started = self.handle.clock.now()
                await asyncio.Event().wait()
            finally:
                await self.host.stop()

    async def apply(self, old: Desired, new: Desired) -> list[str]:
        """Apply a change of the configuration while the agent runs; return the plugins that were exchanged.

        Raises FlagError, ConfigError, FeatureGateError, ReloadError; then nothing has changed.
        """
        installed = self.host.installed
        flags = declared_flags(installed, new.flags)
        installed.check(new.args)
        specs = installed.gate_specs()
        chosen = {gate: on for gate, on in new.gates.items() if gate in specs or gate.startswith("All")}
        gates = FeatureGates(specs, chosen)
        gates.set(installed.extension_gates(flags))
        check(gates)
        types = [type_ for type_ in installed.types() if issubclass(type_, Collector | Hook | QOSPlugin)]
        of_services = set(flags_of(FLAGGED_SERVICES).values) - {COLLECT_INTERVAL}
        refuse_what_needs_a_restart(
            old,
            new,
            flags=set(flags_of(types).values) - of_services,
            gates={gate for type_ in types for gate in (type_.feature, *type_.features) if gate is not None},
            args={type_.identity() for type_ in types},
        )
        handle = replace(self.handle, flags=flags, gates=gates)
        exchanged = await self.host.apply(new.args, handle, self.supervisor, without=self._left_out(flags))
        self.handle, self.flags = handle, flags
        hooks = [plugin for plugin in self.host.plugins if isinstance(plugin, Hook)]
        if any(hook.name in exchanged for hook in hooks):
            try:
                self.hooks.exchange(hooks, handle)
            except HookError as error:
                log.error("the runtime hooks stay as they were: %s", error)
        if exchanged:
            privileges.warn(self.missing_privileges())
        return exchanged

    def reload_from(self, file: Path, load: Callable[[], Desired]) -> Reloading:
        """Watch a configuration file while the agent runs; call it before `run`. Raises as `load` does."""
        reloading = Reloading(file, load, self.apply, clock=self.handle.clock, sleep=self.handle.sleep)
        self.services.append(reloading)
        return reloading

    def _left_out(self, flags: FlagSet) -> tuple[type[NodePlugin], ...]:
        """Return the kinds of plugins that do not run, as in Koordinator."""
        interval = flags.duration(COLLECT_INTERVAL).total_seconds()
        if interval >= 1:
            return ()
        log.warning("QoS plugins are off: --%s is %g s, less than a second", COLLECT_INTERVAL, interval)
        return (QOSPlugin,)

    def _unit(self, service: Service) -> Unit:
        unit = Unit(
            f"service/{service.name}",
            service.run,
            clock=self.handle.clock,
            sleep=self.handle.sleep,
            not_ready=service.not_ready,
        )
        if isinstance(service, Periodic):
            service.sleep = unit.sleep
        return unit

    def _idle_unit(self, name: str) -> Unit:
        """Return the unit of a plugin that cannot be run."""
        return Unit(name, _never, clock=self.handle.clock, sleep=self.handle.sleep)

    def _show_plugins(self, _: Request) -> Answer:
        return Answer.json({"plugins": [unit.document() for unit in self.supervisor.units.values()]})

    async def _synced(self) -> None:
        try:
            async with asyncio.timeout(self._sync_timeout):
                while not self.states.synced:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AgentError(
                f"time out waiting for states informer caches to sync: node {self.handle.node_name!r}, its "
                f"pods and NodeSLOs were not all seen within {self._sync_timeout:.0f} s"
            ) from None


async def _never() -> None:
    await asyncio.Event().wait()
