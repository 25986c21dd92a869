"""The extension points of descheduling plugins, and what the framework gives them.

A plugin is a class that subclasses one or more of the points below and is installed as an entry point of the
group `koordpy.descheduling`. It is constructed with its arguments and a `Handle`, once per profile,
regardless of the number of points it is enabled at. One cycle runs every Deschedule plugin of every profile,
then every Balance plugin. Source: Koordinator, `pkg/descheduler/framework`.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, TypeVar, cast

from pydantic import BaseModel

from koordpy.api.core import Node, Pod
from koordpy.api.meta import LabelSelector
from koordpy.api.needs import Lack
from koordpy.api.plugin import BasePlugin
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGates

from .args import API_VERSION, PluginArgs
from .toolkit import node_state
from .toolkit.nodes import selected
from .toolkit.pods import NodePods


@dataclass(frozen=True)
class EvictOptions:
    """Which plugin evicts a pod and why. The framework fills in empty fields."""

    plugin_name: str = ""
    reason: str = ""
    grace_period_seconds: int | None = None
    """The grace period; None for the pod's own."""
    delete_options: Mapping[str, Any] | None = None
    """A `metav1.DeleteOptions` for the eviction; None for the evictor's own. Its grace period comes first."""


@dataclass(frozen=True)
class Status:
    """The result of one run of a plugin; an empty `error` means success.

    Koordinator's `framework.Status`. A plugin that raises has failed too, with the exception's text.
    """

    error: str = ""

    @property
    def is_success(self) -> bool:
        """Whether there was no error."""
        return not self.error


SUCCESS: Final = Status()


@dataclass(frozen=True)
class Refusal:
    """Why an evict plugin did not evict a pod. As the result of `evict` it is false."""

    reason: str

    def __bool__(self) -> bool:
        return False


class Plugin(BasePlugin, ABC):
    """The base of every plugin. It runs if a profile enables it; `needs` declares its requirements.

    A plugin with a `feature` cannot be enabled while that gate is off.
    """

    args: PluginArgs
    args_api_version: ClassVar[str] = API_VERSION
    handle: "Handle"

    def __init__(self, args: PluginArgs, handle: "Handle") -> None:
        super().__init__(args, handle)

    def lacks(self) -> Iterable[Lack]:
        """Return what the plugin lacks in the handle's cluster, for `koordpy doctor`.

        When it is called, everything that the plugin follows has been listed, except pods.
        """
        return ()

    @classmethod
    def read_args(cls, document: object, path: str) -> PluginArgs:
        """Decode the plugin's arguments. Raises ConfigError."""
        args = super().read_args(document, path)
        assert isinstance(args, PluginArgs)
        return args


class EvictingPlugin(Plugin):
    """What Deschedule and Balance plugins have in common: they decide which pods leave their nodes."""

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Return why this plugin would want to move a pod again that ran on a node; None if it would not.

        `pods` are those that the node will have besides it: its current ones without the round's earlier
        victims, and those victims that are expected to go there. A profile that proves evictions first (see
        `descheduling.proof`) moves a pod only to a node without objection. Outside of rounds it is asked
        about moved pods that landed on another node than expected. Default: no objection.
        """
        return None

    def node_state(self, pod: Pod, node: Node) -> Mapping[str, Any]:
        """Return what of a node decides whether this plugin moves a pod from it, as a small JSON object.

        Recorded when a pod that the plugin moved has landed on the node, for `has_changed`. Default: labels,
        taints, allocatable resources, and whether the node is unschedulable.
        """
        return node_state.node_state(node)

    def has_changed(self, before: Mapping[str, Any], pod: Pod, node: Node) -> str | None:
        """Return what has really changed since a moved pod landed, None if nothing has.

        `before` is the `node_state` of that time, or empty if it is not known. While nothing has changed, the
        plugin does not move the pod again within the window of its profile.
        """
        return node_state.change_since(before, node)


class DeschedulePlugin(EvictingPlugin):
    """Evicts pods that should not run on their node."""

    @abstractmethod
    async def deschedule(self, nodes: Sequence[Node]) -> Status:
        """Evict pods of a profile's nodes, which are sorted by name. An exception is the run's error."""


class BalancePlugin(EvictingPlugin):
    """Evicts pods to improve the utilization of the whole cluster."""

    @abstractmethod
    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Evict pods of a profile's nodes, which are sorted by name. An exception is the run's error."""


class EvictPlugin(Plugin):
    """Performs evictions. A profile has exactly one.

    One that does more than a call, such as the migration controller, starts its loops with
    `handle.run_while_leading`.
    """

    @property
    def is_dry_run(self) -> bool:
        """Whether the plugin's own arguments say that `evict` only counts pods: recorded as a dry run."""
        return False

    @abstractmethod
    async def evict(self, pod: Pod, options: EvictOptions) -> bool | Refusal:
        """Evict a pod, or start to; return whether that succeeded, at best with the reason why it did not.

        Never called in a dry run. An exception is a refusal of this pod.
        """


class FilterPlugin(Plugin):
    """Decides which pods may be evicted. All filter plugins of a profile must agree.

    A pod for which one raises an exception is not evicted.
    """

    @abstractmethod
    def filter(self, pod: Pod) -> bool:
        """Return whether a pod may be evicted at all; plugins call it for every candidate."""

    def reason_against(self, pod: Pod) -> str | None:
        """Return why `filter` refuses a pod, in words for its owner; None if it does not.

        Only called for explanations; it may cost more than `filter`.
        """
        return None if self.filter(pod) else f"{self.name} does not allow it"

    @abstractmethod
    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether a chosen pod may be evicted now; may cost more than `filter`."""

    def reason_against_now(self, pod: Pod) -> str:
        """Return why `pre_eviction_filter` refuses a pod; only called for one that it refuses."""
        return f"{self.name} does not allow it now"


class Evictor(Protocol):
    """The interface to a profile's filter and evict plugins, behind limits and dry run."""

    def filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins allow evicting a pod."""
        ...

    def reason_against(self, pod: Pod) -> str | None:
        """Return why a filter plugin does not allow evicting a pod, None if all allow it."""
        ...

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins allow evicting a pod right now."""
        ...

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod within the limits; a dry run only counts it. Return false if it was not evicted."""
        ...

    def skipped(self, pods: Sequence[Pod], reason: str | Callable[[], str]) -> None:
        """Record why the plugin itself decided not to evict candidates, for explanations.

        Pods that a filter or `evict` refuses are recorded already. A function is called only for the first
        pods of a run, and at once.
        """
        ...


class PluginRunner(Protocol):
    """Runs all plugins of the profile at a point, as a cycle does."""

    async def run_deschedule_plugins(self, nodes: Sequence[Node]) -> Status:
        """Run all Deschedule plugins in order; the status has the errors of those that failed."""
        ...

    async def run_balance_plugins(self, nodes: Sequence[Node]) -> Status:
        """Run all Balance plugins in order; the status has the errors of those that failed."""
        ...


class NoPlugins:
    """Runs nothing: for plugins that are created without a profile."""

    async def run_deschedule_plugins(self, nodes: Sequence[Node]) -> Status:
        """Run nothing."""
        return SUCCESS

    async def run_balance_plugins(self, nodes: Sequence[Node]) -> Status:
        """Run nothing."""
        return SUCCESS


Task = Callable[[], Awaitable[None]]
"""Work that runs until it is cancelled."""

S = TypeVar("S")


class SharedObjects:
    """Objects that the plugins of all profiles of a descheduler share, one per type."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], Any] = {}

    def get(self, type_: type[S], make: Callable[[], S]) -> S:
        """Return the object of a type; the first caller's `make` creates it."""
        if type_ not in self._objects:
            self._objects[type_] = make()
        return cast(S, self._objects[type_])


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
    plugins: PluginRunner
    """The plugins of the profile, known after all of them are created: do not use it in a constructor."""
    run_while_leading: Callable[[str, Task], None]
    """Add a named loop that runs, supervised, while this process leads; call it in a constructor.

    A descheduler with such a loop goes on after its last cycle.
    """
    profile: str = ""
    """The name of the profile."""
    identity: str = ""
    """Identifies this descheduler, whichever process runs it: its Lease, `namespace/name`."""
    node_selector: LabelSelector | None = None
    """Selects the nodes of the profile; None selects all."""
    shared: SharedObjects = field(default_factory=SharedObjects)
    """What the plugins of all profiles share, such as one controller behind several evict plugins."""
    not_evicted: Callable[[str], None] = lambda uid: None
    """Report that the pod with a UID stays, or went by itself, after `evict` had started its eviction.

    An evict plugin that does more than a call reports it when it gives up: no successor is expected then.
    """

    @cached_property
    def pods(self) -> NodePods:
        """The pods of the cluster by the node that they are bound to."""
        return NodePods(self.cluster)

    def nodes(self) -> list[Node]:
        """Return the nodes that the profile selects, by name, ready or not.

        For points that do not receive them, such as filters.
        """
        return selected(self.cluster.store(Node), self.node_selector)
