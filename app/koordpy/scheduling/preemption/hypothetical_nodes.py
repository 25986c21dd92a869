"""Nodes as they would be without some of their pods and with others: for pods that are placed together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.scheduling.framework.plugin_call import Broken
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import WhatIf
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import PreFilterOutcome
from koordpy.scheduling.interface.status import SUCCESS, Status

_ALL = -1
"""The place of a state that is valid for all nodes at once."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pod, the state of its attempt, and what PreFilter said."""

    pod: Pod
    state: CycleState
    outcome: PreFilterOutcome


class Preparation(Protocol):
    """Begins the attempts of pods."""

    @property
    def framework(self) -> WhatIf:
        """The profile's framework."""
        ...

    def key(self, pod: Pod) -> bytes:
        """Return what pods have in common that get the same answers."""
        ...

    def prepared(self, pod: Pod) -> Prepared:
        """Return the attempt of the pods with the key of this one."""
        ...


class _Change(NamedTuple):
    """A pod that came to the node at an index (`sign` 1), or left it (-1)."""

    at: int
    pod: Pod
    sign: int


class HypotheticalNodes:
    """The nodes of a set, known by their indexes in it.

    Where a plugin considers the pods of several nodes at once, each node has its own states and is filtered
    by itself; otherwise one pass of the filters covers all nodes.
    """

    def __init__(self, preparation: Preparation, nodes: NodeSet) -> None:
        self._preparation = preparation
        self._sandbox = Sandbox(nodes)
        self._states: dict[tuple[bytes, int], tuple[Pod, CycleState]] = {}
        """The pod for which a state was made, and the state, by key of the member and index of the node."""
        self._changes: list[_Change] = []

    @property
    def nodes(self) -> NodeSet:
        """The nodes in their current state."""
        return self._sandbox.nodes

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes."""
        return self.nodes.names

    @property
    def indexes(self) -> range:
        """The indexes of all nodes."""
        return range(len(self.nodes))

    def key(self, pod: Pod) -> bytes:
        """Return what pods have in common that get the same answers."""
        return self._preparation.key(pod)

    def pods_on(self, index: int) -> list[Pod]:
        """Return the pods that are on a node now."""
        return list(self.nodes.pods_on(int(self.nodes.rows[index])))

    def fork(self, indexes: Sequence[int]) -> "HypotheticalNodes":
        """Return an independent copy of some nodes as they are now, in this order."""
        copy = HypotheticalNodes(self._preparation, self.nodes.pick(np.array(indexes, np.int64)))
        place = {index: position for position, index in enumerate(indexes)} | {_ALL: _ALL}
        for (key, index), (pod, state) in self._states.items():
            if index in place:
                copy._states[key, place[index]] = pod, state.clone()
        copy._changes = [
            change._replace(at=place[change.at]) for change in self._changes if change.at in place
        ]
        return copy

    # --- changes ---------------------------------------------------------------------------------

    def remove(self, index: int, pods: Sequence[Pod]) -> Status:
        """Remove pods from a node; the status is an Error if a plugin could not follow."""
        self._sandbox.take(index, pods)
        return self._follow(_Change(index, pod, -1) for pod in pods)

    def add(self, index: int, pod: Pod) -> Status:
        """Put a pod on a node, either one that was removed or a new one."""
        self._sandbox.put(index, pod)
        return self._follow((_Change(index, pod, 1),))

    def _follow(self, changes: Iterable[_Change]) -> Status:
        result = SUCCESS
        for change in changes:
            self._changes.append(change)
            for (_, index), (pod, state) in self._states.items():
                if index in (_ALL, change.at):
                    status = self._tell(pod, state, change)
                    result = result if status.is_success else status
        return result

    def _tell(self, pod: Pod, state: CycleState, change: _Change) -> Status:
        framework = self._preparation.framework
        run = framework.add_pod if change.sign > 0 else framework.remove_pod
        try:
            run(state, pod, change.pod, NodeInfo(self.nodes, change.at))
        except Broken as failure:
            return failure.status
        return SUCCESS

    # --- filters ---------------------------------------------------------------------------------

    def begin(self, pod: Pod) -> tuple[CycleState, PreFilterOutcome]:
        """Return a state of a member in which all changes are noted, and what PreFilter said."""
        prepared = self._preparation.prepared(pod)
        return self._state(prepared, _ALL).clone(), prepared.outcome

    def refusals(self, pod: Pod, indexes: Sequence[int]) -> dict[int, Status]:
        """Return the nodes among these on which a member does not fit now, with the statuses."""
        prepared = self._preparation.prepared(pod)
        before = prepared.outcome
        if not before.status.is_success:
            return dict.fromkeys(indexes, before.status)
        refused: dict[int, Status] = {}
        if before.node_names is not None:
            names = self.names
            refused = {i: before.absent_status for i in indexes if names[i] not in before.node_names}
            indexes = [index for index in indexes if index not in refused]
        if not indexes:
            return refused
        if self._preparation.framework.entangled(prepared.state):
            for index in indexes:
                refused |= self._filter(self._state(prepared, index), pod, (index,))
        else:
            refused |= self._filter(self._state(prepared, _ALL), pod, indexes)
        return refused

    def _filter(self, state: CycleState, pod: Pod, indexes: Sequence[int]) -> dict[int, Status]:
        at = np.array(indexes, np.int64)
        outcome = self._preparation.framework.run_filters(state, pod, self.nodes.pick(at))
        if outcome.error is None:
            return {indexes[i]: outcome.status(i) for i in np.flatnonzero(~outcome.feasible).tolist()}
        if len(indexes) == 1:
            return {indexes[0]: outcome.error}
        refused: dict[int, Status] = {}
        for index in indexes:  # an error on one node does not affect the others
            refused |= self._filter(state, pod, (index,))
        return refused

    def _state(self, prepared: Prepared, index: int) -> CycleState:
        key = self._preparation.key(prepared.pod), index
        known = self._states.get(key)
        if known is None:
            state = prepared.state.clone()
            known = self._states[key] = prepared.pod, state
            for change in self._changes:
                if index in (_ALL, change.at):
                    self._tell(prepared.pod, state, change)
        return known[1]
