"""The reservation extension points, run over the plugins of a profile in Koordinator's order.

The caller is whoever owns reservations (the Reservation plugin); the framework only knows who takes part.
Source: Koordinator, `pkg/scheduler/frameworkext` (`framework_extender.go`, `normalize_score.go`).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.lib.int64 import quotient

from .cycle_state import CycleState
from .debug_flags import DebugFlags
from .interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Plugin,
    ReservationFilter,
    ReservationInfo,
    ReservationNominator,
    ReservationPreAllocationRestore,
    ReservationRestore,
    ReservationScore,
)
from .node_info import NodeInfo
from .status import SUCCESS, Status

log = logging.getLogger(__name__)

_Question = tuple[str, ReservationScore, str, Pod, ReservationInfo]
"""A plugin with its name, what an error says it was asked about, and the pod and reservation in question."""


class ReservationPoints:
    """The plugins of one profile that take part in reservations, in the order of their configuration."""

    def __init__(self, plugins: Iterable[Plugin], flags: DebugFlags | None = None) -> None:
        plugins = list(plugins)
        self._flags = flags or DebugFlags()
        self._restores = [p for p in plugins if isinstance(p, ReservationRestore)]
        self._pre_allocations = [p for p in plugins if isinstance(p, ReservationPreAllocationRestore)]
        self._filters = [p for p in plugins if isinstance(p, ReservationFilter)]
        self._scores = [(p.name, p) for p in plugins if isinstance(p, ReservationScore)]
        nominators = [p for p in plugins if isinstance(p, ReservationNominator)]
        self.nominator: ReservationNominator | None = nominators[-1] if nominators else None

    def are_of(self, plugin: Plugin) -> bool:
        """Tell whether nobody but this plugin filters and scores reservations."""
        scorers = [scorer for _, scorer in self._scores]
        return all(each is plugin for each in (*self._filters, *scorers))

    @property
    def restores(self) -> bool:
        """Whether any plugin wants reservations given back."""
        return bool(self._restores)

    def pre_restore(self, state: CycleState, pod: Pod) -> Status:
        """Run PreRestoreReservation; the first failure is the answer."""
        for plugin in self._restores:
            status = plugin.pre_restore_reservation(state, pod)
            if not status.is_success:
                return status
        return SUCCESS

    def restore(
        self,
        state: CycleState,
        pod: Pod,
        matched: Sequence[ReservationInfo],
        unmatched: Sequence[ReservationInfo],
        node: NodeInfo,
    ) -> tuple[dict[str, object], Status]:
        """Run RestoreReservation for a node; return states by plugin name, none of them on a failure."""
        states: dict[str, object] = {}
        for plugin in self._restores:
            restored, status = plugin.restore_reservation(state, pod, matched, unmatched, node)
            if not status.is_success:
                return {}, status
            states[_name(plugin)] = restored
        return states, SUCCESS

    def final_restore(
        self, state: CycleState, pod: Pod, states: Mapping[str, Mapping[str, object]]
    ) -> Status:
        """Run FinalRestoreReservation with states by plugin name, then node name."""
        for plugin in self._restores:
            of_plugin = states.get(_name(plugin))
            if of_plugin is not None:
                status = plugin.final_restore_reservation(state, pod, of_plugin)
                if not status.is_success:
                    return status
        return SUCCESS

    def pre_restore_pre_allocation(self, state: CycleState, reservation: ReservationInfo) -> Status:
        """Run PreRestoreReservationPreAllocation; the first failure is the answer."""
        for plugin in self._pre_allocations:
            status = plugin.pre_restore_reservation_pre_allocation(state, reservation)
            if not status.is_success:
                return status
        return SUCCESS

    def restore_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pods: Sequence[Pod], node: NodeInfo
    ) -> tuple[dict[str, object], Status]:
        """Run RestoreReservationPreAllocation for a node, as `restore`."""
        states: dict[str, object] = {}
        for plugin in self._pre_allocations:
            restored, status = plugin.restore_reservation_pre_allocation(state, reservation, pods, node)
            if not status.is_success:
                return {}, status
            states[_name(plugin)] = restored
        return states, SUCCESS

    def filter(self, state: CycleState, pod: Pod, reservation: ReservationInfo, node: NodeInfo) -> Status:
        """Run FilterReservation; the first failure is the answer."""
        for plugin in self._filters:
            status = plugin.filter_reservation(state, pod, reservation, node)
            if not status.is_success:
                self._log_failure("FilterWithReservation", pod, reservation, node.name, plugin, status)
                return status
        return SUCCESS

    def filter_nominate(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        """Run FilterNominateReservation; the first failure is the answer."""
        for plugin in self._filters:
            status = plugin.filter_nominate_reservation(state, pod, reservation, node_name)
            if not status.is_success:
                self._log_failure("FilterNominateReservation", pod, reservation, node_name, plugin, status)
                return status
        return SUCCESS

    def _log_failure(
        self,
        point: str,
        pod: Pod,
        reservation: ReservationInfo,
        node_name: str,
        plugin: object,
        status: Status,
    ) -> None:
        if self._flags.filter_failures:
            log.info(
                "Failed to %s for Pod %r with Reservation %r on Node %r, failedPlugin: %s, reason: %s",
                point,
                pod.metadata.key,
                reservation.meta.name,
                node_name,
                _name(plugin),
                status.message,
            )

    def score(
        self, state: CycleState, pod: Pod, reservations: Sequence[ReservationInfo], node_name: str
    ) -> tuple[dict[str, list[int]], Status]:
        """Run ScoreReservation and the normalisation; return lists by plugin name, aligned with the input."""
        return self._scored(
            state,
            pod,
            [
                (plugin_name, plugin, "", pod, reservation)
                for plugin_name, plugin in self._scores
                for reservation in reservations
            ],
            node_name,
        )

    def pre_allocation_score(
        self, state: CycleState, reservation: ReservationInfo, pods: Sequence[Pod], node_name: str
    ) -> tuple[dict[str, list[int]], Status]:
        """Run ScoreReservation for running pods that a Reservation may take over; aligned with `pods`."""
        return self._scored(
            state,
            reservation.pod,
            [
                (plugin_name, plugin, f" for pod {pod.metadata.key}", pod, reservation)
                for plugin_name, plugin in self._scores
                for pod in pods
            ],
            node_name,
        )

    def _scored(
        self, state: CycleState, asking: Pod, questions: Iterable[_Question], node_name: str
    ) -> tuple[dict[str, list[int]], Status]:
        scores: dict[str, list[int]] = {}
        for name, plugin, about, pod, reservation in questions:
            try:
                score = plugin.score_reservation(state, pod, reservation, node_name)
            except Exception as error:
                return {}, Status.failed(f'plugin "{name}"{about} failed with: {error}')
            scores.setdefault(name, []).append(score)
        for name, plugin in self._scores:
            if name not in scores:
                continue
            try:
                normalized = plugin.normalize_reservation_scores(state, asking, scores[name])
            except Exception as error:
                return {}, Status.failed(f"running Normalize on Score plugins: {error}")
            for score in normalized:
                if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                    return {}, Status.failed(
                        f'plugin "{name}" returns an invalid score {score}, it should in the range of '
                        f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}]"
                    )
            scores[name] = normalized
        return scores, SUCCESS


def default_normalize(
    scores: Sequence[int], *, highest: int = MAX_NODE_SCORE, reverse: bool = False
) -> list[int]:
    """Scale scores so that the largest becomes `highest`; with `reverse` the largest becomes 0."""
    largest = max(0, *scores) if scores else 0
    if largest == 0:
        return [highest] * len(scores) if reverse else list(scores)
    scaled = [quotient(highest * score, largest) for score in scores]
    return [highest - score for score in scaled] if reverse else scaled


def _name(plugin: object) -> str:
    return plugin.name if isinstance(plugin, Plugin) else type(plugin).__name__
