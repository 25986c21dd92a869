"""The base class of collectors: plugins that measure the node (entry point group `koordpy.collectors`)."""

from abc import abstractmethod
from collections.abc import Awaitable
from typing import ClassVar

from .metrics import COLLECT_INTERVAL, MetricKind
from .node_plugin import NodePlugin


class CollectError(OSError):
    """Something cannot be measured; the message names the file, and what was expected of it."""


class Collector(NodePlugin):
    """Measures one aspect of the node at a regular interval.

    `kinds` declares the series that it appends; `handle.metrics` refuses samples of others. `interval_flag`
    names the flag that has its interval. `feature` is its gate; without one it always runs. The node is ready
    once every enabled collector has measured once. Source: Koordinator, `pkg/koordlet/metricsadvisor`.
    """

    kinds: ClassVar[tuple[MetricKind, ...]] = ()
    interval_flag: ClassVar[str] = COLLECT_INTERVAL

    def idle_reason(self) -> str | None:
        """Return why nothing can or shall be measured on this node; then `collect` is not called.

        Called once, after `setup`, when the states of the node are known. None means that it measures.
        """
        return None

    @abstractmethod
    def collect(self) -> Awaitable[None] | None:
        """Measure once, and append samples or set facts; called on the event loop, so it must not block.

        A collector whose measuring takes time makes it a coroutine. Raises CollectError if nothing can be
        measured. One unreadable pod or container must not prevent measuring the others.
        """

    def close(self) -> None:
        """Release threads and the like. Called after the last `collect`, perhaps twice."""
