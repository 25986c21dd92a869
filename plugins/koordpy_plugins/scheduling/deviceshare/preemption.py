"""Pods that a what-if takes off a node or puts there: their devices become free, or are taken again.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/plugin.go` (AddPod, RemovePod).
"""

from koordpy.scheduling.interface import ReservationInfo

from .amounts import NONE, NodeAmounts, difference, total
from .attempt.prepared import Prepared


def move(
    prepared: Prepared,
    node_name: str,
    held: NodeAmounts,
    reservation: ReservationInfo | None,
    *,
    removed: bool,
) -> None:
    """Count what a pod holds as free (`removed`), or as taken again.

    What it holds of a `reservation` with devices returns to that.
    """
    if reservation is None:
        known = prepared.preemptible.get(node_name, NONE)
        prepared.preemptible[node_name] = _moved(known, held, removed=removed)
    else:
        of_node = prepared.preemptible_in.setdefault(node_name, {})
        known = of_node.get(reservation.uid, NONE)
        of_node[reservation.uid] = _moved(known, held, removed=removed)


def _moved(known: NodeAmounts, held: NodeAmounts, *, removed: bool) -> NodeAmounts:
    return total(known, held) if removed else difference(known, held)
