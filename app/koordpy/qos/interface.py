"""What a QoS plugin implements and what it is given (pkg/koordlet/qosmanager/framework).

A plugin lives through init_flags, setup, run and stop. Built-in strategies and third-party extensions have
the same shape; both are found by entry points (group `koordpy.qos`) and switched by a feature gate each.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from koordpy.api.needs import Needs
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec

from .cgroup import CgroupFiles
from .executor import Executor
from .metric_cache import MetricCache
from .states import StatesInformer

if TYPE_CHECKING:
    from koordpy.cluster.client import Client
    from koordpy.cluster.events import Recorder


class FlagError(ValueError):
    """A flag of the QoS manager has a value of the wrong type, or nobody declared it."""


@dataclass(frozen=True)
class Flag:
    """A setting by name; its type is the type of the default."""

    name: str
    default: int | float | bool | str
    description: str


class FlagSet:
    """The flags of all plugins, declared by them and set by configuration before `setup`."""

    def __init__(self) -> None:
        self._flags: dict[str, Flag] = {}
        self._values: dict[str, int | float | bool | str] = {}

    def declare(self, name: str, default: int | float | bool | str, description: str) -> None:
        """Declare a flag; the same name may be declared again only with the same default."""
        known = self._flags.get(name)
        if known is not None and known.default != default:
            raise FlagError(f"flag {name} is declared twice, with defaults {known.default!r} and {default!r}")
        self._flags[name] = Flag(name, default, description)

    def set(self, name: str, value: int | float | bool | str) -> None:
        """Set a declared flag. Raises FlagError for an unknown name or another type."""
        flag = self._flags.get(name)
        if flag is None:
            raise FlagError(f"unknown flag {name!r}; there are: {', '.join(sorted(self._flags)) or 'none'}")
        wanted = type(flag.default)
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted:
            raise FlagError(f"flag {name}: expected {wanted.__name__}, got {value!r}")
        self._values[name] = value

    def integer(self, name: str) -> int:
        """Return the value of an integer flag."""
        value = self._value(name)
        if type(value) is not int:
            raise FlagError(f"flag {name} is no integer: {value!r}")
        return value

    def boolean(self, name: str) -> bool:
        """Return the value of a boolean flag."""
        value = self._value(name)
        if type(value) is not bool:
            raise FlagError(f"flag {name} is no boolean: {value!r}")
        return value

    @property
    def values(self) -> dict[str, int | float | bool | str]:
        """All flags with their values in force."""
        return {name: self._value(name) for name in sorted(self._flags)}

    def _value(self, name: str) -> int | float | bool | str:
        flag = self._flags.get(name)
        if flag is None:
            raise FlagError(f"flag {name!r} was not declared")
        return self._values.get(name, flag.default)


@dataclass(frozen=True)
class QOSHandle:
    """What plugins are given at `setup`."""

    node_name: str
    states: StatesInformer
    metrics: MetricCache
    cgroups: CgroupFiles
    executor: Executor
    gates: FeatureGates
    flags: FlagSet
    clock: Clock
    client: "Client | None" = None
    events: "Recorder | None" = None
    sleep: Callable[[float], Awaitable[None]] | None = field(default=None, repr=False)


class ExtensionPlugin(ABC):
    """A QoS strategy."""

    name: ClassVar[str]
    """The strategy's name, unique among plugins."""
    feature: ClassVar[str]
    """The feature gate that switches the plugin; Koordinator's own or one that the plugin brings."""
    feature_spec: ClassVar[FeatureSpec | None] = None
    """Default and stage of a gate that the plugin brings; None for one of Koordinator's gates."""
    needs: ClassVar[Needs] = Needs()
    """What the plugin cannot work without beyond the states of its node."""

    def init_flags(self, flags: FlagSet) -> None:
        """Declare flags. Called once, before flags are set and before `setup`, whether enabled or not."""

    @abstractmethod
    def setup(self, handle: QOSHandle) -> None:
        """Take what is needed. Called once for every registered plugin, before states are synced."""

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled. Started after states are synced, and only if the gate is on.

        An exception is logged and counted, and the plugin is run again after a delay that grows.
        """

    async def stop(self) -> None:
        """Undo or finish what must not be left behind. Called once, after `run` was cancelled."""
