"""Pairs of pods and reservations, as other plugins take them at the reservation points."""

from collections.abc import Sequence

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs

from .matches import Matches


def matched_pairs(matches: Matches, pod: Pod, nodes: NodeSet, at: Int64, chosen: Int64) -> ReservationPairs:
    """Return the pod with matched reservations, as they would be in a what-if.

    `chosen` (k,) are indexes into `matches.infos`, `at` (k,) the indexes of their nodes in the set.
    """
    infos, hypothetical = matches.infos, matches.hypothetical
    found = [infos[index] for index in chosen.tolist()]
    if hypothetical:
        rows = nodes.rows[at].tolist()
        found = [hypothetical.of(row, info) for row, info in zip(rows, found, strict=True)]
    return ReservationPairs(nodes, at, [pod] * len(found), found)


def candidate_pairs(info: ReservationInfo, nodes: NodeSet, pods: Sequence[Sequence[Pod]]) -> ReservationPairs:
    """Return a Reservation with the running pods that it may take over, listed for each node of a set."""
    at = np.repeat(np.arange(len(nodes)), list(map(len, pods)))
    return ReservationPairs(nodes, at, [pod for of_node in pods for pod in of_node], [info] * len(at))
