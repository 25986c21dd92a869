"""How well reservations suit pods: the fuller a pod makes one, the better.

Source: Koordinator, `pkg/scheduler/plugins/reservation/scoring.go`.
"""

from collections.abc import Mapping

import numpy as np

from koordpy.api.quantity import ZERO, Quantity
from koordpy.cluster.columns import Int64
from koordpy.lib import int64
from koordpy.scheduling.interface.reservation_info import ReservationInfo

MOST = 100
PREFERRED = 1000
"""The score of the node whose reservation goes before all others; normalising brings it down to 100."""


def score(
    requests: Mapping[str, Quantity],
    info: ReservationInfo,
    preemptible: Mapping[str, Quantity],
) -> int:
    """Return how full a reservation would be with a pod, in percent, averaged over what it holds.

    A resource of which it would hold too little counts 0. `preemptible` is what preemption would free in it.
    """
    allocated: Mapping[str, Quantity] = info.allocated or {}
    if preemptible:
        allocated = {
            name: max(allocated.get(name, ZERO) - preemptible.get(name, ZERO), ZERO)
            for name in info.resource_names
        }
    total = count = 0
    for name, most in info.allocatable.items():
        if most.is_zero:
            continue
        count += 1
        wanted = requests.get(name, ZERO) + allocated.get(name, ZERO)
        if wanted <= most:
            part = int64.quotient(int64.wrap(MOST * wanted.milli_value()), most.milli_value())
            total = int64.wrap(total + part)
    return int64.quotient(total, count) if count else 0


def scores(wanted: Int64, most: Int64) -> Int64:
    """Return (k,) the same for many reservations, where amounts are integers that a product cannot overflow.

    `wanted` (k, resources) is what pods use and the pod requests, `most` (k, resources) what the
    reservations hold, 0 where they hold nothing of a resource.
    """
    held = most != 0
    parts = np.where(held & (wanted <= most), MOST * wanted // np.maximum(most, 1), 0)
    total: Int64 = parts.sum(axis=1) // np.maximum(held.sum(axis=1), 1)
    return total


def of_many(taken: int) -> int:
    """Return the score of a node where a Reservation would take over so many pods: the fewer, the better."""
    return MOST // (1 + taken)


def normalize(scores: Int64) -> Int64:
    """Bring scores into 0..100, the highest to 100; where all are 0 they stay."""
    most = int(scores.max()) if len(scores) else 0
    if most <= 0:
        return scores
    normalized: Int64 = scores * MOST // most
    return normalized
