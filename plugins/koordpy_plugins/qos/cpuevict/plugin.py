"""CPUEvict: evict pods of low priority to free CPU.

Three features, each with its gate: best-effort pods get far less CPU than they request (`satisfaction`), pods
request more than the node offers (`requests`), or the node uses too much CPU (`usage`).

Rules: Koordinator, pkg/koordlet/qosmanager/plugins/cpuevict.
"""

from functools import partial
from typing import ClassVar

from koordpy.agent.interface import FlagSet, QOSPlugin
from koordpy.agent.interface.gates import BE_CPU_EVICT, CPU_ALLOCATABLE_EVICT, CPU_EVICT
from koordpy.agent.toolkit.eviction.needs import KILLING
from koordpy.agent.toolkit.eviction.rounds import EvictionRounds
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.agent.toolkit.pace import Pace
from koordpy.api.needs import Needs
from koordpy.api.resource_names import CPU

from . import requests, satisfaction, usage

INTERVAL_FLAG = "cpu-evict-interval-seconds"
COOL_TIME_FLAG = "cpu-evict-cool-time-seconds"


class CPUEvict(QOSPlugin):
    """The CPU evict strategy."""

    name: ClassVar[str] = "CPUEvict"
    features: ClassVar[tuple[str, ...]] = (BE_CPU_EVICT, CPU_ALLOCATABLE_EVICT, CPU_EVICT)
    interval_flag: ClassVar[str | None] = INTERVAL_FLAG
    needs: ClassVar[Needs] = Needs(
        elsewhere=("NodeSLOs with resourceUsedThresholdWithBE.enable (koord-manager creates them)",),
        privileges=KILLING,
    )
    rounds: EvictionRounds

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds, and the cool time."""
        flags.declare(INTERVAL_FLAG, 1, "seconds between CPU evict rounds; 0 or less disables it")
        flags.declare(COOL_TIME_FLAG, 20, "seconds after a CPU eviction without another one")

    def setup(self) -> None:
        """Nothing is evicted within the first cool time after the start."""
        metrics = MetricQueries(self.handle)
        self.rounds = EvictionRounds(
            self.handle,
            self.handle.eviction,
            {
                BE_CPU_EVICT: partial(satisfaction.task, metrics),
                CPU_ALLOCATABLE_EVICT: partial(requests.task, metrics),
                CPU_EVICT: partial(usage.task, metrics),
            },
            resource=CPU,
            cool_seconds=lambda: self.handle.flags.integer(COOL_TIME_FLAG),
            cooling_from=self.handle.clock.monotonic(),
        )

    async def run(self) -> None:
        """Run rounds until cancelled."""
        pace = Pace(self.handle, ("cpu",))
        while True:
            await self.rounds.round()
            await pace.next_round(self.handle.flags.integer(INTERVAL_FLAG))
