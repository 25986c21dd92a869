"""The CPUs of a pod, preferred ones (those of its reservation) first.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/cpu_accumulator.go` (`takePreferredCPUs`).
"""

from collections.abc import Mapping, Set

from ..topology.cpu_topology import CPUTopology
from .accumulator import AllocatedCPU, NotEnoughCPUs, take

__all__ = ["AllocatedCPU", "NotEnoughCPUs", "take_preferred"]


def take_preferred(
    topology: CPUTopology,
    max_ref: int,
    available: Set[int],
    allocated: Mapping[int, AllocatedCPU],
    preferred: Set[int],
    need: int,
    bind: str,
    exclusive: str,
    strategy: str,
) -> set[int]:
    """Return `need` of the available CPUs, as many as possible of the preferred ones. Raises NotEnoughCPUs.

    `allocated` is what `NodeAllocation.available_cpus` returns with the available ones; `bind`, `exclusive`
    and `strategy` are policies by name. There may be more CPUs than needed, see `accumulator.take`.
    """
    wanted = available & preferred
    taken: set[int] = set()
    if wanted:
        count = min(need, len(wanted))
        taken = take(topology, max_ref, wanted, allocated, count, bind, exclusive, strategy)
        need -= len(taken)
        available = available - wanted
    if need > 0:
        taken |= take(topology, max_ref, available, allocated, need, bind, exclusive, strategy)
    return taken
