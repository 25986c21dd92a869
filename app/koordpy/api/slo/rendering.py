"""The NodeSLO of a node, from the ConfigMap slo-controller-config.

Source: Koordinator, `pkg/slo-controller/nodeslo` (`nodeslo_cm_event_handler.go`, `resource_strategy.go`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

import msgspec

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.decoding import DecodeError
from koordpy.api.quantity import QuantityError, parse

from . import config, cpu_burst, resource_qos, system, threshold
from .config import Config, NodeConfig, Section
from .cpu_burst import CPUBurstStrategy
from .host_application import HostApplications
from .merge import merge
from .node_slo import ExtensionsMap, NodeSLOSpec
from .resource_qos import ResourceQOSStrategy
from .selection import first_for
from .strategy import Strategy
from .system import SystemStrategy
from .threshold import ResourceThresholdStrategy

S = TypeVar("S", bound=Strategy)


@dataclass(frozen=True)
class Strategies(Generic[S]):
    """A section with everything merged: the strategy of the cluster, and those of nodes."""

    cluster: S
    nodes: tuple[tuple[NodeConfig[S], S], ...] = ()

    def of(self, labels: Mapping[str, str]) -> S:
        """Return the strategy of a node with these labels."""
        node = first_for([node for node, _ in self.nodes], labels)
        return next((strategy for known, strategy in self.nodes if known is node), self.cluster)


def merged(default: S, given: Config[S]) -> Strategies[S]:
    """Merge a section over the default: the cluster's strategy first, then each node's over that."""
    cluster = merge(default, given.cluster)
    return Strategies(cluster, tuple((node, merge(cluster, node.strategy)) for node in given.nodes))


def replaced(default: S, given: Config[S]) -> Strategies[S]:
    """Use a section unchanged; nodes without a strategy have the default."""
    nodes = tuple((node, node.strategy or default) for node in given.nodes)
    return Strategies(given.cluster or default, nodes)


@dataclass(frozen=True)
class SLOConfig:
    """The sections from which NodeSLOs are rendered."""

    threshold: Strategies[ResourceThresholdStrategy] = Strategies(threshold.DEFAULT)
    resource_qos: Strategies[ResourceQOSStrategy] = Strategies(resource_qos.CLUSTER_DEFAULT)
    cpu_burst: Strategies[CPUBurstStrategy] = Strategies(cpu_burst.DEFAULT)
    system: Strategies[SystemStrategy] = Strategies(system.CLUSTER_DEFAULT)
    host_applications: Strategies[HostApplications] = Strategies(HostApplications())

    def updated(self, data: Mapping[str, str] | None) -> "tuple[SLOConfig, dict[str, DecodeError]]":
        """Return the sections of a ConfigMap's data, and errors by section.

        An invalid section keeps its former value. A missing key means the default, as does a missing
        ConfigMap (None) for all sections.
        """
        read: dict[str, Any] = {}
        problems: dict[str, DecodeError] = {}
        for attribute, (section, name, combine) in _SECTIONS.items():
            default = getattr(_DEFAULT, attribute)
            text = (data or {}).get(section.key)
            try:
                read[attribute] = default if text is None else combine(default.cluster, section.read(text))
            except DecodeError as error:
                problems[name] = error
        return replace(self, **read), problems

    def spec_for(self, node: Node, stored: NodeSLOSpec | None = None) -> NodeSLOSpec:
        """Return the NodeSLO of a node. Extensions are kept as they are stored."""
        labels = node.metadata.labels
        extensions = stored.extensions if stored is not None else None
        return NodeSLOSpec(
            resource_used_threshold_with_be=self.threshold.of(labels),
            resource_qos_strategy=self.resource_qos.of(labels),
            cpu_burst_strategy=self.cpu_burst.of(labels),
            system_strategy=_with_bandwidth(self.system.of(labels), node),
            host_applications=self.host_applications.of(labels).applications,
            extensions=extensions or ExtensionsMap(),
        )


_DEFAULT: Final = SLOConfig()

_SECTIONS: Final[Mapping[str, tuple[Section[Any], str, Callable[[Any, Config[Any]], Strategies[Any]]]]] = {
    "threshold": (config.THRESHOLD, "ThresholdCfg", merged),
    "resource_qos": (config.RESOURCE_QOS, "ResourceQOSCfg", merged),
    "cpu_burst": (config.CPU_BURST, "CPUBurstCfg", merged),
    "system": (config.SYSTEM, "SystemCfg", merged),
    "host_applications": (config.HOST_APPLICATION, "HostApplicationCfg", replaced),
}
"""By attribute of SLOConfig: the section, its name in events, and how it is merged with the default."""


def _with_bandwidth(strategy: SystemStrategy, node: Node) -> SystemStrategy | None:
    """Return a strategy with the bandwidth of a node's annotation; None if that is not a quantity."""
    text = node.metadata.annotations.get(extension.ANNOTATION_NODE_NETWORK_BANDWIDTH)
    if text is None:
        return strategy
    try:
        return msgspec.structs.replace(strategy, total_network_bandwidth=str(parse(text)))
    except QuantityError:
        return None
