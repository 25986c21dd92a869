"""rdma: the node's network cards with RDMA, as a fact for the Device of the node (gate RDMADevices).

Source: Koordinator, `pkg/koordlet/metricsadvisor/devices/rdma`.
"""

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from koordpy.agent.interface import CollectError, Collector, FlagSet, Handle
from koordpy.agent.interface.facts import RDMA_DEVICES
from koordpy.agent.interface.gates import ACCELERATORS
from koordpy.agent.interface.gates import RDMA_DEVICES as GATE
from koordpy.agent.interface.reports import DEVICE_RIGHTS, TOPOLOGY_INTERVAL, TOPOLOGY_INTERVAL_HELP
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs

if TYPE_CHECKING:
    from .network_cards import NetworkCards

log = logging.getLogger(__name__)


class RDMA(Collector):
    """The collector of network cards."""

    name: ClassVar[str] = "rdma"
    feature: ClassVar[str | None] = GATE
    interval_flag: ClassVar[str] = TOPOLOGY_INTERVAL
    needs: ClassVar[Needs] = Needs(
        rights=DEVICE_RIGHTS, elsewhere=("the gate Accelerators, which reports devices",)
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._cards: NetworkCards | None = None
        self._named: dict[str, str] = {}

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval of the reports that the cards are for."""
        flags.declare(TOPOLOGY_INTERVAL, timedelta(seconds=3), TOPOLOGY_INTERVAL_HELP)

    def idle_reason(self) -> str | None:
        """As in Koordinator, devices are reported with the gate Accelerators alone."""
        if not self.handle.gates.enabled(ACCELERATORS):
            return f"devices are reported only with the feature gate {ACCELERATORS}"
        if self.handle.flags.duration(TOPOLOGY_INTERVAL) <= timedelta():
            return f"--{TOPOLOGY_INTERVAL} is 0, so no devices are reported"
        return None

    def collect(self) -> None:
        """Read the cards. Raises CollectError."""
        from .network_cards import NetworkCards

        if self._cards is None:
            self._cards = NetworkCards(self.handle.sys_root)
        try:
            found = self._cards.read()
        except OSError as error:
            raise CollectError(f"RDMA devices: {error}") from None
        for name, problem in self._cards.problems.items():
            if self._named.get(name) != problem:
                log.warning("RDMA device %s is not reported: %s", name, problem)
        self._named = self._cards.problems
        self.handle.metrics.set_fact(RDMA_DEVICES, found)
