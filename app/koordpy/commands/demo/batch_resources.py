"""The part of the story about colocation: nodes offer to batch pods what services request and do not use.

The SLO controllers run in a worker of their own from the start, as koord-manager does in a cluster. They
compute the batch resources of nodes from NodeMetrics, and keep doing so after the story.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack

from koordpy import settings as process_settings
from koordpy.api import quantity
from koordpy.api.core import Node
from koordpy.api.extension import BATCH_CPU
from koordpy.commands import colocate_explain
from koordpy.compose.process import Process
from koordpy.controllers.noderesource.explanation import NodeResourceExplanation

from .cluster import NAMESPACE, DemoCluster, DemoFailed

CONTROLLERS = ("nodemetric", "noderesource", "nodeslo")
FEATURE_GATES = ("EnableSyncGPUSharedResource",)
_CONFIG = "slo-controller-config"
_PAUSE = 0.2


class BatchResources:
    """Runs the SLO controllers on the demo's cluster. `within` is the time limit in seconds."""

    def __init__(self, cluster: DemoCluster, stack: AsyncExitStack, within: float) -> None:
        self._cluster, self._stack, self._within = cluster, stack, within

    async def start(self) -> None:
        """Start the controllers. Raises DemoFailed unless they lead in time."""
        document = {
            "client": {"server": self._cluster.api.url},
            "featureGates": dict.fromkeys(FEATURE_GATES, True),
            "worker": {"controllers": {"selection": list(CONTROLLERS)}},
            "shutdownDelay": 0,
        }
        worker = Process(process_settings.load(None, document), ["controllers"], listens=False)
        self._stack.push_async_callback(worker.stop)
        await worker.start()
        await worker.wait_ready(self._within)

    async def offered(self, names: list[str]) -> Mapping[str, float]:
        """Return the batch cores of these nodes once all of them have some amount. Raises DemoFailed."""
        deadline = time.monotonic() + self._within
        while True:
            found = await self._amounts()
            missing = [name for name in names if name not in found]
            if not missing:
                return found
            if time.monotonic() > deadline:
                raise DemoFailed(f"node {missing[0]} has no {BATCH_CPU} after {self._within:g} s")
            await asyncio.sleep(_PAUSE)
            await self._cluster.kubelets.report()

    async def explained(self, name: str) -> NodeResourceExplanation:
        """Return how the batch resources of a node are computed. Raises DemoFailed if the node has none."""
        access = {"server": self._cluster.api.url}
        found = await colocate_explain.explained(name, NAMESPACE, _CONFIG, access)
        [cpu] = [resource for resource in found.resources if resource.name == BATCH_CPU]
        if not cpu.on_node or cpu.reset:
            raise DemoFailed(f"node {name} offers no {BATCH_CPU}: {cpu.message}")
        return found

    async def _amounts(self) -> dict[str, float]:
        return {
            node.metadata.name: quantity.value(node.status.allocatable[BATCH_CPU]) / 1000
            for node in await self._cluster.client.list_all(Node)
            if BATCH_CPU in node.status.allocatable
        }
