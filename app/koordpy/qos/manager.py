"""Host the QoS plugins of one node: register, set up, start behind feature gates, keep alive, stop.

The order is Koordinator's (pkg/koordlet/qosmanager): every registered plugin is set up, enabled or not; the
states must be known; then those whose gate is on run. A plugin that raises is logged, counted, backed off
and run again, and never takes the others down.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping

from koordpy.lib import entry_points, supervise
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec

from .collectors import CollectError, Collectors
from .gates import GATES
from .interface import ExtensionPlugin, FlagSet, QOSHandle

log = logging.getLogger(__name__)

GROUP = "koordpy.qos"
SYNC_TIMEOUT_SECONDS = 120.0
NODE_INFO_SECONDS = 60.0


class QOSManagerError(Exception):
    """The manager cannot start: a plugin is unfit, or the states did not sync in time."""


class QOSPlugins:
    """The registered plugins, with the gates and flags that they bring."""

    def __init__(self) -> None:
        self._plugins: dict[str, ExtensionPlugin] = {}
        self._specs: dict[str, FeatureSpec] = dict(GATES)
        self.flags = FlagSet()

    @classmethod
    def installed(cls) -> "QOSPlugins":
        """Return all plugins that are installed as entry points of `koordpy.qos`."""
        plugins = cls()
        for name, point in entry_points.find(GROUP).items():
            factory = entry_points.load(GROUP, name, {name: point})
            if not (isinstance(factory, type) and issubclass(factory, ExtensionPlugin)):
                raise QOSManagerError(f"QoS plugin {name!r}: {point.value} is not an ExtensionPlugin class")
            plugins.register(factory())
        return plugins

    def register(self, plugin: ExtensionPlugin) -> None:
        """Add a plugin. Raises QOSManagerError for a name or a gate that is taken, or a gate nobody knows."""
        if plugin.name in self._plugins:
            raise QOSManagerError(f"QoS plugin {plugin.name!r} is already registered")
        if plugin.feature_spec is not None:
            if plugin.feature in self._specs:
                raise QOSManagerError(f"{plugin.feature} extension plugin already registered")
            self._specs[plugin.feature] = plugin.feature_spec
        elif plugin.feature not in self._specs:
            raise QOSManagerError(
                f"QoS plugin {plugin.name!r}: gate {plugin.feature!r} is not known; set feature_spec"
            )
        self._plugins[plugin.name] = plugin
        plugin.init_flags(self.flags)

    def gates(self, settings: Mapping[str, bool] | None = None) -> FeatureGates:
        """Return the gates of all plugins with some of them set; raises FeatureGateError for unknown ones."""
        return FeatureGates(self._specs, settings)

    def __iter__(self) -> Iterator[ExtensionPlugin]:
        return iter(self._plugins.values())


class QOSManager:
    """The plugins of one node at work."""

    def __init__(self, plugins: QOSPlugins, handle: QOSHandle, collectors: Collectors) -> None:
        self._plugins, self._handle, self._collectors = plugins, handle, collectors
        self.running: list[str] = []
        """Names of the plugins that were started."""

    def setup(self) -> None:
        """Set up every plugin. Raises QOSManagerError naming the one that fails."""
        for plugin in self._plugins:
            try:
                plugin.setup(self._handle)
            except Exception as error:
                raise QOSManagerError(f"QoS plugin {plugin.name!r}: setup failed: {error}") from error

    async def run(self, *, sync_timeout: float = SYNC_TIMEOUT_SECONDS) -> None:
        """Wait for the states, then run collectors and enabled plugins until cancelled, then stop them."""
        interval = self._handle.flags.integer("collect-res-used-interval")
        if interval < 1:
            log.warning("QoS manager is off: --collect-res-used-interval is %d", interval)
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._handle.states.run())
            await self._synced(sync_timeout)
            tasks.create_task(supervise.forever("qos-node-info", self._collect_node_info))
            tasks.create_task(supervise.forever("qos-collectors", lambda: self._collect(interval)))
            tasks.create_task(supervise.forever("qos-executor-cache", self._collect_cache))
            try:
                async with asyncio.TaskGroup() as running:
                    for plugin in self._plugins:
                        if self._handle.gates.enabled(plugin.feature):
                            running.create_task(supervise.forever(f"qos-{plugin.name}", plugin.run))
                            self.running.append(plugin.name)
                    log.info("QoS plugins running: %s", ", ".join(self.running) or "none")
                    await asyncio.Event().wait()
            finally:
                await self._stop()

    async def _synced(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not self._handle.states.synced:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise QOSManagerError(
                f"time out waiting for states informer caches to sync: node {self._handle.node_name!r}, "
                f"its pods and NodeSLOs were not all seen within {timeout:.0f} s"
            ) from None

    async def _collect(self, interval: int) -> None:
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
            self._handle.executor.collect()

    async def _stop(self) -> None:
        for plugin in self._plugins:
            if plugin.name in self.running:
                try:
                    await plugin.stop()
                except Exception:
                    log.exception("QoS plugin %s failed to stop", plugin.name)
