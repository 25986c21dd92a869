"""Filter and Score of all nodes at once: by arrays where these are exact, of alike nodes, or one by one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import NUMAHintGroups, NUMATopologyHints
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE

from ..allocation.arrays import feasible, scores
from ..reservations.restored import RESTORED, RestoredNode
from ..scoring import Scorer
from ..state.columns import DeviceColumns
from ..state.layout import numa_nodes
from ..state.ledger import DeviceLedger
from .hint_arrays import hint_groups
from .node_groups import NodeGroups
from .placing import DevicePlacing
from .prepared import Prepared

T = TypeVar("T")

OfPair = Callable[[CycleState, Pod, ReservationInfo, str], T]
"""Returns an answer about a pod with a reservation on a node, by its name."""

_FEW_NUMA_NODES: Final = 3
"""A node with devices on so many NUMA nodes is faster evaluated by itself."""


@dataclass(frozen=True, slots=True)
class _Special:
    """Nodes of which arrays do not know what is free.

    `alone` (n,) are those of which pods were removed, or that a Reservation takes over; `reserved` by
    position those with other reservations that matter, and `which` (n,) all of both.
    """

    alone: Bool
    reserved: Mapping[int, RestoredNode]

    @property
    def which(self) -> Bool:
        found = self.alone.copy()
        found[list(self.reserved)] = True
        return found


class AllNodes:
    """Asks the arrays first; `placing` knows which labels of nodes refuse shares of GPUs."""

    def __init__(
        self,
        handle: Handle,
        columns: DeviceColumns,
        ledger: DeviceLedger,
        scorer: Scorer,
        placing: DevicePlacing,
    ) -> None:
        self._handle, self._columns, self._scorer, self._placing = handle, columns, scorer, placing
        self._groups = NodeGroups(columns, ledger, placing)

    def filter(
        self,
        state: CycleState,
        prepared: Prepared,
        pod: Pod,
        nodes: NodeSet,
        one: Callable[[NodeInfo], Status],
    ) -> Verdict:
        """Return the answers of `one` for all nodes."""
        keys, statuses, special = self._answers(state, prepared, pod, nodes)
        if self._placing.labels_decide(prepared, pod):
            special |= self._refuse_labels(pod, nodes, keys, statuses)
        for index in np.flatnonzero(special).tolist():
            keys[index] = len(statuses)
            statuses.append(one(NodeInfo(nodes, index)))
        codes = np.array([status.code for status in statuses], np.int8)[keys]
        return Verdict.keyed(codes, keys, [status.reasons for status in statuses])

    def _answers(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet
    ) -> tuple[Int64, list[Status], Bool]:
        """Return (n,) indexes into statuses, of which the first is Success, and which nodes are not known.

        Labels of nodes are left aside. Where NUMA nodes were chosen, the devices were found then.
        """
        chosen, _ = _affinities(state, nodes)
        keys, statuses, special = np.zeros(len(nodes), np.int64), [SUCCESS], ~chosen
        rest = np.flatnonzero(special)
        if len(rest) and prepared.designated is None:
            found = self._searched(state, prepared, pod, nodes.by_row().pick(rest))
            if found is not None:
                keys[rest], statuses, special[rest] = found
        return keys, statuses, special

    def _searched(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet
    ) -> tuple[Int64, list[Status], Bool] | None:
        """Return the same for nodes whose devices have not been found; None if no node is known."""
        special = self._special(state, prepared, nodes)
        answers = feasible(self._columns, nodes, prepared.requests)
        if answers is not None:
            keys, statuses = answers.keys.astype(np.int64), list(answers.statuses)
            unknown = special.which | answers.unknown
        else:
            groups = self._groups.plain(prepared, nodes, special.which)
            if groups is None:
                return None
            keys, statuses = groups.numbers + 1, [SUCCESS]
            statuses += self._groups.checks(state, prepared, pod, nodes, groups)
            unknown = groups.numbers < 0
        if special.reserved:
            reserved = self._groups.reserved(prepared, pod, nodes, special.reserved)
            here = reserved.numbers >= 0
            keys[here], unknown[here] = reserved.numbers[here] + len(statuses), False
            statuses += self._groups.checks(state, prepared, pod, nodes, reserved)
        return keys, statuses, unknown

    def hints(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> NUMAHintGroups | None:
        """Return NUMA hints for nodes with the same devices."""
        if prepared.designated is not None:
            return None
        special = self._special(state, prepared, nodes)
        found = hint_groups(self._columns, nodes, prepared.requests, special.which)
        if found is None:
            groups = self._groups.plain(prepared, nodes, special.which)
            if groups is None:
                return None
            found = self._groups.hints(state, prepared, pod, nodes, groups)
        if not special.reserved:
            return found
        reserved = self._groups.reserved(prepared, pod, nodes, special.reserved)
        return found.with_others(self._groups.hints(state, prepared, pod, nodes, reserved))

    def hints_of_one(self, state: CycleState, prepared: Prepared, node: NodeInfo) -> NUMATopologyHints | None:
        """Return the hints of a node on which the attempt sees what is allocated.

        None if arrays cannot tell, or take longer because its devices are on few NUMA nodes.
        """
        alone = node.alone().nodes
        states, _ = self._columns.states(alone)
        layout = int(self._columns.layout_id.values[states[0]])
        if prepared.designated is not None or prepared.reservation_required or layout < 0:
            return None
        if self._special(state, prepared, alone).which.any():
            return None
        if len(numa_nodes(self._columns.layouts.value_of(layout))) <= _FEW_NUMA_NODES:
            return None
        groups = hint_groups(self._columns, alone, prepared.requests, np.zeros(1, np.bool_))
        number = -1 if groups is None else int(groups.numbers[0])
        return None if groups is None or number < 0 else groups.hints[number]

    def score(
        self,
        state: CycleState,
        prepared: Prepared,
        pod: Pod,
        nodes: NodeSet,
        one: Callable[[NodeInfo], int],
    ) -> Int64:
        """Return the scores of `one` for all nodes, not normalised."""
        found = None
        _, masks = _affinities(state, nodes)
        if prepared.designated is None:
            found = scores(self._columns, nodes, prepared.requests, self._scorer, masks)
        if found is None:
            return np.array([one(NodeInfo(nodes, index)) for index in range(len(nodes))], np.int64)
        values, unknown = found
        special = self._special(state, prepared, nodes)
        unknown = unknown | special.which
        result = values.copy()
        nominated = self._handle.reservations.nominated_among(pod, state, nodes)
        unknown[list(nominated)] = True
        if special.reserved:
            groups = self._groups.reserved(prepared, pod, nodes, special.reserved)
            for index, restored in special.reserved.items():
                alike = groups.of(index)
                if alike is not None:
                    info = nominated.get(index)
                    asked = "Score", None if info is None else restored.place_of(info.uid), int(masks[index])
                    result[index] = alike.known(asked, partial(one, NodeInfo(nodes, index)))
                    unknown[index] = False
        for index in np.flatnonzero(unknown).tolist():
            result[index] = one(NodeInfo(nodes, index))
        return result

    def of_pairs(
        self, state: CycleState, prepared: Prepared, point: str, pairs: ReservationPairs, one: OfPair[T]
    ) -> list[T]:
        """Return the answers (k,) of `one` for pairs; on alike nodes it is asked once at each `point`."""
        at, position = np.unique(pairs.at, return_inverse=True)
        nodes = pairs.nodes.pick(at)
        special = self._special(state, prepared, nodes)
        reserved = special.reserved if prepared.designated is None else {}
        groups = self._groups.reserved(prepared, pairs.pods[0], nodes, reserved) if reserved else None
        _, masks = _affinities(state, nodes)
        found = []
        for index, (pod, info, node) in zip(position.tolist(), pairs, strict=True):
            ask = partial(one, state, pod, info, node.name)
            alike = None if groups is None else groups.of(index)
            if alike is None:
                found.append(ask())
            else:
                asked = point, reserved[index].place_of(info.uid), int(masks[index])
                found.append(alike.known(asked, ask))
        return found

    def _refuse_labels(self, pod: Pod, nodes: NodeSet, keys: Int64, statuses: list[Status]) -> Bool:
        """Refuse nodes by their labels, whatever else is said; return those of unknown labels (n,)."""
        states, which = self._columns.states(nodes)
        sharing = self._columns.sharing_id.values[states][which]
        for number in np.unique(sharing[sharing >= 0]).tolist():
            refusal = self._placing.refuses_labels(pod, self._columns.sharing.value_of(number))
            if refusal is not None:
                keys[sharing == number] = len(statuses)
                statuses.append(refusal)
        unknown: Bool = sharing < 0
        return unknown

    @staticmethod
    def _special(state: CycleState, prepared: Prepared, nodes: NodeSet) -> _Special:
        """Return the nodes on which reservations matter, or with removed pods."""
        restored = state.read(RESTORED)
        found = {} if restored is None else restored.special(nodes)
        removed = nodes.positions_of(prepared.preemptible.keys() | prepared.preemptible_in.keys())
        alone = np.zeros(len(nodes), np.bool_)
        alone[list(removed)] = True
        reserved = {}
        for at, of_node in found.items():
            if of_node.pre_allocation is not None:
                alone[at] = True
            elif at not in removed:
                reserved[at] = of_node
        return _Special(alone, reserved)


def _affinities(state: CycleState, nodes: NodeSet) -> tuple[Bool, Int64]:
    """Return (n,) for which nodes NUMA nodes were chosen, and their masks, `ANY` for none in particular."""
    store = state.read(AFFINITY_STORE)
    if store is None:
        return np.zeros(len(nodes), np.bool_), np.full(len(nodes), ANY)
    return store.masks(nodes)
