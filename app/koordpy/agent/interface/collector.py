"""The base class of collectors: plugins that measure the node (entry point group `koordpy.collectors`)."""

from abc import ABC, abstractmethod
from typing import ClassVar

from koordpy.api.plugin import BasePlugin, PluginArgs

from .flags import FlagSet
from .handle import Handle
from .metrics import COLLECT_INTERVAL, MetricKind


class CollectError(OSError):
    """Something cannot be measured; the message names the file, and what was expected of it."""


class Collector(BasePlugin, ABC):
    """Measures one aspect of the node at a regular interval.

    `kinds` declares the series that it appends; `handle.metrics` refuses samples of others. `interval_flag`
    names the flag that has its interval. `feature` is its gate; without one it always runs. The node is ready
    once every enabled collector has measured once. Source: Koordinator, `pkg/koordlet/metricsadvisor`.
    """

    handle: Handle

    kinds: ClassVar[tuple[MetricKind, ...]] = ()
    interval_flag: ClassVar[str] = COLLECT_INTERVAL

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        """Store what is needed. No state of the node is known yet."""
        super().__init__(args, handle)

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare flags. Called once, before the command line is read and any plugin is constructed."""

    def setup(self) -> None:
        """Request stores of the cluster and register callbacks, before anything is listed."""

    @abstractmethod
    def collect(self) -> None:
        """Measure once, and append samples or set facts; called on the event loop, so it must not wait.

        Raises CollectError if nothing can be measured. One unreadable pod or container must not prevent
        measuring the others.
        """
