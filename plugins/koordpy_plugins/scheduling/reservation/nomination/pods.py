"""Nominating a reservation for a pod on every node before scoring, and the scores that follow.

Source: Koordinator, `pkg/scheduler/plugins/reservation/scoring.go`.
"""

from functools import partial

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..attempt.nominated import NominatedReservations
from ..attempt.pairs import matched_pairs
from ..attempt.prepared import Prepared
from ..attempt.reservation_fits import ReservationFits
from ..filter import arrays
from ..filter.other_plugins import OtherPlugins
from ..filter.pods import PodFilter
from ..fit import scoring
from ..state.matchable import NO_ORDER
from ..state.withheld import Withheld
from .nominator import Nominator
from .score import score_reservation


class PodNomination:
    """Nominates reservations for the pods of the profile that `plugin` belongs to."""

    def __init__(
        self, plugin: Plugin, withheld: Withheld, pod_filter: PodFilter, nominator: Nominator
    ) -> None:
        self._plugin, self._handle, self._table = plugin, plugin.handle, plugin.handle.nodes
        self._withheld, self._filter, self._nominator = withheld, pod_filter, nominator

    def nominate_all(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Status:
        """Leave the reservation of every node that has one for the pod in `nominated_reservations`.

        The choice is by order, then by the total of all plugins' scores, then by name. It comes out of
        arrays; nodes where these cannot say what fits (as for Reservations that took over pods), or an
        earlier nomination may stand, are left to the nominator. `nodes` are as the attempt sees them.
        """
        if not prepared.matches:
            prepared.nominated_reservations = NominatedReservations()
            return SUCCESS
        fits = self._filter.fits(prepared, nodes)
        matchable, at = self._withheld.matchable, fits.at
        scores = arrays.scores(prepared, matchable, fits.slots, self._table)
        # (g,) by node, (k,) by reservation, as in `ReservationFits`
        unsure = fits.unsure | matchable.pre_allocation[fits.slots]
        slow = fits.any_of_node(unsure) | self._nominator.knows(pod)
        able = fits.passes & ~matchable.used_up[fits.slots]
        settled = np.repeat((fits.sizes == 1) & (prepared.requirements.affinity is not None), fits.sizes)
        asking = ~np.repeat(slow, fits.sizes)
        points = self._handle.framework.reservations.without(self._plugin)
        pairs = partial(matched_pairs, prepared.matches, pod, nodes, at, fits.chosen)
        others = OtherPlugins(partial(points.filter_nominate, state) if points.filters else None, pairs)
        able = settled | others.accept(able & asking & ~settled)
        order = matchable.order[fits.slots]
        totals = scores
        if points.scores:
            # Other plugins score only where there is a choice that no order makes.
            contested = np.bincount(fits.group[able], minlength=len(fits.first)) > 1
            contested &= ~fits.any_of_node(able & (order != NO_ORDER)) & ~slow
            asked = np.flatnonzero(able & np.repeat(contested, fits.sizes))
            more, status = points.score(state, pod, pairs().pick(asked))
            if not status.is_success:
                return status
            totals = scores.copy()
            totals[asked] += sum(more.values())
        worth = np.where(order == NO_ORDER, -totals, 0)
        best = np.lexsort((np.arange(len(at)), worth, order, ~able, fits.group))[fits.first]
        chosen = np.where(able[best], best, -1)
        for group in np.flatnonzero(slow).tolist():
            first = int(fits.first[group])
            index = int(at[first])
            info, status = self._nominator.for_pod(
                state, prepared, pod, int(nodes.rows[index]), nodes.names[index]
            )
            if not status.is_success:
                return status
            chosen[group] = self._position(fits, first, info)
            if chosen[group] >= 0 and info is not None:
                scores[chosen[group]] = score_reservation(prepared, pod, info, nodes.names[index])
        prepared.nominated_reservations = self._nominated(prepared, nodes, fits, chosen[chosen >= 0], scores)
        return SUCCESS

    def _position(self, fits: ReservationFits, first: int, info: ReservationInfo | None) -> int:
        """Return where among the matched reservations of a node one is, -1 if it is none of them."""
        slot = None if info is None else self._withheld.matchable.slot_of(info.uid)
        if slot is None:
            return -1
        found = np.flatnonzero(fits.slots[first:] == slot)
        return first + int(found[0]) if len(found) else -1

    def _nominated(
        self, prepared: Prepared, nodes: NodeSet, fits: ReservationFits, chosen: Int64, scores: Int64
    ) -> NominatedReservations:
        """Return the reservations at positions `chosen` (j,).

        A pod that acts as a reservation is used, but gives its node no score.
        """
        matchable = self._withheld.matchable
        order = matchable.order[fits.slots]
        preferred: int | None = None
        if len(order) and int(order.min()) != NO_ORDER:
            first = int(np.lexsort((fits.at, order))[0])
            preferred = int(nodes.rows[fits.at[first]])
        chosen = chosen[~matchable.operating[fits.slots[chosen]]]
        rows = nodes.rows[fits.at[chosen]]
        by_row = np.argsort(rows)
        infos = [prepared.matches.infos[index] for index in fits.chosen[chosen[by_row]].tolist()]
        return NominatedReservations(rows[by_row], infos, scores[chosen[by_row]], preferred)

    def score(self, prepared: Prepared, nodes: NodeSet) -> Int64:
        """(n,) the score of the reservation nominated on each node; one that goes before all others wins."""
        nominated = prepared.nominated_reservations
        by_row = np.zeros(self._table.capacity, np.int64)
        by_row[nominated.rows] = nominated.scores
        if nominated.preferred is not None:
            by_row[nominated.preferred] = scoring.PREFERRED
        scores: Int64 = by_row[nodes.rows]
        return scores
