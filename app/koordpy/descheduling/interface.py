"""The extension points of descheduling plugins, and what the framework gives them.

A plugin is a class that subclasses one or more of the points below and is installed as an entry point of the
group `koordpy.descheduling`. It is constructed with its arguments and a `Handle`, once per profile,
regardless of the number of points it is enabled at. One cycle runs every Deschedule plugin of every profile,
then every Balance plugin. Source: Koordinator, `pkg/descheduler/framework`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

from pydantic import BaseModel

from koordpy.api.core import Node, Pod
from koordpy.api.meta import LabelSelector
from koordpy.api.plugin import BasePlugin
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGates

from .args import API_VERSION, PluginArgs
from .nodes import selected
from .pods import NodePods


@dataclass(frozen=True)
class EvictOptions:
    """Which plugin evicts a pod and why. The framework fills in empty fields."""

    plugin_name: str = ""
    reason: str = ""
    grace_period_seconds: int | None = None
    """The grace period; None for the pod's own."""


class Plugin(BasePlugin, ABC):
    """The base of every plugin. It runs if a profile enables it; `needs` declares its requirements.

    A plugin with a `feature` cannot be enabled while that gate is off.
    """

    args: PluginArgs
    args_api_version: ClassVar[str] = API_VERSION
    handle: "Handle"

    def __init__(self, args: PluginArgs, handle: "Handle") -> None:
        super().__init__(args, handle)

    @classmethod
    def read_args(cls, document: object, path: str) -> PluginArgs:
        """Decode the plugin's arguments. Raises ConfigError."""
        args = super().read_args(document, path)
        assert isinstance(args, PluginArgs)
        return args


class DeschedulePlugin(Plugin):
    """Evicts pods that should not run on their node."""

    @abstractmethod
    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evict pods of a profile's nodes, which are sorted by name. An exception is the run's error."""


class BalancePlugin(Plugin):
    """Evicts pods to improve the utilization of the whole cluster."""

    @abstractmethod
    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evict pods of a profile's nodes, which are sorted by name. An exception is the run's error."""


class EvictPlugin(Plugin):
    """Performs evictions. A profile has exactly one."""

    @abstractmethod
    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod, or start to; return whether that succeeded. Never called in a dry run."""


class FilterPlugin(Plugin):
    """Decides which pods may be evicted. All filter plugins of a profile must agree."""

    @abstractmethod
    def filter(self, pod: Pod) -> bool:
        """Return whether a pod may be evicted at all; plugins call it for every candidate."""

    @abstractmethod
    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether a chosen pod may be evicted now; may cost more than `filter`."""


class Evictor(Protocol):
    """The interface to a profile's filter and evict plugins, behind limits and dry run."""

    def filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins allow evicting a pod."""
        ...

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins allow evicting a pod right now."""
        ...

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod within the limits; a dry run only counts it. Return false if it was not evicted."""
        ...


@dataclass(frozen=True)
class Handle:
    """What a plugin may use. `evictor` is bound to the plugin's name.

    The filter and evict plugins behind `evictor` are known only after all plugins are created: do not call it
    in a constructor.
    """

    cluster: Cluster
    client: Client | None
    """Writes. None in simulations that never write."""
    events: Recorder | None
    clock: Clock
    evictor: Evictor
    dry_run: bool
    report: Callable[[BaseModel], None]
    """Record an explanation of the running plugin's decisions with the round (see `decisions`)."""
    gates: FeatureGates
    node_selector: LabelSelector | None = None
    """Selects the nodes of the profile; None selects all."""

    @cached_property
    def pods(self) -> NodePods:
        """The pods of the cluster by the node that they are bound to."""
        return NodePods(self.cluster)

    def nodes(self) -> list[Node]:
        """Return the nodes that the profile selects, by name, ready or not.

        For points that do not receive them, such as filters.
        """
        return selected(self.cluster.store(Node), self.node_selector)
