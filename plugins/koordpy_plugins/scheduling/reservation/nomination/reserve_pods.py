"""Nominating the running pods that a Reservation takes over, and the scores that follow.

Source: Koordinator, `pkg/scheduler/plugins/reservation`.
"""

from collections.abc import Sequence

import numpy as np

from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Status

from ..attempt.prepared import Prepared
from ..fit import scoring
from .nominator import Nominator
from .score import score_reservation


class ReservePodNomination:
    """Nominates running pods for the Reservations of one profile."""

    def __init__(self, nominator: Nominator) -> None:
        self._nominator = nominator

    def nominate(self, state: CycleState, prepared: Prepared, node_names: Sequence[str]) -> Status:
        """Leave the pods that are taken over in `nominated_pods`, on nodes that have none there yet."""
        new = [name for name in node_names if name not in prepared.nominated_pods]
        chosen, status = self._nominator.for_reservation(state, prepared, new)
        prepared.nominated_pods.update(chosen)
        return status

    def score(self, prepared: Prepared, nodes: NodeSet) -> Int64:
        """(n,) how full the running pod would make the Reservation, or by how few it takes over."""
        if prepared.takes_many:
            return np.array(
                [scoring.of_many(len(prepared.selected.get(name, ()))) for name in nodes.names], np.int64
            )
        info, scores = prepared.reservation, np.zeros(len(nodes), np.int64)
        for index, name in enumerate(nodes.names if prepared.nominated_pods and info is not None else ()):
            pods = prepared.nominated_pods.get(name)
            if pods and info is not None:
                scores[index] = score_reservation(prepared, pods[0], info, name)
        return scores
