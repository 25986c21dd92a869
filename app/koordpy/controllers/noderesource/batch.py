"""The formulas of batch resources: what high-priority pods leave of a node, or of a NUMA zone.

Pure functions over a strategy, capacity, reservation and `Demand`; the plugin BatchResource writes what they
return. Source: Koordinator, `pkg/slo-controller/noderesource/plugins/util/util.go`
(`CalculateBatchResourceByPolicy`).
"""

from typing import Final

import msgspec

from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.lib.go_number import general

from .amounts import Amounts, giga, milli, times_milli, times_whole
from .demand import Demand, ZoneDemand

REQUEST: Final = "request"
MAX_USAGE_REQUEST: Final = "maxUsageRequest"
"""Calculate policies; any other text means `usage`. CPU does not have `request`."""


class Terms(msgspec.Struct, frozen=True, gc=False):
    """What a formula subtracts from a capacity: exact amounts."""

    capacity: Amounts
    safety_margin: Amounts
    reserved: Amounts
    system: Amounts
    """The larger of the system's usage (with that of host applications) and of what is reserved."""
    request: Amounts
    used: Amounts
    max_used_request: Amounts


class BatchResources(msgspec.Struct, frozen=True, gc=False):
    """Batch resources, exact, and what led to them."""

    amounts: Amounts
    terms: Terms
    strategy: ColocationStrategy

    def cpu_message(self) -> str:
        """Return the formula of cpu with its terms, in Koordinator's words."""
        return _cpu_message(self.strategy, self.terms, self.amounts.cpu)

    def memory_message(self) -> str:
        """Return the formula of memory with its terms."""
        return _memory_message(self.strategy, self.terms, self.amounts.memory)


def safety_margin(strategy: ColocationStrategy, capacity: Amounts) -> Amounts:
    """Return the part of a capacity that is never offered; negative for thresholds above 100 percent."""
    cpu, memory = strategy.cpu_reclaim_threshold_percent, strategy.memory_reclaim_threshold_percent
    return Amounts(
        times_milli(capacity.cpu, float(100 - (cpu or 0)) / 100.0),
        times_whole(capacity.memory, float(100 - (memory or 0)) / 100.0),
    )


def for_node(
    strategy: ColocationStrategy, capacity: Amounts, reserved: Amounts, demand: Demand
) -> BatchResources:
    """Return the batch resources of a node."""
    used = demand.system_used.plus(demand.host_used_over_batch)
    terms = Terms(
        capacity,
        safety_margin(strategy, capacity),
        reserved,
        used.at_least(reserved),
        demand.high_request,
        demand.high_used,
        demand.high_max_used_request,
    )
    return _by_policy(strategy, terms)


def for_zones(
    strategy: ColocationStrategy, allocatable: list[Amounts], reserved: Amounts, demand: Demand
) -> list[BatchResources]:
    """Return the batch resources of NUMA zones with these allocatable resources.

    What is known of the node only (reservation, system, usage of pods without NUMA nodes) is split evenly.
    """
    count = len(allocatable)
    used = demand.system_used.plus(demand.host_used_over_batch).divided(count)
    kept = reserved.divided(count)
    return [
        _of_zone(strategy, *zone, kept, used) for zone in zip(allocatable, demand.zones(count), strict=True)
    ]


def _of_zone(
    strategy: ColocationStrategy, capacity: Amounts, zone: ZoneDemand, reserved: Amounts, system_used: Amounts
) -> BatchResources:
    terms = Terms(
        capacity,
        safety_margin(strategy, capacity),
        reserved,
        system_used.at_least(reserved),
        zone.request,
        zone.used,
        zone.max_used_request,
    )
    return _by_policy(strategy, terms)


def _by_policy(strategy: ColocationStrategy, terms: Terms) -> BatchResources:
    capacity, margin = terms.capacity, terms.safety_margin
    is_max = strategy.cpu_calculate_policy == MAX_USAGE_REQUEST
    pods = terms.max_used_request if is_max else terms.used
    cpu = max(capacity.cpu - margin.cpu - terms.system.cpu - pods.cpu, 0)
    if (percent := strategy.batch_cpu_threshold_percent) is not None:
        cpu = min(cpu, times_milli(terms.capacity.cpu, float(percent) / 100))
    policy = strategy.memory_calculate_policy
    if policy == REQUEST:
        taken = terms.reserved.memory + terms.request.memory
    elif policy == MAX_USAGE_REQUEST:
        taken = terms.system.memory + terms.max_used_request.memory
    else:
        taken = terms.system.memory + terms.used.memory
    memory = max(capacity.memory - margin.memory - taken, 0)
    if (percent := strategy.batch_memory_threshold_percent) is not None:
        memory = min(memory, times_whole(terms.capacity.memory, float(percent) / 100))
    return BatchResources(Amounts(cpu, memory), terms, strategy)


def _cpu_message(strategy: ColocationStrategy, terms: Terms, cpu: int) -> str:
    capacity = milli(terms.capacity.cpu)
    is_max = strategy.cpu_calculate_policy == MAX_USAGE_REQUEST
    name, pods = ("podHPMaxUsedRequest", terms.max_used_request) if is_max else ("podHPUsed", terms.used)
    formula = (
        f"nodeCapacity:{capacity} - nodeSafetyMargin:{milli(terms.safety_margin.cpu)}"
        f" - systemUsageOrNodeReserved:{milli(terms.system.cpu)} - {name}:{milli(pods.cpu)}"
    )
    formula = _limited(formula, capacity, strategy.batch_cpu_threshold_percent)
    return f"batchAllocatable[CPU(Milli-Core)]:{milli(cpu)} = {formula}"


def _memory_message(strategy: ColocationStrategy, terms: Terms, memory: int) -> str:
    capacity, percent = giga(terms.capacity.memory), strategy.batch_memory_threshold_percent
    if strategy.memory_calculate_policy == REQUEST:
        rest = f"nodeReserved:{giga(terms.reserved.memory)} - podHPRequest:{giga(terms.request.memory)}"
    # With a threshold, Koordinator prints the maximum for the usage policy too.
    elif strategy.memory_calculate_policy == MAX_USAGE_REQUEST or percent is not None:
        pods = giga(terms.max_used_request.memory)
        rest = f"systemUsage:{giga(terms.system.memory)} - podHPMaxUsedRequest:{pods}"
    else:
        rest = f"systemUsage:{giga(terms.system.memory)} - podHPUsed:{giga(terms.used.memory)}"
    formula = f"nodeCapacity:{capacity} - nodeSafetyMargin:{giga(terms.safety_margin.memory)} - {rest}"
    return f"batchAllocatable[Mem(GB)]:{giga(memory)} = {_limited(formula, capacity, percent)}"


def _limited(formula: str, capacity: int, percent: int | None) -> str:
    if percent is None:
        return formula
    return f"min(nodeCapacity:{capacity} * thresholdRatio:{general(float(percent) / 100)}, {formula})"
