"""The base class of QoS plugins."""

from abc import ABC, abstractmethod

from koordpy.api.plugin import BasePlugin, PluginArgs

from .flags import FlagSet
from .handle import Handle


class QOSPlugin(BasePlugin, ABC):
    """A QoS strategy of a node.

    `feature` is the gate that switches it: one of the node agent's, or one that the plugin brings along in
    `feature_gates`; without a gate it always runs. `needs` is what it cannot work without beyond the states
    of its node and the objects that it follows.
    """

    handle: Handle

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        """Keep what is needed. No state of the node is known yet."""
        super().__init__(args, handle)

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare flags. Called once, before the command line is read and any plugin is constructed."""

    def setup(self) -> None:
        """Get stores of the cluster, add indexes and register callbacks.

        Called once for every installed plugin, enabled or not, before anything is listed.
        """

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled. Called when the states are known, and only if the gate is on.

        An exception is logged and counted, and the plugin is run again after a delay that grows.
        """

    async def stop(self) -> None:
        """Undo or finish what must not be left behind. Called once, after `run` was cancelled."""
