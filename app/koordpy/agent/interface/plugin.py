"""The base class of QoS plugins."""

from abc import abstractmethod
from typing import ClassVar, Final

from .node_plugin import NodePlugin

RECONCILE_INTERVAL: Final = "reconcile-interval-seconds"
"""The flag with the seconds between two rounds of strategies that only restore settings; its default is 1."""


class QOSPlugin(NodePlugin):
    """A QoS strategy of a node (entry point group `koordpy.qos`).

    A `run` that works in rounds calls `handle.sleep` between them. From the second round on, one that takes
    longer than `round_timeout` seconds is cancelled and counts as a failure; None is for a `run` that waits
    for something else than `handle.sleep`.
    """

    round_timeout: ClassVar[float | None] = 300.0
    interval_flag: ClassVar[str | None] = None
    """The flag with the seconds between two rounds, if the plugin is off with 0 or less."""

    def is_enabled(self) -> bool:
        """Return whether one of its gates is on, and its interval is positive."""
        if not super().is_enabled():
            return False
        return self.interval_flag is None or self.handle.flags.integer(self.interval_flag) > 0

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled. Called once the states are known, and only if the gate is on.

        An exception is logged and counted, and the plugin is restarted with backoff.
        """

    async def stop(self) -> None:
        """Revert or complete what must not be left behind. Called once, after `run` was cancelled."""
