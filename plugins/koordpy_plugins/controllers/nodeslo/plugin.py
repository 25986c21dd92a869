"""Give every node a NodeSLO: the strategies by which its agent keeps pods in their place.

A section of slo-controller-config that cannot be read keeps its former contents; the others count. Source:
Koordinator, `pkg/slo-controller/nodeslo`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import msgspec

from koordpy.api.core import Node
from koordpy.api.koordinator import NodeSLO
from koordpy.api.needs import Needs, Right
from koordpy.api.plugin import NoArgs
from koordpy.api.slo.node_slo import ExtensionsMap, NodeSLOSpec
from koordpy.api.slo.rendering import SLOConfig
from koordpy.controllers.interface import Controller, Handle
from koordpy.controllers.reconcile import reconcile_forever
from koordpy.controllers.slo import extensions, location, metrics
from koordpy.controllers.slo.config_source import ConfigSource, Parsed
from koordpy.controllers.slo.node_objects import ClientWrites, NodeObjects
from koordpy.controllers.slo.node_state import NodeState, concerns_specs

log = logging.getLogger(__name__)

UNMARSHAL_FAILED: Final = "SLOCfgUnmarshalFailed"
_GROUP: Final = "slo.koordinator.sh"
_SECTIONS: Final = (
    "getResourceThresholdSpec",
    "getResourceQOSSpec",
    "getCPUBurstConfigSpec",
    "getHostApplicationConfig",
)


@dataclass(frozen=True)
class NodeSLOConfig:
    """The sections of Koordinator, and what extensions made of theirs, by key."""

    sections: SLOConfig = field(default_factory=SLOConfig)
    extensions: Mapping[str, Any] = field(default_factory=dict)


def parse(data: Mapping[str, str] | None, known: NodeSLOConfig) -> Parsed[NodeSLOConfig]:
    """Read all sections; without the ConfigMap the defaults hold."""
    if data is None:
        return Parsed(NodeSLOConfig(extensions=extensions.node_slo_defaults()))
    sections, problems = known.sections.updated(data)
    failures = tuple(
        (UNMARSHAL_FAILED, f"failed to unmarshal {section}, err: {error}")
        for section, error in problems.items()
    )
    return Parsed(
        replace(known, sections=sections, extensions=_merged(known.extensions, data)), failures=failures
    )


def _merged(known: Mapping[str, Any], data: Mapping[str, str]) -> Mapping[str, Any]:
    for name, plugin in extensions.node_slo_extensions().items():
        try:
            known = plugin.merge(known, data)
        except Exception as error:
            log.warning("NodeSLO extension %s cannot read slo-controller-config: %s", name, error)
    return known


class NodeSLOController(Controller):
    """The NodeSLO controller. The keys of its queue are names of nodes."""

    name: ClassVar[str] = "nodeslo"
    needs: ClassVar[Needs] = Needs(
        rights=(
            Right("create", "nodeslos", _GROUP),
            Right("patch", "nodeslos", _GROUP),
            Right("delete", "nodeslos", _GROUP),
            Right("create", "events", "events.k8s.io"),
            Right("patch", "events", "events.k8s.io"),
        )
    )
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.queue = handle.queue(self.name)
        self.nodes = handle.cluster.store(Node)
        self.node_slos = handle.cluster.store(NodeSLO)
        self.config = ConfigSource(
            NodeSLOConfig(extensions=extensions.node_slo_defaults()),
            parse,
            lambda: location.found(handle),
            handle.report,
            self.enqueue_all,
        )
        self.objects: NodeObjects[NodeSLO, NodeSLOSpec] = NodeObjects(
            "NodeSLO",
            metrics.NODE_SLO_RECONCILES,
            node=lambda name: self.nodes.get("", name),
            stored=lambda name: self.node_slos.get("", name),
            spec_of=lambda node_slo: node_slo.spec,
            spec_for=self.spec_for,
            writes=ClientWrites(lambda: handle.client, NodeSLO),
        )

    def setup(self) -> None:
        """Follow nodes, NodeSLOs and the configuration."""
        location.follow(self.handle, self.config)
        self.nodes.subscribe(on_add=self._enqueue, on_update=self._node_updated, on_delete=self._enqueue)
        self.node_slos.subscribe(
            on_add=self._enqueue, on_update=self._node_slo_updated, on_delete=self._enqueue
        )

    async def run(self) -> None:
        """Reconcile every node, then each on a change."""
        self.enqueue_all()
        for node_slo in self.node_slos:
            self._enqueue(node_slo)
        await reconcile_forever(self.queue, self.reconcile)

    async def reconcile(self, name: str) -> None:
        """Bring a node's NodeSLO up to date, once the configuration is known."""
        if self.config.is_available():
            await self.objects.reconcile(name)
        else:
            log.warning("slo config is not available: NodeSLO %s is left as it is", name)

    def spec_for(self, node: Node, stored: NodeSLOSpec | None) -> NodeSLOSpec:
        """Return the spec of a node's NodeSLO."""
        config = self.config.config
        spec = config.sections.spec_for(node, stored)
        for reason in _SECTIONS:
            metrics.count(metrics.NODE_SLO_SPECS, reason, ok=True)
        metrics.count(metrics.NODE_SLO_SPECS, "getSystemConfigSpec", ok=spec.system_strategy is not None)
        return msgspec.structs.replace(spec, extensions=self._extensions(node, stored, config.extensions))

    def enqueue_all(self) -> None:
        """Enqueue every node."""
        for node in self.nodes:
            self._enqueue(node)

    def _extensions(self, node: Node, stored: NodeSLOSpec | None, config: Mapping[str, Any]) -> ExtensionsMap:
        known = stored.extensions.object if stored is not None and stored.extensions is not None else {}
        plugins = extensions.node_slo_extensions()
        if not plugins:
            return ExtensionsMap(object=known)
        sections = dict(known)
        for name, plugin in plugins.items():
            try:
                key, section = plugin.section(node, config)
            except Exception as error:
                log.warning("node %s: NodeSLO extension %s: %s", node.metadata.name, name, error)
                metrics.count(metrics.NODE_SLO_SPECS, "getNodeSLOExtension", ok=False)
                continue
            if section is None:
                sections.pop(key, None)
            else:
                sections[key] = section
            metrics.count(metrics.NODE_SLO_SPECS, "getNodeSLOExtension", ok=True)
        return ExtensionsMap(object=sections)

    def _enqueue(self, obj: Node | NodeSLO) -> None:
        self.queue.add(obj.metadata.name)

    def _node_updated(self, old: Node, new: Node) -> None:
        if concerns_specs(NodeState.of(old), NodeState.of(new)):
            self._enqueue(new)

    def _node_slo_updated(self, old: NodeSLO, new: NodeSLO) -> None:
        if old.metadata.generation != new.metadata.generation or old.spec != new.spec:
            self._enqueue(new)
