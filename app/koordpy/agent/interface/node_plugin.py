"""What collectors, hooks and QoS plugins have in common."""

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar

from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.lib.endpoint import Endpoint
from koordpy.lib.feature_gates import FeatureGates

from .flags import FlagSet
from .handle import Handle


class NodePlugin(BasePlugin, ABC):
    """A plugin of the node agent.

    `feature` is its gate: one of the node agent's, or one that the plugin declares in `feature_gates`;
    without a gate it always runs. `needs` declares requirements beyond the states of its node and the objects
    that it follows.
    """

    handle: Handle
    features: ClassVar[tuple[str, ...]] = ()
    """The gates of a plugin that runs if any one of several is on; `feature` is None then."""
    slo_extensions: ClassVar[Mapping[str, Any]] = {}
    """Defaults of the keys of NodeSLO `extensions` that it reads; keys without a default are dropped.

    `handle.states.node_slo().extensions.object[key]` has the node's values merged over them.
    """

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        """Store what is needed. No state of the node is known yet."""
        super().__init__(args, handle)

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare flags. Called once, before the command line is read and any plugin is constructed."""

    def setup(self) -> None:
        """Request stores of the cluster, add indexes and register callbacks.

        Called once for every installed plugin, enabled or not, before anything is listed.
        """

    def is_enabled(self) -> bool:
        """Return whether the plugin is to run; asked once, when the states of the node are known."""
        return self.is_switched_on(self.handle.gates)

    @classmethod
    def is_switched_on(cls, gates: FeatureGates) -> bool:
        """Return whether its gate, or one of its gates, is on; without a gate it always is."""
        own = cls.features if cls.feature is None else (cls.feature,)
        return not own or any(gates.enabled(gate) for gate in own)

    def endpoints(self) -> Mapping[str, Endpoint]:
        """Return HTTP endpoints by path below `/apis/v1/plugins/NAME/`; asked at each request.

        They are called on the event loop while the plugin is enabled.
        """
        return {}
