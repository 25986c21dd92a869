"""The reservation extension points, run over the plugins of a profile in Koordinator's order.

The caller is the plugin that owns reservations (Reservation); the framework only knows which plugins take
part. Source: Koordinator, `pkg/scheduler/frameworkext` (`framework_extender.go`, `normalize_score.go`).
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import ParamSpec

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Plugin,
    ReservationFilter,
    ReservationInfo,
    ReservationNominator,
    ReservationPairs,
    ReservationPreAllocationRestore,
    ReservationRestore,
    ReservationScore,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.debug_flags import DebugFlags
from koordpy.scheduling.interface.reservation_points import Named
from koordpy.scheduling.interface.status import PASS, SUCCESS, Status, Verdict

from .plugin_call import broken, plugin_name

log = logging.getLogger(__name__)

P = ParamSpec("P")

_FAILURES_LOGGED = 20

_Ask = Callable[[CycleState, ReservationPairs], Verdict]


class ReservationPhase:
    """The plugins of one profile that take part in reservations, in the order of their configuration."""

    def __init__(self, plugins: Iterable[Plugin], flags: DebugFlags | None = None) -> None:
        self._plugins = list(plugins)
        self._without: dict[str, ReservationPhase] = {}
        self._flags = flags or DebugFlags()
        self._restores = [p for p in self._plugins if isinstance(p, ReservationRestore)]
        self._pre_allocations = [p for p in self._plugins if isinstance(p, ReservationPreAllocationRestore)]
        self._filters = [p for p in self._plugins if isinstance(p, ReservationFilter)]
        self._scores = [(p.name, p) for p in self._plugins if isinstance(p, ReservationScore)]
        nominators = [p for p in self._plugins if isinstance(p, ReservationNominator)]
        self.nominator: ReservationNominator | None = nominators[-1] if nominators else None

    def without(self, plugin: Named) -> "ReservationPhase":
        """Return the same without one plugin: the caller, which already knows its own answer."""
        known = self._without.get(plugin.name)
        if known is None:
            others = (each for each in self._plugins if each is not plugin)
            known = self._without[plugin.name] = ReservationPhase(others, self._flags)
        return known

    @property
    def restores(self) -> bool:
        """Whether any plugin restores reservations."""
        return bool(self._restores)

    @property
    def filters(self) -> bool:
        """Whether any plugin filters reservations."""
        return bool(self._filters)

    @property
    def scores(self) -> bool:
        """Whether any plugin scores reservations."""
        return bool(self._scores)

    # --- restoring -------------------------------------------------------------------------------

    def pre_restore(self, state: CycleState, pod: Pod) -> Status:
        """Run PreRestoreReservation; return the first failure."""
        for plugin in self._restores:
            status = _status("PreRestoreReservation", plugin, plugin.pre_restore_reservation, state, pod)
            if not status.is_success:
                return status
        return SUCCESS

    def restore(
        self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> tuple[dict[str, Mapping[str, object]], Status]:
        """Run RestoreReservation for the nodes of the pairs; both have the same nodes.

        Returns states by plugin name, then node name, none of them on a failure.
        """
        states: dict[str, Mapping[str, object]] = {}
        for plugin in self._restores:
            try:
                of_nodes, status = plugin.restore_reservations(state, pod, matched, unmatched)
            except Exception as error:
                return {}, broken("RestoreReservation", plugin_name(plugin), error).status
            if not status.is_success:
                return {}, status.by(plugin_name(plugin))
            if of_nodes:
                states[plugin_name(plugin)] = of_nodes
        return states, SUCCESS

    def final_restore(
        self, state: CycleState, pod: Pod, states: Mapping[str, Mapping[str, object]]
    ) -> Status:
        """Run FinalRestoreReservation with states by plugin name, then node name."""
        for plugin in self._restores:
            of_plugin = states.get(plugin_name(plugin))
            if of_plugin is not None:
                final = plugin.final_restore_reservation
                status = _status("FinalRestoreReservation", plugin, final, state, pod, of_plugin)
                if not status.is_success:
                    return status
        return SUCCESS

    def pre_restore_pre_allocation(self, state: CycleState, reservation: ReservationInfo) -> Status:
        """Run PreRestoreReservationPreAllocation; return the first failure."""
        for plugin in self._pre_allocations:
            pre_restore = plugin.pre_restore_reservation_pre_allocation
            status = _status("PreRestoreReservationPreAllocation", plugin, pre_restore, state, reservation)
            if not status.is_success:
                return status
        return SUCCESS

    def restore_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pairs: ReservationPairs
    ) -> Status:
        """Run RestoreReservationPreAllocation for all candidates; return the first failure."""
        for plugin in self._pre_allocations:
            try:
                _, status = plugin.restore_reservations_pre_allocation(state, reservation, pairs)
            except Exception as error:
                return broken("RestoreReservationPreAllocation", plugin_name(plugin), error).status
            if not status.is_success:
                return status.by(plugin_name(plugin))
        return SUCCESS

    # --- filtering -------------------------------------------------------------------------------

    def filter(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Run FilterReservation for pairs (k,); return the first failure of each."""
        asks = [(plugin_name(plugin), plugin.filter_reservations) for plugin in self._filters]
        return self._refusals("FilterWithReservation", asks, state, pairs)

    def filter_nominate(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Run FilterNominateReservation for pairs (k,); return the first failure of each."""
        asks = [(plugin_name(plugin), plugin.filter_nominate_reservations) for plugin in self._filters]
        return self._refusals("FilterNominateReservation", asks, state, pairs)

    def _refusals(
        self, point: str, asks: Sequence[tuple[str, _Ask]], state: CycleState, pairs: ReservationPairs
    ) -> Verdict:
        codes, keys = np.zeros(len(pairs), np.int8), np.zeros(len(pairs), np.int64)
        table: dict[tuple[str, ...], int] = {}
        left, asked = np.arange(len(pairs)), pairs
        for name, ask in asks:
            if not len(left):
                break
            try:
                verdict = ask(state, asked)
            except Exception as error:
                raise broken(point, name, error) from error
            if verdict.codes is None or not verdict.codes.any():
                continue
            refused = np.flatnonzero(verdict.codes)
            codes[left[refused]] = verdict.codes[refused]
            of_plugin = np.zeros(len(refused), np.int64) if verdict.keys is None else verdict.keys[refused]
            found, which = np.unique(of_plugin, return_inverse=True)
            renamed = [table.setdefault(verdict.reasons_of(key), len(table)) for key in found.tolist()]
            keys[left[refused]] = np.array(renamed, np.int64)[which.reshape(-1)]
            if self._flags.filter_failures:
                self._log_failures(point, name, asked.pick(refused), verdict, refused)
            left = left[verdict.codes == 0]
            asked = pairs.pick(left)
        return Verdict.keyed(codes, keys, list(table)) if table else PASS

    def _log_failures(
        self, point: str, name: str, refused: ReservationPairs, verdict: Verdict, positions: Int64
    ) -> None:
        found = zip(refused, positions.tolist(), strict=True)
        for (pod, reservation, node), position in islice(found, _FAILURES_LOGGED):
            log.info(
                "Failed to %s for Pod %r with Reservation %r on Node %r, failedPlugin: %s, reason: %s",
                point,
                pod.metadata.key,
                reservation.meta.name,
                node.name,
                name,
                verdict.status(position).message,
            )

    # --- scoring ---------------------------------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, pairs: ReservationPairs) -> tuple[dict[str, Int64], Status]:
        """Run ScoreReservation and the normalisation among the pairs of each node.

        Returns scores (k,) by plugin name; empty if there are no pairs or on a failure.
        """
        scores: dict[str, Int64] = {}
        for name, plugin in self._scores if len(pairs) else ():
            try:
                scores[name] = plugin.score_reservations(state, pairs)
            except Exception as error:
                return {}, Status.failed(f'plugin "{name}" failed with: {error}')
        return self._normalized(state, pod, pairs, scores)

    def pre_allocation_score(
        self, state: CycleState, reservation: ReservationInfo, pairs: ReservationPairs
    ) -> tuple[dict[str, Int64], Status]:
        """Do the same for running pods that a Reservation may take over; a failure names the pod."""
        scores: dict[str, Int64] = {}
        for name, plugin in self._scores if len(pairs) else ():
            try:
                scores[name] = plugin.score_reservations(state, pairs)
            except Exception as error:
                about, error = _culprit(plugin, state, pairs, error)
                return {}, Status.failed(f'plugin "{name}"{about} failed with: {error}')
        return self._normalized(state, reservation.pod, pairs, scores)

    def _normalized(
        self, state: CycleState, asking: Pod, pairs: ReservationPairs, scores: dict[str, Int64]
    ) -> tuple[dict[str, Int64], Status]:
        for name, plugin in self._scores if scores else ():
            try:
                normalized = plugin.normalize_reservations_of_nodes(state, asking, scores[name], pairs.first)
            except Exception as error:
                told = f'running Normalize on Score plugins: plugin "{name}" failed with: {error}'
                return {}, Status.failed(told)
            outside = (normalized < MIN_NODE_SCORE) | (normalized > MAX_NODE_SCORE)
            if outside.any():
                return {}, Status.failed(
                    f'plugin "{name}" returns an invalid score {normalized[outside.argmax()]}, it should in '
                    f"the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}]"
                )
            scores[name] = normalized
        return scores, SUCCESS


def _culprit(
    plugin: ReservationScore, state: CycleState, pairs: ReservationPairs, error: Exception
) -> tuple[str, Exception]:
    """Find the pod for which a plugin fails, and its error, by scoring one pod after the other."""
    for position in range(len(pairs)):
        one = pairs.pick(np.array([position]))
        try:
            plugin.score_reservations(state, one)
        except Exception as its_error:
            return f" for pod {one.pods[0].metadata.key}", its_error
    return "", error


def _status(point: str, plugin: object, method: Callable[P, Status], *args: P.args, **kw: P.kwargs) -> Status:
    """Call a plugin's method; an exception becomes a status, and every failure names the plugin."""
    try:
        status = method(*args, **kw)
    except Exception as error:
        return broken(point, plugin_name(plugin), error).status
    return status if status.is_success else status.by(plugin_name(plugin))
