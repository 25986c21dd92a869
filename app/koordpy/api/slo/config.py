"""The ConfigMap slo-controller-config: a section per key, with the strategies of the cluster and of nodes.

Source: Koordinator, `apis/configuration/slo_controller_config.go`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from koordpy.api import label_selector
from koordpy.api.decoding import DecodeError
from koordpy.api.label_selector import Selector
from koordpy.api.meta import LabelSelector, Struct
from koordpy.api.patch import describe

from . import reading
from .colocation import ColocationStrategy
from .cpu_burst import CPUBurstStrategy
from .host_application import HostApplications
from .node_resources import CPUNormalizationStrategy, ResourceAmplificationStrategy
from .resource_qos import ResourceQOSStrategy
from .strategy import Strategy, names_of
from .system import SystemStrategy
from .threshold import ResourceThresholdStrategy

S = TypeVar("S", bound=Strategy)


class NodeCfgProfile(Struct):
    """The nodes that a strategy applies to."""

    name: str = ""
    node_selector: LabelSelector | None = None


@dataclass(frozen=True)
class NodeConfig(Generic[S]):
    """A strategy for some nodes; None if no field of a strategy is set."""

    profile: NodeCfgProfile
    strategy: S | None

    @property
    def name(self) -> str:
        """The name, which may be empty."""
        return self.profile.name

    @cached_property
    def selector(self) -> Selector:
        """The matcher of node labels; an absent one matches nothing. Raises SelectorError."""
        return label_selector.of(self.profile.node_selector)


@dataclass(frozen=True)
class Config(Generic[S]):
    """The contents of a section; `cluster` is None if it has no strategy for the cluster."""

    cluster: S | None
    nodes: Sequence[NodeConfig[S]] = ()


@dataclass(frozen=True)
class Section(Generic[S]):
    """A key of the ConfigMap.

    `go_type` is the Go name of what the key holds. `cluster` and `nodes` are the members that hold the
    strategies; `cluster` is empty if the members themselves are the cluster's strategy.
    """

    key: str
    go_type: str
    strategy: type[S]
    cluster: str = "clusterStrategy"
    nodes: str = "nodeStrategies"

    def read(self, text: str) -> Config[S]:
        """Read the text of the key. Raises DecodeError."""
        document = reading.parse(text)
        found = reading.members(document, frozenset((self.cluster, self.nodes)))
        cluster = self._strategy(found.get(self.cluster) if self.cluster else document, self.cluster)
        nodes = found.get(self.nodes)
        nodes = [] if nodes is None else nodes
        if not isinstance(nodes, list):
            raise DecodeError(f"{self.nodes}: expected a list, got {describe(nodes)}")
        places = (f"{self.nodes}[{at}]" for at in range(len(nodes)))
        return Config(cluster, tuple(map(self._node, nodes, places)))

    def _node(self, document: Any, path: str) -> NodeConfig[S]:
        document = {} if document is None else document
        strategy = self._strategy(document, path)
        names_some = reading.members(document, names_of(self.strategy))
        return NodeConfig(reading.read(NodeCfgProfile, document, path), strategy if names_some else None)

    def _strategy(self, document: Any, path: str) -> S | None:
        if document is None:
            return None
        if not isinstance(document, dict):
            raise DecodeError(f"{path}: expected an object, got {describe(document)}")
        return reading.read(self.strategy, document, path)

    def strategies(self, config: Config[S]) -> Iterator[tuple[str, S]]:
        """Yield the strategies of a configuration, each with its Go path."""
        if config.cluster is not None:
            member = self.cluster[:1].upper() + self.cluster[1:] or self.strategy.__name__
            yield f"{self.go_type}.{member}.", config.cluster
        member = self.nodes[:1].upper() + self.nodes[1:]
        for at, node in enumerate(config.nodes):
            if node.strategy is not None:
                yield f"{self.go_type}.{member}[{at}].{self.strategy.__name__}.", node.strategy


COLOCATION: Final = Section("colocation-config", "ColocationCfg", ColocationStrategy, "", "nodeConfigs")
THRESHOLD: Final = Section("resource-threshold-config", "ResourceThresholdCfg", ResourceThresholdStrategy)
RESOURCE_QOS: Final = Section("resource-qos-config", "ResourceQOSCfg", ResourceQOSStrategy)
SYSTEM: Final = Section("system-config", "SystemCfg", SystemStrategy)
CPU_BURST: Final = Section("cpu-burst-config", "CPUBurstCfg", CPUBurstStrategy)
HOST_APPLICATION: Final = Section(
    "host-application-config", "HostApplicationCfg", HostApplications, "", "nodeConfigs"
)
CPU_NORMALIZATION: Final = Section(
    "cpu-normalization-config", "CPUNormalizationCfg", CPUNormalizationStrategy, "", "nodeConfigs"
)
RESOURCE_AMPLIFICATION: Final = Section(
    "resource-amplification-config",
    "ResourceAmplificationCfg",
    ResourceAmplificationStrategy,
    "",
    "nodeConfigs",
)
