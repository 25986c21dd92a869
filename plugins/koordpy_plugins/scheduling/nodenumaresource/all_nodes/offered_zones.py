"""What the NUMA nodes of nodes with reservations for the pod can give it, by any of their offers."""

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from koordpy.cluster.columns import Bool, Int64

from ..attempt.pod_state import PodState
from .offers import Offers
from .zone_arrays import ZoneArrays


class OfferedZones(ZoneArrays):
    """The NUMA nodes of m nodes, and what a pod asks of them.

    Sets of NUMA nodes serve the pod by any offer. Which resources have any left, and the scores, are those of
    all reservations of a node together, as in Koordinator.
    """

    fits_decide = False

    def __init__(
        self, offers: Offers, pod: PodState, wanted: Mapping[str, int], bind: Bool, required: Int64
    ) -> None:
        super().__init__(offers.together, pod, wanted, bind, required)
        self._offers = offers

    @cached_property
    def _each(self) -> ZoneArrays:
        """Of each form of an offer."""
        node = self._offers.node_of_form
        return ZoneArrays(self._offers.rows, self._pod, self.wanted, self.bind[node], self._of_node[node])

    def pick(self, at: Int64) -> ZoneArrays:
        """Return the arrays of some of the nodes, by position."""
        if len(at) == len(self):
            return self
        offers = self._offers.pick(at)
        return OfferedZones(offers, self._pod, self.wanted, self.bind[at], self._of_node[at])

    def may_fit(self, count: int) -> Bool:
        """(m,) whether any so many NUMA nodes have together what the pod requests, in any offer."""
        return self._offers.any(self._each.may_fit(count))

    def serves(self, masks: Int64) -> Bool:
        """(sets, m) whether the NUMA nodes of masks (k, sets) can serve the pod by any offer."""
        return self._offers.any(np.asarray(self._each.serves(masks), np.bool_))
