"""Filter and Score of all nodes at once, where arrays give exactly what evaluating a node by itself does.

These are nodes on which no NUMA policy holds, or one that Filter leaves to Reserve, and all nodes that are
refused before their NUMA nodes matter. The others, and nodes on which the attempt sees more than what is
allocated (reservations, preemption), are evaluated one by one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from koordpy.api.extension import CPU
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import MAX_NODE_SCORE
from koordpy.scheduling.interface.status import Code

from .allocation.cpu_sets import INVALID_TOPOLOGY
from .attempt.node_policies import POLICY_MISMATCH
from .attempt.pod_state import NOT_WHOLE_CPUS, PodState
from .cpus import policies
from .cpus.accumulator import NOT_ENOUGH
from .filter import INSUFFICIENT_CPU, INVALID_RATIO, NOT_ALIGNED, POLICY_CONFLICT
from .scorer import Scorer, amounts_of
from .state.columns import NUMA_POLICIES, CPUColumns, CPURows

REFUSALS: Final = (
    (),
    (POLICY_MISMATCH,),
    (NOT_WHOLE_CPUS,),
    (INVALID_RATIO,),
    (INVALID_TOPOLOGY,),
    (INSUFFICIENT_CPU,),
    (POLICY_CONFLICT,),
    (NOT_ALIGNED,),
    (NOT_ENOUGH,),
)
"""Reasons by key."""
_UNSCHEDULABLE: Final = (REFUSALS.index((INSUFFICIENT_CPU,)), REFUSALS.index((NOT_ENOUGH,)))
CODES: Final = np.array(
    [
        0 if not reasons else Code.UNSCHEDULABLE if key in _UNSCHEDULABLE else 3
        for key, reasons in enumerate(REFUSALS)
    ],
    np.int8,
)
"""Codes by key."""
_REQUIRED: Final = ("", policies.FULL_PCPUS, policies.SPREAD_BY_PCPUS)
_NONE: Final = 0
_BEST_EFFORT: Final = NUMA_POLICIES.index("BestEffort")


@dataclass(frozen=True, slots=True)
class Filtered:
    """(n,) the keys of reasons, 0 for none, and which nodes must be evaluated by themselves instead."""

    keys: Int64
    alone: Bool


class Arrays:
    """The array forms, over the columns of CPUs."""

    def __init__(self, columns: CPUColumns) -> None:
        self._columns = columns

    def filter(self, pod: PodState, nodes: NodeSet, special: Collection[str]) -> Filtered:
        """Filter nodes for a pod without a designated allocation; `special` nodes are evaluated alone."""
        rows = self._columns.of(nodes)
        merged, mismatch = _numa(pod, rows)
        implied = rows.number("bind_policy")
        bind = np.full(len(nodes), pod.bind)
        broken = np.zeros(len(nodes), np.bool_)
        if not pod.bind and pod.milli_cpu:
            bind = implied > 0
            if pod.milli_cpu % 1000:
                broken = bind
        required = np.where(implied > 0, implied, _position(pod.required_policy))
        conflict = (required != _position(pod.required_policy)) & bool(pod.required_policy)
        is_valid = rows.flag("is_valid")
        cores = np.maximum(rows.number("cpus_per_core"), 1)
        whole = required == _REQUIRED.index(policies.FULL_PCPUS)
        ratio = rows.ratio("node_ratio")
        amplified = (ratio > 1) & (pod.milli_cpu > 0)
        scarce = amplified & self._lacks_cpu(pod, nodes, rows, bind)
        checks = (
            mismatch,
            broken,
            ~rows.flag("has_readable_ratios") & (pod.milli_cpu > 0),
            amplified & rows.flag("has_topology") & ~is_valid,
            scarce,
            bind & ~is_valid,
            bind & conflict,
            bind & whole & (pod.num_cpus % cores != 0),
            bind & (merged == _NONE) & _too_few(pod, rows, required),
        )
        keys = np.select(checks, (1, 2, 3, 4, 5, 4, 6, 7, 8), 0).astype(np.int64)
        undecided = (keys == 0) & (merged != _NONE) & (merged != _BEST_EFFORT)
        alone = ~rows.flag("exact") | undecided
        if special:
            alone |= np.array([name in special for name in nodes.names], np.bool_)
        return Filtered(keys, alone)

    def _lacks_cpu(self, pod: PodState, nodes: NodeSet, rows: CPURows, bind: Bool) -> Bool:
        ratio = rows.ratio("node_ratio")
        wanted = np.where(bind, np.ceil(pod.milli_cpu * ratio).astype(np.int64), pod.milli_cpu)
        held = 1000 * rows.number("allocated").astype(np.int64)
        requested, allocatable = _column(nodes, CPU)
        counts = (requested >= held) & (held > 0)
        more = np.where(counts, np.ceil(held * ratio).astype(np.int64) - held, 0)
        lacks: Bool = wanted > allocatable - requested - more
        return lacks

    def score(self, pod: PodState, nodes: NodeSet, scorer: Scorer) -> tuple[Int64, Bool]:
        """Return (n,) scores, and which nodes must be scored by themselves instead."""
        rows = self._columns.of(nodes)
        merged, _ = _numa(pod, rows)
        implied = rows.number("bind_policy") > 0
        alone = ~rows.flag("exact") | ~rows.flag("has_readable_ratios") | (merged != _NONE)
        if pod.milli_cpu:
            alone |= rows.ratio("ratio") > 1
            if pod.bind:
                alone |= ~rows.flag("is_valid")
            else:
                alone |= implied & (~rows.flag("is_valid") | (pod.milli_cpu % 1000 != 0))
        return _scores(scorer, nodes, pod), alone


def _scores(scorer: Scorer, nodes: NodeSet, pod: PodState) -> Int64:
    """(n,) what `Scorer.score` gives for what is requested of whole nodes."""
    wanted = amounts_of(pod.requests)
    total, weights = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    for name, weight in scorer.weights.items():
        if not scorer.counts(name, wanted(name)):
            continue
        requested, capacity = _column(nodes, name)
        used = requested + wanted(name)
        there = np.where(capacity == 0, 1, capacity)
        part = np.minimum(used, capacity) if scorer.prefers_most else np.maximum(capacity - used, 0)
        total += np.where(capacity == 0, 0, weight * (part * MAX_NODE_SCORE // there))
        weights += np.where(capacity == 0, 0, weight)
    scores: Int64 = np.where(weights == 0, 0, total // np.maximum(weights, 1))
    return scores


def _column(nodes: NodeSet, name: str) -> tuple[Int64, Int64]:
    """(n,) what pods request of a resource, and what nodes have."""
    at = nodes.table.resources.get(name)
    if at is None:
        nothing = np.zeros(len(nodes), np.int64)
        return nothing, nothing
    return nodes.requested(at), nodes.table.allocatable[nodes.rows, at]


def _numa(pod: PodState, rows: CPURows) -> tuple[Int64, Bool]:
    """(n,) the position of the NUMA policy that holds, -1 for an unknown one, and whether policies differ."""
    of_node = rows.number("numa_policy").astype(np.int64)
    if not pod.numa_policy:
        return of_node, np.zeros(len(of_node), np.bool_)
    of_pod = NUMA_POLICIES.index(pod.numa_policy) if pod.numa_policy in NUMA_POLICIES else -1
    mismatch = (of_node != _NONE) & (of_node != of_pod)
    return np.where(mismatch, _NONE, of_pod), mismatch


def _position(policy: str) -> int:
    """Return the position of a required bind policy: that of the policy of nodes with the same effect."""
    return _REQUIRED.index(policy) if policy in _REQUIRED else len(_REQUIRED)


def _too_few(pod: PodState, rows: CPURows, required: Int64) -> Bool:
    """(n,) whether fewer CPUs are free than a required bind policy needs; false without one."""
    by_policy: Mapping[str, str] = {
        policies.FULL_PCPUS: "free_whole",
        policies.SPREAD_BY_PCPUS: "free_cores",
    }
    few = np.zeros(len(required), np.bool_)
    for policy, count in by_policy.items():
        free = rows.count(count).sum(axis=1)
        few |= (required == _REQUIRED.index(policy)) & (free < pod.num_cpus)
    return few
