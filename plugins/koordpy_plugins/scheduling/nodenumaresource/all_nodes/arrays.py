"""Filter and Score of all nodes at once, where arrays give exactly what evaluating a node by itself does.

Some nodes are evaluated one by one, such as those of which preemption has removed pods (`special`), and those
with a NUMA policy where other plugins have hints for one node only. `numa_policies` finds the NUMA nodes
where a policy holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from koordpy.api.extension import CPU
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

from ..attempt.node_policies import POLICY_MISMATCH
from ..attempt.pod_state import NOT_WHOLE_CPUS, PodState
from ..cpus import policies
from ..cpus.accumulator import NOT_ENOUGH
from ..filter import INSUFFICIENT_CPU, INVALID_RATIO, NOT_ALIGNED, POLICY_CONFLICT
from ..hints import Hints
from ..scorer import Scorer, amounts_of
from ..state.columns import LARGEST, NUMA_POLICIES, CPUColumns, CPURows
from ..state.ledger import CPULedger
from ..topology.cpu_topology import INVALID_TOPOLOGY
from .numa_policies import AskOthers, Demands, NUMAArrays
from .offers import Offers, ReservationOffers
from .other_hints import Statuses, key_of
from .scores import of_nodes, scores
from .special import Special
from .zone_arrays import REQUIRED, amplified

REFUSALS: Final = (
    SUCCESS,
    Status.unresolvable(POLICY_MISMATCH),
    Status.unresolvable(NOT_WHOLE_CPUS),
    Status.unresolvable(INVALID_RATIO),
    Status.unresolvable(INVALID_TOPOLOGY),
    Status.unschedulable(INSUFFICIENT_CPU),
    Status.unresolvable(POLICY_CONFLICT),
    Status.unresolvable(NOT_ALIGNED),
    Status.unschedulable(NOT_ENOUGH),
)
"""Statuses by key."""
_NONE: Final = 0
_FEW_ZONES: Final = 3
"""A node with so many NUMA nodes is faster evaluated by itself."""
_BEST_EFFORT: Final = NUMA_POLICIES.index("BestEffort")


@dataclass(frozen=True, slots=True)
class Filtered:
    """(n,) the keys of `statuses`, and which nodes must be evaluated by themselves instead."""

    keys: Int64
    statuses: Statuses
    alone: Bool

    def verdict(self, one: Callable[[int], Status]) -> Verdict:
        """Return the verdict; `one` evaluates the node at an index by itself."""
        keys = self.keys
        for at in np.flatnonzero(self.alone).tolist():
            keys[at] = key_of(one(at), self.statuses)
        codes = np.array([status.code for status in self.statuses], np.int8)[keys]
        return Verdict.keyed(codes, keys, [status.reasons for status in self.statuses])


class Arrays:
    """The array forms, over the columns of CPUs. `hint_scorer` scores hints, `scorer` nodes."""

    def __init__(self, columns: CPUColumns, ledger: CPULedger, hint_scorer: Scorer, scorer: Scorer) -> None:
        self._columns, self._scorer = columns, scorer
        self._offers = ReservationOffers(ledger)
        self._numa = NUMAArrays(columns, hint_scorer, scorer)

    def filter(
        self,
        state: CycleState,
        pod: PodState,
        nodes: NodeSet,
        special: Special,
        ask: AskOthers,
    ) -> Filtered:
        """Filter nodes for a pod without a designated allocation."""
        if pod.milli_cpu > LARGEST:
            return Filtered(np.zeros(len(nodes), np.int64), {SUCCESS: 0}, np.ones(len(nodes), np.bool_))
        rows, unknown = special.lend(self._columns.of(nodes))
        merged, mismatch = _numa(pod, rows)
        bind, required, broken = _binds(pod, rows)
        unreadable, irregular, invalid, conflict, unaligned = _obstacles(pod, rows, bind, required)
        wants_cpus = bind & (merged == _NONE)
        few = wants_cpus & _too_few(pod, rows, required)
        alone = ~rows.flag("exact") | unknown | special.alone
        offers, missing = self._offers_of(pod, nodes, rows, required, special)
        alone |= missing
        if len(offers):
            enough = ~_too_few(pod, offers.rows, required[offers.at][offers.node_of_form])
            few[offers.at] = wants_cpus[offers.at] & ~offers.any(enough)
            alone |= few & pod.needs_reservation  # each reservation says why
        scarce = (
            (rows.ratio("node_ratio") > 1) & (pod.milli_cpu > 0) & self._lacks_cpu(pod, nodes, rows, bind)
        )
        checks = (
            mismatch, broken, unreadable, irregular, scarce, invalid, conflict, unaligned,
            few,
        )  # fmt: skip
        keys = np.select(checks, (1, 2, 3, 4, 5, 4, 6, 7, 8), 0).astype(np.int64)
        undecided = (keys == 0) & (merged != _NONE) & (merged != _BEST_EFFORT)
        alone |= undecided & ~_is_readable(rows, required, merged)
        statuses = {status: key for key, status in enumerate(REFUSALS)}
        here = np.flatnonzero(undecided & ~alone)
        if len(here):
            demands = Demands(merged[here], bind[here], required[here])
            admitted = self._numa.filter(
                state,
                pod,
                _pick(nodes, here),
                rows.pick(here),
                demands,
                ask,
                offers.among(here, len(nodes)),
            )
            alone[here] = admitted.alone
            keys[here] = np.array([key_of(status, statuses) for status in admitted.statuses])[admitted.keys]
        return Filtered(keys, statuses, alone)

    def _offers_of(
        self, pod: PodState, nodes: NodeSet, rows: CPURows, required: Int64, special: Special
    ) -> tuple[Offers, Bool]:
        table, of_nodes = nodes.table, special.offering.items()
        offering = {at: (table.name_of(int(nodes.rows[at])), reusable) for at, reusable in of_nodes}
        return self._offers.of(offering, rows, required, with_node=not pod.needs_reservation)

    def hints(self, pod: PodState, node: NodeSet) -> Hints | None:
        """Return what `hints.topology_hints` returns for a node on which the attempt sees what is allocated.

        None if arrays cannot tell, or take longer because it has few NUMA nodes.
        """
        rows = self._columns.of(node)
        if int(rows.number("zones")[0]).bit_count() <= _FEW_ZONES or pod.milli_cpu > LARGEST:
            return None
        merged, mismatch = _numa(pod, rows)
        bind, required, broken = _binds(pod, rows)
        is_open = rows.flag("exact") & _is_readable(rows, required, merged)
        for obstacle in (mismatch, broken, *_obstacles(pod, rows, bind, required)):
            is_open &= ~obstacle
        return self._numa.hints(pod, node, Demands(merged, bind, required)) if is_open[0] else None

    def _lacks_cpu(self, pod: PodState, nodes: NodeSet, rows: CPURows, bind: Bool) -> Bool:
        ratio = rows.ratio("node_ratio")
        wanted = np.where(bind, np.ceil(pod.milli_cpu * ratio).astype(np.int64), pod.milli_cpu)
        held = 1000 * rows.number("allocated").astype(np.int64)
        requested, allocatable = of_nodes(nodes, CPU)
        counts = (requested >= held) & (held > 0)
        more = np.where(counts, np.ceil(held * ratio).astype(np.int64) - held, 0)
        lacks: Bool = wanted > allocatable - requested - more
        return lacks

    def accepts(self, state: CycleState, pod: PodState, pairs: ReservationPairs, special: Special) -> Bool:
        """(k,) which pairs of the pod with a reservation are accepted in the affinities of their nodes.

        The others must be evaluated by themselves, be it for the reason to refuse them.
        """
        at, which = np.unique(pairs.at, return_inverse=True)
        nodes = pairs.nodes.pick(at)
        if pod.milli_cpu > LARGEST:
            return np.zeros(len(pairs), np.bool_)
        rows = self._columns.of(nodes)
        merged, _ = _numa(pod, rows)
        bind, required, broken = _binds(pod, rows)
        offers, missing = self._offers_of(pod, nodes, rows, required, special)
        is_open = rows.flag("exact") & _is_readable(rows, required, merged) & ~broken
        is_open &= ~(missing | special.alone | (bind & ~rows.flag("is_valid")))
        position = np.full(len(nodes), -1)
        position[offers.at] = np.arange(len(offers))
        uids = [info.uid for info in pairs.reservations]
        places = np.array(
            [offers.place(node, uid) for node, uid in zip(position[which].tolist(), uids, strict=True)],
            np.int64,
        )
        accepted: Bool = is_open[which]
        # A reservation that has no offer holds none of what the plugin allocates.
        asked = np.flatnonzero(accepted & (places >= 0))
        if len(asked):
            demands = Demands(merged, bind, required)
            accepted[asked] = self._serve(state, pod, nodes, offers, demands, which[asked], places[asked])
        return accepted

    def _serve(
        self,
        state: CycleState,
        pod: PodState,
        nodes: NodeSet,
        offers: Offers,
        demands: Demands,
        at: Int64,
        places: Int64,
    ) -> Bool:
        """(k,) whether offers, at places (k,), serve the pod in all their forms; they are of nodes `at`."""
        first, last = offers.first_forms[places], offers.last_forms[places]
        found = self._numa.serves(state, pod, nodes.pick(at), offers.rows.pick(first), demands.pick(at))
        others = np.flatnonzero(found & (first != last))
        if len(others):
            rows = offers.rows.pick(last[others])
            chosen = at[others]
            found[others] = self._numa.serves(state, pod, nodes.pick(chosen), rows, demands.pick(chosen))
        return found

    def score(
        self,
        state: CycleState,
        pod: PodState,
        nodes: NodeSet,
        special: Special,
        nominated: Mapping[int, ReservationInfo],
    ) -> tuple[Int64, Bool]:
        """Return (n,) scores, and which nodes must be scored by themselves instead.

        Special nodes with a NUMA policy may be among these. `nominated` are the reservations that are
        nominated on nodes, by position.
        """
        if pod.milli_cpu > LARGEST:
            return np.zeros(len(nodes), np.int64), np.ones(len(nodes), np.bool_)
        rows, unknown = special.lend(self._columns.of(nodes))
        merged, _ = _numa(pod, rows)
        bind, required, broken = _binds(pod, rows)
        alone = (
            ~rows.flag("exact") | ~rows.flag("has_readable_ratios") | broken | (bind & ~rows.flag("is_valid"))
        )
        has_numa = merged != _NONE
        is_odd = (rows.ratio("ratio") > 1) & rows.flag("has_topology") & ~rows.flag("is_valid")
        alone |= ~has_numa & is_odd
        if not has_numa.any():
            return self._of_nodes(pod, nodes, bind), alone
        found = np.zeros(len(nodes), np.int64)
        here = np.flatnonzero(~has_numa)
        if len(here):
            found[here] = self._of_nodes(pod, _pick(nodes, here), bind[here])
        conflict = (required != _position(pod.required_policy)) & bool(pod.required_policy)
        cores = np.maximum(rows.number("cpus_per_core"), 1)
        is_part = np.int64(pod.num_cpus) % cores != 0
        unaligned = (required == REQUIRED.index(policies.FULL_PCPUS)) & is_part
        offers, missing = self._offers_of(pod, nodes, rows, required, special)
        alone |= has_numa & (~_is_readable(rows, required, merged) | conflict | (bind & unaligned))
        alone |= has_numa & (unknown | missing | special.alone)
        has_offers = np.zeros(len(nodes), np.bool_)
        has_offers[offers.at] = True
        # Of whole cores more CPUs than needed may be taken: how many are preferred ones depends on which.
        may_take_more = bind & is_part & (required == 0) & (pod.preferred_policy == policies.FULL_PCPUS)
        alone |= has_numa & has_offers & (may_take_more | pod.needs_reservation)
        for kind in (False, True):
            here = np.flatnonzero(has_numa & ~alone & (has_offers == kind))
            if not len(here):
                continue
            some, of_some = rows.pick(here), _pick(nodes, here)
            demands = Demands(merged[here], bind[here], required[here])
            serves = np.ones(len(here), np.bool_)
            if kind:
                infos = map(nominated.get, here.tolist())
                chosen = offers.among(here, len(nodes))
                places = chosen.chosen([None if info is None else info.uid for info in infos])
                some = chosen.rows.pick(chosen.last_forms[places])
                if len(chosen.offer) != len(chosen.node):
                    serves = self._serve(state, pod, of_some, chosen, demands, np.arange(len(here)), places)
            scored, alone[here] = self._numa.score(state, pod, of_some, some, demands)
            found[here] = np.where(serves, scored, 0)
        return found, alone

    def _of_nodes(self, pod: PodState, nodes: NodeSet, bind: Bool) -> Int64:
        """(n,) scores by what is requested of whole nodes; CPUs that pods have count amplified."""
        rows = self._columns.of(nodes)
        ratio = rows.ratio("ratio")
        held = 1000 * rows.number("allocated").astype(np.int64)
        more = amplified(held, ratio) - held if pod.milli_cpu else np.zeros(len(nodes), np.int64)
        wanted = amounts_of(pod.requests)

        def asked(name: str) -> Int64:
            amount = np.full(len(nodes), wanted(name))
            return np.where(bind, amplified(amount, ratio), amount) if name == CPU else amount

        def column(name: str) -> tuple[Int64, Int64]:
            requested, there = of_nodes(nodes, name)
            return (requested + more if name == CPU else requested), there

        return scores(self._scorer, len(nodes), column, asked)


def _binds(pod: PodState, rows: CPURows) -> tuple[Bool, Int64, Bool]:
    """(n,) whether the pod gets CPUs of its own, the required bind policy, and whether they are broken."""
    implied = rows.number("bind_policy").astype(np.int64)
    bind, broken = np.full(len(implied), pod.bind), np.zeros(len(implied), np.bool_)
    if not pod.bind and pod.milli_cpu:
        bind = implied > 0
        if pod.milli_cpu % 1000:
            broken = bind
    return bind, np.where(implied > 0, implied, _position(pod.required_policy)), broken


def _obstacles(pod: PodState, rows: CPURows, bind: Bool, required: Int64) -> tuple[Bool, ...]:
    """(n,) five reasons, by which nodes are refused in this order.

    Amplification ratios cannot be read; amplified CPUs are not known; CPUs that the pod is bound to are not
    known; the node requires another bind policy; the number of CPUs is no multiple of a core's.
    """
    is_valid = rows.flag("is_valid")
    is_amplified = (rows.ratio("node_ratio") > 1) & (pod.milli_cpu > 0)
    whole = required == REQUIRED.index(policies.FULL_PCPUS)
    cores = np.maximum(rows.number("cpus_per_core"), 1)
    conflict = (required != _position(pod.required_policy)) & bool(pod.required_policy)
    return (
        ~rows.flag("has_readable_ratios") & (pod.milli_cpu > 0),
        is_amplified & rows.flag("has_topology") & ~is_valid,
        bind & ~is_valid,
        bind & conflict,
        bind & whole & (np.int64(pod.num_cpus) % cores != 0),
    )


def _is_readable(rows: CPURows, required: Int64, merged: Int64) -> Bool:
    """(n,) whether arrays can tell what NUMA nodes give: CPUs are known if a bind policy is required."""
    known = ~rows.flag("has_topology") | rows.flag("is_valid") | (required == 0)
    found: Bool = known & (merged >= 0) & (required < len(REQUIRED)) & rows.flag("has_readable_ratios")
    return found


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
    return REQUIRED.index(policy) if policy in REQUIRED else len(REQUIRED)


def _too_few(pod: PodState, rows: CPURows, required: Int64) -> Bool:
    """(n,) whether fewer CPUs are free than a required bind policy needs; false without one."""
    by_policy: Mapping[str, str] = {
        policies.FULL_PCPUS: "all_free_whole",
        policies.SPREAD_BY_PCPUS: "all_free_cores",
    }
    few = np.zeros(len(required), np.bool_)
    for policy, count in by_policy.items():
        few |= (required == REQUIRED.index(policy)) & (rows.number(count) < pod.num_cpus)
    if rows.cpus is not None:
        few |= (required > 0) & (rows.cpus.most < pod.num_cpus)
    return few


def _pick(nodes: NodeSet, at: Int64) -> NodeSet:
    """Return the nodes at positions, ascending, whose names are looked up when they are needed."""
    by_row = nodes.by_row()
    return by_row if len(at) == len(nodes) else by_row.pick(at)
