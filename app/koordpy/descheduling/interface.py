"""What a descheduling plugin can be, and what the framework gives it.

A plugin is a class that subclasses one or more of the points below and is installed as an entry point of the
group `koordpy.descheduling`. It is constructed with its arguments and a `Handle`, once for a profile, however
many points it is enabled at. One cycle runs every Deschedule plugin of every
profile, then every Balance plugin. Source: Koordinator, `pkg/descheduler/framework`.
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
    """Who evicts a pod and why. Empty fields are filled in with what the framework knows."""

    plugin_name: str = ""
    reason: str = ""
    grace_period_seconds: int | None = None
    """How long the pod may take to end; None leaves that to the pod."""


class Plugin(BasePlugin, ABC):
    """What every plugin has. It runs where a profile enables it; `needs` is what it cannot work without.

    A plugin with a `feature` refuses to be enabled while that gate is off.
    """

    args: PluginArgs
    args_api_version: ClassVar[str] = API_VERSION
    handle: "Handle"

    def __init__(self, args: PluginArgs, handle: "Handle") -> None:
        super().__init__(args, handle)

    @classmethod
    def read_args(cls, document: object, path: str) -> PluginArgs:
        """Return the plugin's arguments, as any plugin's are read. Raises ConfigError."""
        args = super().read_args(document, path)
        assert isinstance(args, PluginArgs)
        return args


class DeschedulePlugin(Plugin):
    """Evicts pods that should not run where they run."""

    @abstractmethod
    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evict pods of the nodes of a profile, which come by name. Any exception is the run's error."""


class BalancePlugin(Plugin):
    """Evicts pods so that the cluster as a whole is used better."""

    @abstractmethod
    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evict pods of the nodes of a profile, which come by name. Any exception is the run's error."""


class EvictPlugin(Plugin):
    """Carries evictions out. A profile has exactly one."""

    @abstractmethod
    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod, or start to; return whether that succeeded. Never called in dry run."""


class FilterPlugin(Plugin):
    """Decides which pods may be evicted. All filter plugins of a profile must agree."""

    @abstractmethod
    def filter(self, pod: Pod) -> bool:
        """Return whether a pod may be evicted at all; plugins call it for every candidate."""

    @abstractmethod
    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether a chosen pod may be evicted now; may cost more than `filter`."""


class Evictor(Protocol):
    """What plugins see of a profile's filter and evict plugins, of the limits and of dry run."""

    def filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins let a pod be evicted."""
        ...

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins let a pod be evicted right now."""
        ...

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod within the limits; in dry run only count it. False: it was not evicted."""
        ...


@dataclass(frozen=True)
class Handle:
    """What a plugin may use. `evictor` is bound to the plugin's name.

    The filter and evict plugins behind `evictor` are known only after all plugins are made: do not call it
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
    """Keep an explanation of what the running plugin decided with the round (see `decisions`)."""
    gates: FeatureGates
    node_selector: LabelSelector | None = None
    """Which nodes the profile is about; None: all."""

    @cached_property
    def pods(self) -> NodePods:
        """The pods of the cluster by the node that they are bound to."""
        return NodePods(self.cluster)

    def nodes(self) -> list[Node]:
        """Return the nodes that the profile is about, by name, ready or not.

        For points that are not given them: filters, for example.
        """
        return selected(self.cluster.store(Node), self.node_selector)
