"""Filter and Score of all nodes at once: by arrays where these are exact, else node by node."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import Status, Verdict
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE

from ..allocation.arrays import feasible, scores
from ..reservations.restored import RESTORED
from ..scoring import Scorer
from ..state.columns import DeviceColumns
from .placing import DevicePlacing
from .prepared import Prepared

_Bool = NDArray[np.bool_]


class AllNodes:
    """Asks the arrays first; `placing` knows which labels of nodes refuse shares of GPUs."""

    def __init__(
        self, handle: Handle, columns: DeviceColumns, scorer: Scorer, placing: DevicePlacing
    ) -> None:
        self._handle, self._columns, self._scorer, self._placing = handle, columns, scorer, placing

    def filter(
        self,
        state: CycleState,
        prepared: Prepared,
        pod: Pod,
        nodes: NodeSet,
        one: Callable[[NodeInfo], Status],
    ) -> Verdict:
        """Return the answers of `one` for all nodes."""
        answers = None
        if prepared.designated is None:
            answers = feasible(self._columns, nodes, prepared.requests)
        if answers is None:
            return Verdict.of([one(NodeInfo(nodes, index)) for index in range(len(nodes))])
        statuses = list(answers.statuses)
        keys = answers.keys.astype(np.int64)
        special = answers.inexact | self._special(state, prepared, nodes)
        if self._placing.labels_decide(prepared, pod):
            special |= self._refuse_labels(pod, nodes, keys, statuses)
        for index in np.flatnonzero(special).tolist():
            keys[index] = len(statuses)
            statuses.append(one(NodeInfo(nodes, index)))
        codes = np.array([status.code for status in statuses], np.int8)[keys]
        return Verdict.keyed(codes, keys, [status.reasons for status in statuses])

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
        if prepared.designated is None:
            found = scores(self._columns, nodes, prepared.requests, self._scorer)
        if found is None:
            return np.array([one(NodeInfo(nodes, index)) for index in range(len(nodes))], np.int64)
        values, unknown = found
        nominated = self._handle.reservations.nominated
        special = unknown | self._special(state, prepared, nodes)
        special |= np.fromiter(
            (nominated(pod, name, state) is not None for name in nodes.names), np.bool_, len(nodes)
        )
        result = values.copy()
        for index in np.flatnonzero(special).tolist():
            result[index] = one(NodeInfo(nodes, index))
        return result

    def _refuse_labels(self, pod: Pod, nodes: NodeSet, keys: Int64, statuses: list[Status]) -> _Bool:
        """Refuse nodes by their labels, whatever else is said; return those of unknown labels (n,)."""
        sharing = self._columns.sharing_id.values.take(nodes.rows)
        for number in np.unique(sharing[sharing >= 0]).tolist():
            refusal = self._placing.refuses_labels(pod, self._columns.sharing.value_of(number))
            if refusal is not None:
                keys[sharing == number] = len(statuses)
                statuses.append(refusal)
        unknown: _Bool = sharing < 0
        return unknown

    @staticmethod
    def _special(state: CycleState, prepared: Prepared, nodes: NodeSet) -> _Bool:
        """Return (n,) the nodes with reservations, with removed pods, or with chosen NUMA nodes."""
        restored = state.read(RESTORED)
        names = {
            *(() if restored is None else restored.nodes),
            *prepared.preemptible,
            *prepared.preemptible_in,
            *(state.read(AFFINITY_STORE) or ()),
        }
        if not names:
            return np.zeros(len(nodes), np.bool_)
        return np.fromiter((name in names for name in nodes.names), np.bool_, len(nodes))
