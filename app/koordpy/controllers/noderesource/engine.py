"""Runs the stages of noderesource plugins for one node, and decides what has to be written.

Source: Koordinator, `pkg/slo-controller/noderesource/framework` and `resource_calculator.go`.
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from koordpy.api.quantity import QuantityError
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.cluster.errors import ApiError, ConnectionFailed

from ..slo import metrics
from ..slo.node_state import NodeState
from .interface import (
    Inputs,
    NodeMetaCheck,
    NodePrepare,
    NodePreUpdate,
    NodeResource,
    NodeResourcePlugin,
    NodeStatusCheck,
    PluginError,
    ResourceCalculate,
)

log = logging.getLogger(__name__)

_EXPECTED = (PluginError, ApiError, ConnectionFailed, QuantityError)


class Needs(NamedTuple):
    """Why a node's status and its metadata have to be written; "" if they do not have to."""

    status: str
    meta: str


class Engine:
    """The plugins, by stage."""

    def __init__(self, plugins: Sequence[NodeResourcePlugin]) -> None:
        self.plugins = tuple(plugins)
        self._calculate = [plugin for plugin in plugins if isinstance(plugin, ResourceCalculate)]
        self._pre_update = [plugin for plugin in plugins if isinstance(plugin, NodePreUpdate)]
        self._prepare = [plugin for plugin in plugins if isinstance(plugin, NodePrepare)]
        self._status = [plugin for plugin in plugins if isinstance(plugin, NodeStatusCheck)]
        self._meta = [plugin for plugin in plugins if isinstance(plugin, NodeMetaCheck)]
        self._runs = {
            (plugin.name, stage, ok): metrics.PLUGIN_RUNS.of(plugin.name, stage, ok=ok)
            for plugin in plugins
            for stage in _STAGES
            for ok in (True, False)
        }

    def setup(self) -> None:
        """Set up every plugin."""
        for plugin in self.plugins:
            try:
                plugin.setup()
            except Exception as error:
                self._failed(plugin, "Setup", "", error)
            else:
                self._runs[plugin.name, "Setup", True].count += 1

    def calculate(self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs) -> NodeResource:
        """Return the results of all plugins for a node."""
        result = NodeResource()
        for plugin in self._calculate:
            try:
                result.set(list(plugin.calculate(strategy, node, inputs)))
            except Exception as error:
                self._failed(plugin, "ResourceCalculate", node.name, error)
            else:
                self._runs[plugin.name, "ResourceCalculate", True].count += 1
        return result

    def reset(self, node: NodeState, message: str) -> NodeResource:
        """Return the results for a node without colocation."""
        result = NodeResource()
        for plugin in self._calculate:
            try:
                result.set(list(plugin.reset(node, message)))
            except Exception as error:
                self._failed(plugin, "ResourceReset", node.name, error)
            else:
                self._runs[plugin.name, "ResourceReset", True].count += 1
        return result

    async def pre_update(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Let plugins write other objects."""
        for plugin in self._pre_update:
            try:
                await plugin.pre_update(strategy, node, result)
            except Exception as error:
                self._failed(plugin, "NodePreUpdate", node.name, error)
            else:
                self._runs[plugin.name, "NodePreUpdate", True].count += 1

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> NodeState:
        """Return a copy of a node with the results."""
        prepared = node.copy()
        for plugin in self._prepare:
            try:
                plugin.prepare(strategy, prepared, result)
            except Exception as error:
                self._failed(plugin, "NodePrepare", node.name, error)
            else:
                self._runs[plugin.name, "NodePrepare", True].count += 1
        return prepared

    def needs(
        self,
        strategy: ColocationStrategy,
        old: NodeState,
        new: NodeState,
        last_written: datetime | None,
        now: datetime,
    ) -> Needs:
        """Return why a prepared node has to be written; `last_written` is the last write of its status."""
        if new.allocatable is None or new.capacity is None:
            return Needs("", "")
        status = self._status_reason(strategy, old, new)
        if not status and is_overdue(strategy, last_written, now):
            status = "node resource expired"
        return Needs(status, self._meta_reason(strategy, old, new))

    def _status_reason(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        for plugin in self._status:
            try:
                reason = plugin.need_sync(strategy, old, new)
            except Exception as error:
                self._failed(plugin, "NodeStatusCheck", new.name, error)
                continue
            self._runs[plugin.name, "NodeStatusCheck", True].count += 1
            if reason:
                return reason
        return ""

    def _meta_reason(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        for plugin in self._meta:
            try:
                reason = plugin.need_sync_meta(strategy, old, new)
            except Exception as error:
                self._failed(plugin, "NodeStatusCheckMeta", new.name, error)
                continue
            self._runs[plugin.name, "NodeStatusCheckMeta", True].count += 1
            if reason:
                return reason
        return ""

    def _failed(self, plugin: NodeResourcePlugin, stage: str, node: str, error: Exception) -> None:
        """Count and log what a plugin raised."""
        self._runs[plugin.name, stage, False].count += 1
        about = f" of node {node}" if node else ""
        unexpected = not isinstance(error, _EXPECTED)
        log.error(
            "%s: stage %s%s failed: %s",
            plugin.name,
            stage,
            about,
            error,
            exc_info=error if unexpected else None,
        )


_STAGES = (
    "Setup",
    "ResourceCalculate",
    "ResourceReset",
    "NodePreUpdate",
    "NodePrepare",
    "NodeStatusCheck",
    "NodeStatusCheckMeta",
)


def is_overdue(strategy: ColocationStrategy, last: datetime | None, now: datetime) -> bool:
    """Return whether something was last written more than the time threshold ago, or is not known to be."""
    return last is None or (now - last).total_seconds() > (strategy.update_time_threshold_seconds or 0)
