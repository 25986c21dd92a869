"""Hosts the QoS plugins of one node: finds, sets up, starts behind feature gates, restarts and stops them.

The order is Koordinator's (pkg/koordlet/qosmanager): every installed plugin is set up, enabled or not; the
states must be known; then those whose gate is on run. A plugin that raises is logged, counted and restarted
with backoff; the others are not affected.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.engine.collectors import Collectors
from koordpy.agent.interface.collector import CollectError
from koordpy.agent.interface.flags import FlagSet, FlagValue
from koordpy.agent.interface.gates import GATES
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.metrics import COLLECT_INTERVAL
from koordpy.agent.interface.plugin import QOSPlugin
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.catalogue import Catalogue
from koordpy.lib import supervise
from koordpy.lib.feature_gates import FeatureSpec

log = logging.getLogger(__name__)

GROUP: Final = "koordpy.qos"
_ARGS: Final = "agent.args"
SYNC_TIMEOUT_SECONDS = 120.0
NODE_INFO_SECONDS = 60.0


class QOSManagerError(Exception):
    """The manager cannot start: a plugin cannot be set up, or the states did not sync in time."""


def installed() -> Catalogue[QOSPlugin]:
    """Return the installed QoS plugins. Raises DuplicateName."""
    return Catalogue(GROUP, QOSPlugin)  # type: ignore[type-abstract]


def gate_specs(catalogue: Catalogue[QOSPlugin]) -> dict[str, FeatureSpec]:
    """Return the gates of the node agent, with those that plugins declare. Raises PluginError."""
    return catalogue.feature_gates(GATES)


def flags_of(types: Iterable[type[QOSPlugin]], settings: Mapping[str, FlagValue] | None = None) -> FlagSet:
    """Return the flags of the manager and of plugins, some of them set. Raises FlagError."""
    flags = FlagSet()
    flags.declare(COLLECT_INTERVAL, timedelta(seconds=1), "time between two measurements of usage")
    for type_ in types:
        type_.init_flags(flags)
    for name, value in (settings or {}).items():
        flags.set(name, value)
    return flags


def build(
    catalogue: Catalogue[QOSPlugin], args: Mapping[str, Mapping[str, Any]], handle: Handle
) -> list[QOSPlugin]:
    """Create all plugins, with their arguments by name. Raises ConfigError."""
    for name in args:
        catalogue.load(name, _ARGS)
    return [
        catalogue.make(name, type_.read_args(args.get(name), path := f"{_ARGS}.{name}"), handle, path)
        for name, type_ in catalogue.items()
    ]


class QOSManager:
    """The running plugins of one node."""

    def __init__(
        self,
        plugins: Iterable[QOSPlugin],
        handle: Handle,
        *,
        states: StatesInformer,
        executor: Executor,
        collectors: Collectors,
    ) -> None:
        self.plugins = tuple(plugins)
        self._handle, self._states, self._executor, self._collectors = handle, states, executor, collectors
        self.running: list[str] = []
        """Names of the plugins that were started."""

    def setup(self) -> None:
        """Set up every plugin. Raises QOSManagerError naming the one that fails."""
        for plugin in self.plugins:
            try:
                plugin.setup()
            except Exception as error:
                raise QOSManagerError(f"QoS plugin {plugin.name!r}: setup failed: {error}") from error

    async def run(self, *, sync_timeout: float = SYNC_TIMEOUT_SECONDS) -> None:
        """Wait for the states, then run collectors and enabled plugins until cancelled, then stop them."""
        interval = self._handle.flags.duration(COLLECT_INTERVAL).total_seconds()
        if interval < 1:
            log.warning("QoS manager is off: --%s is %g s, less than a second", COLLECT_INTERVAL, interval)
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._states.run())
            await self._synced(sync_timeout)
            tasks.create_task(supervise.forever("qos-node-info", self._collect_node_info))
            tasks.create_task(supervise.forever("qos-collectors", lambda: self._collect(interval)))
            tasks.create_task(supervise.forever("qos-executor-cache", self._collect_cache))
            try:
                async with asyncio.TaskGroup() as running:
                    for plugin in self.plugins:
                        if plugin.feature is None or self._handle.gates.enabled(plugin.feature):
                            running.create_task(supervise.forever(f"qos-{plugin.name}", plugin.run))
                            self.running.append(plugin.name)
                    log.info("QoS plugins running: %s", ", ".join(self.running) or "none")
                    await asyncio.Event().wait()
            finally:
                await self._stop()

    async def _synced(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not self._states.synced:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise QOSManagerError(
                f"time out waiting for states informer caches to sync: node {self._handle.node_name!r}, "
                f"its pods and NodeSLOs were not all seen within {timeout:.0f} s"
            ) from None

    async def _collect(self, interval: float) -> None:
        while True:
            try:
                self._collectors.collect()
            except CollectError as error:
                log.warning("%s", error)
            await asyncio.sleep(interval)

    async def _collect_node_info(self) -> None:
        while True:
            self._collectors.collect_node_info()
            await asyncio.sleep(NODE_INFO_SECONDS)

    async def _collect_cache(self) -> None:
        while True:
            await asyncio.sleep(60)
            self._executor.collect()

    async def _stop(self) -> None:
        for plugin in self.plugins:
            if plugin.name in self.running:
                try:
                    await plugin.stop()
                except Exception:
                    log.exception("QoS plugin %s failed to stop", plugin.name)
