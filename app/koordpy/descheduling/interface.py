"""What a descheduling plugin can be, and what the framework gives it.

A plugin is a class that subclasses one or more of the points below and is installed as an entry point of the
group `koordpy.descheduling`. The class itself is the factory: it is called with its arguments and a `Handle`,
once for a profile, however many points it is enabled at. One cycle runs every Deschedule plugin of every
profile, then every Balance plugin. Source: Koordinator, `pkg/descheduler/framework`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from pydantic import BaseModel

from koordpy.api.core import Node, Pod
from koordpy.api.needs import Needs
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.lib.clock import Clock

from .args import PluginArgs


@dataclass(frozen=True)
class EvictOptions:
    """Who evicts a pod and why. Empty fields are filled in with what the framework knows."""

    plugin_name: str = ""
    reason: str = ""
    grace_period_seconds: int | None = None
    """How long the pod may take to end; None leaves that to the pod."""


class Plugin(ABC):
    """Anything with a name; `needs` is what it cannot work without beyond the objects that it follows."""

    name: ClassVar[str]
    needs: ClassVar[Needs] = Needs()


class DeschedulePlugin(Plugin):
    """Evicts pods that should not run where they run."""

    @abstractmethod
    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Look at the nodes of a profile, sorted by name, and evict. Any exception is the run's error."""


class BalancePlugin(Plugin):
    """Evicts pods so that the cluster as a whole is used better."""

    @abstractmethod
    async def balance(self, nodes: Sequence[Node]) -> None:
        """Look at the nodes of a profile, sorted by name, and evict. Any exception is the run's error."""


class EvictPlugin(Plugin):
    """Carries evictions out. A profile has exactly one."""

    @abstractmethod
    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod, or start to; return whether that succeeded. Never called in dry run."""


class FilterPlugin(Plugin):
    """Says which pods may be evicted. All filter plugins of a profile must agree."""

    @abstractmethod
    def filter(self, pod: Pod) -> bool:
        """Return whether a pod may be evicted at all; plugins ask it for every candidate."""

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


@runtime_checkable
class PluginFactory(Protocol):
    """What an entry point names: usually a plugin class."""

    @property
    def name(self) -> str:
        """The plugin's name, the one that configurations use."""
        ...

    @property
    def args_type(self) -> type[PluginArgs] | None:
        """The model of the plugin's args; None for a plugin that takes the raw document."""
        ...

    def __call__(self, args: Any, handle: Handle) -> Plugin:
        """Make the plugin; `args` is an `args_type`, else the raw document or None. May raise ValueError."""
        ...
