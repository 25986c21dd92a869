"""The part `agent`: the QoS manager of the node that the process runs on."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from koordpy.agent.cgroups import detection
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine import manager as qos_manager
from koordpy.agent.engine.collectors import Collectors
from koordpy.agent.engine.manager import QOSManager
from koordpy.agent.interface import Handle
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology, NodeSLO
from koordpy.compose.part import Context, PartError, PartNeeds, WorkingPart
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.settings import Settings


class NodeAgentPart(WorkingPart):
    """The QoS plugins of one node. It follows only the node itself, its pods and its policies."""

    name: ClassVar[str] = "agent"
    manager: QOSManager

    def __init__(self, process: Context) -> None:
        super().__init__(process)
        self.catalogue = qos_manager.installed()

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return the node, its pods and the policies for it."""
        return PartNeeds(follows=(Node, NodeResourceTopology, NodeSLO, Pod))

    @property
    def gates(self) -> Mapping[str, FeatureSpec]:
        """The gates of all installed QoS plugins."""
        return qos_manager.gate_specs(self.catalogue)

    def prepare(self) -> None:
        """Set up the plugins on the files of this node. Raises FlagError, QOSManagerError, too."""
        process, settings = self.process, self.process.settings.agent
        if not settings.node_name:
            raise PartError("the node agent needs agent.nodeName or the environment variable NODE_NAME")
        root = Path(settings.cgroup_root)
        states = StatesInformer(process.cluster, settings.node_name, detection.detect(root))
        metrics, files = MetricCache(process.clock), CgroupFiles(root)
        executor = Executor(files, process.clock)
        handle = Handle(
            node_name=settings.node_name,
            states=states,
            metrics=metrics,
            layout=states.layout,
            cgroups=files,
            executor=executor,
            cluster=process.cluster,
            gates=process.gates,
            flags=qos_manager.flags_of(self.catalogue.values(), settings.flags),
            clock=process.clock,
            proc_root=Path(settings.proc_root),
            sys_root=Path(settings.sys_root),
            client=process.client,
            events=process.events,
        )
        collectors = Collectors(
            states,
            metrics,
            files,
            process.clock,
            proc_root=Path(settings.proc_root),
            sys_root=Path(settings.sys_root),
        )
        plugins = qos_manager.build(self.catalogue, settings.args, handle)
        self.manager = QOSManager(plugins, handle, states=states, executor=executor, collectors=collectors)
        self.manager.setup()

    async def work(self) -> None:
        """Run the plugins. Raises QOSManagerError if the node does not become known in time."""
        await self.manager.run(sync_timeout=self.process.settings.agent.sync_timeout)
