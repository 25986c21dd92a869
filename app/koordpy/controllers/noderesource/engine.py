"""Runs the stages of noderesource plugins for one node, and decides what has to be written.

Source: Koordinator, `pkg/slo-controller/noderesource/framework` and `resource_calculator.go`.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
            (plugin.name, stage, ok): metrics.PLUGIN_RUNS.labels(
                plugin.name, "succeeded" if ok else "failed", stage
            )
            for plugin in plugins
            for stage in _STAGES
            for ok in (True, False)
        }

    def setup(self) -> None:
        """Set up every plugin."""
        for plugin in self.plugins:
            with self._stage(plugin, "Setup", ""):
                plugin.setup()

    def calculate(self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs) -> NodeResource:
        """Return the results of all plugins for a node."""
        result = NodeResource()
        for plugin in self._calculate:
            with self._stage(plugin, "ResourceCalculate", node.name):
                result.set(list(plugin.calculate(strategy, node, inputs)))
        return result

    def reset(self, node: NodeState, message: str) -> NodeResource:
        """Return the results for a node without colocation."""
        result = NodeResource()
        for plugin in self._calculate:
            with self._stage(plugin, "ResourceReset", node.name):
                result.set(plugin.reset(node, message))
        return result

    async def pre_update(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Let plugins write other objects."""
        for plugin in self._pre_update:
            with self._stage(plugin, "NodePreUpdate", node.name):
                await plugin.pre_update(strategy, node, result)

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> NodeState:
        """Return a copy of a node with the results."""
        prepared = node.copy()
        for plugin in self._prepare:
            with self._stage(plugin, "NodePrepare", node.name):
                plugin.prepare(strategy, prepared, result)
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
        status = ""
        for checking in self._status:
            with self._stage(checking, "NodeStatusCheck", new.name):
                status = checking.need_sync(strategy, old, new)
            if status:
                break
        if is_overdue(strategy, last_written, now):
            status = status or "node resource expired"
        meta = ""
        for watching in self._meta:
            with self._stage(watching, "NodeStatusCheckMeta", new.name):
                meta = watching.need_sync_meta(strategy, old, new)
            if meta:
                break
        return Needs(status, meta)

    @contextmanager
    def _stage(self, plugin: NodeResourcePlugin, stage: str, node: str) -> Iterator[None]:
        """Count a plugin's stage; log what it raises."""
        try:
            yield
        except Exception as error:
            self._runs[plugin.name, stage, False].inc()
            expected = isinstance(error, _EXPECTED)
            about = f" of node {node}" if node else ""
            log.error("%s: stage %s%s failed: %s", plugin.name, stage, about, error, exc_info=not expected)
        else:
            self._runs[plugin.name, stage, True].inc()


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
