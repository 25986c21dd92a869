"""Nodes with devices that are alike to a pod: what is found out about one of them holds for all."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from koordpy.api.core import Pod
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
from ..state.columns import DeviceColumns
from . import hints
from .placing import DevicePlacing
from .prepared import Prepared

_CACHE_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 800
_MOST_HINTS: Final = 1024


@dataclass(slots=True)
class _Alike:
    """What is known of alike nodes: their hints, and whether NUMA nodes can give the devices, by mask."""

    hints: NUMATopologyHints | None = None
    checks: dict[int, Status] = field(default_factory=dict)


class NodeGroups:
    """Groups nodes by their devices; remembers what was found out, for later pods with the same requests."""

    def __init__(self, columns: DeviceColumns, placing: DevicePlacing) -> None:
        self._columns, self._placing = columns, placing
        self._known: BoundedCache[bytes, _Alike] = BoundedCache(
            "devices_alike", _CACHE_BYTES, lambda _: _Alike(), lambda key, _: _ENTRY_BYTES + len(key)
        )
        self._hints: dict[Hashable, NUMATopologyHints] = {}

    def hints(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet, special: Bool
    ) -> NUMAHintGroups | None:
        """Return hints by group; `special` nodes (n,) have none. None if no nodes are known to be alike."""
        found = self._group(prepared, nodes, special)
        if found is None:
            return None
        numbers, alike, first = found

        def check(at: Int64, masks: Int64) -> tuple[Int64, list[Status]]:
            groups, some = group((numbers[at], masks), len(at))
            return groups, [
                self._check(alike[number], state, prepared, pod, NodeInfo(nodes, first[number]), mask)
                for number, mask in zip(numbers[at[some]].tolist(), masks[some].tolist(), strict=True)
            ]

        of_groups = [
            each.hints or self._hints_of(each, state, prepared, pod, NodeInfo(nodes, at))
            for each, at in zip(alike, first, strict=True)
        ]
        return NUMAHintGroups(numbers, of_groups, check)

    def checks(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet, special: Bool
    ) -> tuple[Int64, list[Status]] | None:
        """Return (n,) the groups, -1 of `special` nodes, and by group whether nodes can give the devices."""
        found = self._group(prepared, nodes, special)
        if found is None:
            return None
        numbers, alike, first = found
        return numbers, [
            self._check(each, state, prepared, pod, NodeInfo(nodes, at), ANY)
            for each, at in zip(alike, first, strict=True)
        ]

    def _group(
        self, prepared: Prepared, nodes: NodeSet, special: Bool
    ) -> tuple[Int64, list[_Alike], list[int]] | None:
        """Return (n,) the group of each node, what is known of each group, and the first node of each."""
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
        rows = np.stack([column[firsts] for column in columns], axis=1).astype(np.int64)
        whole, size = rows.tobytes(), rows.shape[1] * rows.itemsize
        get, wanted = self._known.get, repr(asks).encode()
        alike = [get(wanted + whole[at * size : at * size + size]) for at in range(len(firsts))]
        return numbers, alike, firsts.tolist()

    def _hints_of(
        self, alike: _Alike, state: CycleState, prepared: Prepared, pod: Pod, node: NodeInfo
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
        self, alike: _Alike, state: CycleState, prepared: Prepared, pod: Pod, node: NodeInfo, mask: int
    ) -> Status:
        known = alike.checks.get(mask)
        if known is None:
            if alike.hints is not None and _offers(alike.hints, mask):
                known = SUCCESS
            else:
                within = None if mask == ANY else mask
                known = self._placing.check(state, prepared, pod, node.node, within)
            alike.checks[mask] = known
        return known


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
