"""memoryEvict: evict pods of low priority to free memory.

Three features, each with its gate: the node uses too much memory, and best-effort pods are evicted or all up
to a priority (`usage`); or pods request more than the node offers (`requests`).

Rules: Koordinator, pkg/koordlet/qosmanager/plugins/memoryevict.
"""

from functools import partial
from typing import ClassVar

from koordpy.agent.interface import FlagSet, QOSPlugin
from koordpy.agent.interface.gates import BE_MEMORY_EVICT, MEMORY_ALLOCATABLE_EVICT, MEMORY_EVICT
from koordpy.agent.toolkit.eviction.needs import KILLING
from koordpy.agent.toolkit.eviction.rounds import EvictionRounds
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.agent.toolkit.pace import Pace
from koordpy.api.needs import Needs
from koordpy.api.resource_names import MEMORY

from . import requests, usage

INTERVAL_FLAG = "memory-evict-interval-seconds"
COOL_TIME_FLAG = "memory-evict-cool-time-seconds"


class MemoryEvict(QOSPlugin):
    """The memory evict strategy."""

    name: ClassVar[str] = "memoryEvict"
    features: ClassVar[tuple[str, ...]] = (BE_MEMORY_EVICT, MEMORY_ALLOCATABLE_EVICT, MEMORY_EVICT)
    interval_flag: ClassVar[str | None] = INTERVAL_FLAG
    needs: ClassVar[Needs] = Needs(
        elsewhere=("NodeSLOs with resourceUsedThresholdWithBE.enable (koord-manager creates them)",),
        privileges=KILLING,
    )
    rounds: EvictionRounds

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds, and the cool time."""
        flags.declare(INTERVAL_FLAG, 1, "seconds between memory evict rounds; 0 or less disables it")
        flags.declare(COOL_TIME_FLAG, 4, "seconds after a memory eviction without another one")

    def setup(self) -> None:
        """Unlike CPU eviction, the first round may evict."""
        metrics = MetricQueries(self.handle)
        self.rounds = EvictionRounds(
            self.handle,
            self.handle.eviction,
            {
                BE_MEMORY_EVICT: partial(usage.best_effort_task, metrics),
                MEMORY_ALLOCATABLE_EVICT: partial(requests.task, metrics),
                MEMORY_EVICT: partial(usage.priority_task, metrics),
            },
            resource=MEMORY,
            cool_seconds=lambda: self.handle.flags.integer(COOL_TIME_FLAG),
        )

    async def run(self) -> None:
        """Run rounds until cancelled."""
        pace = Pace(self.handle, ("memory",))
        while True:
            await self.rounds.round()
            await pace.next_round(self.handle.flags.integer(INTERVAL_FLAG))
