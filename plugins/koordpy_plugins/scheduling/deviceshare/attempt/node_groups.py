"""Nodes with devices that are alike to a pod: what is found out about one of them holds for all.

On nodes with reservations for the pod, these must be alike too.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reservation_annotations import is_ignored_by
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.bounded_cache import BoundedCache
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface import NUMAHintGroups, NUMATopologyHints
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY

from ..allocation.arrays import visible_columns
from ..allocation.requests import GPURequirements, Requests
from ..reservations.contents import digest_of
from ..reservations.restored import RestoredNode
from ..state.columns import DeviceColumns
from ..state.ledger import DeviceLedger
from . import hints
from .placing import DevicePlacing
from .prepared import Prepared

T = TypeVar("T")

_CACHE_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 2000
_MOST_ANSWERS: Final = 16
"""About alike nodes; when there are more, the others are forgotten."""
_MOST_HINTS: Final = 1024


@dataclass(slots=True)
class Alike:
    """What is known of alike nodes: their hints, and answers by what was asked.

    Of nodes with reservations hints do not say whether NUMA nodes can give the devices: see `hints`.
    """

    reserved: bool = False
    hints: NUMATopologyHints | None = None
    answers: dict[Hashable, Any] = field(default_factory=dict)

    def known(self, asked: Hashable, find: Callable[[], T]) -> T:
        """Return an answer, that of `find` if it is not known."""
        answer: T | None = self.answers.get(asked)
        if answer is None:
            if len(self.answers) >= _MOST_ANSWERS:
                self.answers.clear()
            answer = self.answers[asked] = find()
        return answer


@dataclass(frozen=True, slots=True)
class Groups:
    """(n,) the group of each node, -1 for a node of which nothing is known, and by group its first node."""

    numbers: Int64
    alike: Sequence[Alike]
    first: Sequence[int]

    def of(self, index: int) -> Alike | None:
        """Return what is known of the group of a node."""
        number = int(self.numbers[index])
        return None if number < 0 else self.alike[number]


class NodeGroups:
    """Groups nodes by their devices; remembers what was found out, for later pods with the same requests."""

    def __init__(self, columns: DeviceColumns, ledger: DeviceLedger, placing: DevicePlacing) -> None:
        self._columns, self._ledger, self._placing = columns, ledger, placing
        self._known: BoundedCache[tuple[bool, bytes], Alike] = BoundedCache(
            "devices_alike",
            _CACHE_BYTES,
            lambda key: Alike(reserved=key[0]),
            lambda key, _: _ENTRY_BYTES + len(key[1]),
        )
        self._hints: dict[Hashable, NUMATopologyHints] = {}

    def plain(self, prepared: Prepared, nodes: NodeSet, special: Bool) -> Groups | None:
        """Group nodes but `special` ones (n,); None if no nodes are known to be alike."""
        asks = _key_of(prepared.requests)
        states, which = self._columns.states(nodes)
        found = visible_columns(self._columns, states, prepared.requests)
        if asks is None or found is None or prepared.designated is not None:
            return None
        columns = [column[which] for column in found[0]]
        here = np.flatnonzero(~(found[1][which] | special))
        numbers = np.full(len(nodes), -1)
        groups, first = group([column[here] for column in columns], len(here))
        numbers[here] = groups
        firsts = here[first]
        get, wanted = self._known.get, repr(asks).encode()
        alike = [get((False, wanted + seen)) for seen in _rows([column[firsts] for column in columns])]
        return Groups(numbers, alike, firsts.tolist())

    def reserved(
        self, prepared: Prepared, pod: Pod, nodes: NodeSet, restored: Mapping[int, RestoredNode]
    ) -> Groups:
        """Group nodes by index with what their reservations hold; no other node is in a group."""
        asks = _key_of(prepared.requests)
        numbers = np.full(len(nodes), -1)
        at = list(restored)
        some = nodes.pick(np.array(at, np.int64))
        states, which = self._columns.states(some)
        found = visible_columns(self._columns, states, prepared.requests)
        if asks is None or found is None or prepared.designated is not None:
            return Groups(numbers, [], [])
        # What pods see of devices may be equal before reservations give back a part of them, and not after.
        digests = [
            b"" if unknown else seen + self._columns.digest(state)
            for state, unknown, seen in zip(states.tolist(), found[1].tolist(), _rows(found[0]), strict=True)
        ]
        of_pod = prepared.reservation_required, is_ignored_by(pod), is_reserve_pod(pod)
        wanted = repr((asks, of_pod)).encode()
        places: dict[bytes, int] = {}
        first: list[int] = []
        for index, name, state in zip(at, some.names, which.tolist(), strict=True):
            devices, digest = self._ledger.node(name), digests[state]
            if devices is None or not digest:
                continue
            key = digest + digest_of(restored[index], devices, self._ledger.version(name))
            place = places.setdefault(key, len(places))
            if place == len(first):
                first.append(index)
            numbers[index] = place
        return Groups(numbers, [self._known.get((True, wanted + key)) for key in places], first)

    def hints(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet, groups: Groups
    ) -> NUMAHintGroups:
        """Return hints by group."""

        def check(at: Int64, masks: Int64) -> tuple[Int64, list[Status]]:
            kinds, some = group((groups.numbers[at], masks), len(at))
            return kinds, [
                self._check(groups, number, state, prepared, pod, nodes, mask)
                for number, mask in zip(groups.numbers[at[some]].tolist(), masks[some].tolist(), strict=True)
            ]

        of_groups = [
            each.hints or self._hints_of(each, state, prepared, pod, NodeInfo(nodes, at))
            for each, at in zip(groups.alike, groups.first, strict=True)
        ]
        return NUMAHintGroups(groups.numbers, of_groups, check)

    def checks(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet, groups: Groups
    ) -> list[Status]:
        """Return by group whether nodes can give the devices."""
        return [
            self._check(groups, number, state, prepared, pod, nodes, ANY)
            for number in range(len(groups.first))
        ]

    def _hints_of(
        self, alike: Alike, state: CycleState, prepared: Prepared, pod: Pod, node: NodeInfo
    ) -> NUMATopologyHints:
        found = hints.of_node(self._placing.attempt(state, prepared, pod, node.node), prepared)
        alike.hints = self._shared(found)
        return alike.hints

    def _shared(self, found: NUMATopologyHints) -> NUMATopologyHints:
        """Return the same object for equal hints."""
        of_types, status = found
        key = (tuple((type_, tuple(each or ())) for type_, each in of_types.items()), status.reasons)
        if len(self._hints) >= _MOST_HINTS:
            self._hints.clear()
        return self._hints.setdefault(key, found)

    def _check(
        self,
        groups: Groups,
        number: int,
        state: CycleState,
        prepared: Prepared,
        pod: Pod,
        nodes: NodeSet,
        mask: int,
    ) -> Status:
        alike, within = groups.alike[number], None if mask == ANY else mask
        if alike.hints is not None and not alike.reserved and _offers(alike.hints, mask):
            return SUCCESS
        node = NodeInfo(nodes, groups.first[number])
        return alike.known(mask, lambda: self._placing.check(state, prepared, pod, node.node, within))


def _rows(columns: Sequence[Int64]) -> list[bytes]:
    """Return the rows of columns (n,)."""
    rows = np.stack(columns, axis=1).astype(np.int64)
    whole, size = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [whole[begin : begin + size] for begin in range(0, len(whole), size)]


def _offers(found: NUMATopologyHints, mask: int) -> bool:
    """Return whether there is a hint with a mask: then its devices have been found."""
    return any(hint.affinity == mask for each in found[0].values() for hint in each or ())


def _key_of(requests: Requests) -> Hashable | None:
    """Return what is equal for equal requests, None for those with a recorded allocation.

    What selectors select is among the columns of alike nodes.
    """
    if requests.designated_functions:
        return None
    of_hints = (
        (
            type_,
            hint.strategy,
            hint.exclusive_policy,
            hint.required_topology_scope,
            hint.selector is not None,
            hint.vf_selector is not None,
        )
        for type_, hint in requests.hints.items()
    )
    joint = None if requests.joint is None else (requests.joint.types, requests.joint.required_scope)
    return (
        tuple((type_, _amounts(each)) for type_, each in requests.amounts.items()),
        None if requests.gpu is None else _gpus(requests.gpu),
        tuple(sorted(of_hints)),
        joint,
    )


def _gpus(wanted: GPURequirements) -> Hashable:
    return (
        _amounts(wanted.per_gpu),
        wanted.count,
        wanted.shared,
        wanted.honors_partitions,
        wanted.restricted,
        None if wanted.bandwidth is None else wanted.bandwidth.nano_value(),
        wanted.required_scope,
        wanted.enforces_templates,
        tuple(sorted((key, tuple(names)) for key, names in wanted.templates.items())),
    )


def _amounts(amounts: Mapping[str, object]) -> Hashable:
    return tuple(sorted((name, str(amount)) for name, amount in amounts.items()))
