"""The reservation points: what an attempt may use of them, which one it takes, and their own binding.

Koordinator: `pkg/scheduler/frameworkext/interface.go`.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeTable

from .binding import Binding
from .cycle_state import CycleState
from .forms import Forms, TwoForms
from .node_info import NodeInfo, each
from .reservation_info import ReservationInfo
from .reservation_pairs import ReservationPairs
from .status import SUCCESS, Status, Verdict


class ReservationRestore(TwoForms):
    """Restores to an attempt, node by node, the resources held by reservations that it may use."""

    _forms: ClassVar[Forms] = (("restore_reservation", "restore_reservations"),)

    def pre_restore_reservation(self, state: CycleState, pod: Pod) -> Status:
        """Prepare; the first failure ends the restoring."""
        raise NotImplementedError

    def restore_reservation(
        self,
        state: CycleState,
        pod: Pod,
        matched: Sequence[ReservationInfo],
        unmatched: Sequence[ReservationInfo],
        node: NodeInfo,
    ) -> tuple[object, Status]:
        """Return this plugin's state of one node; a failure drops all states."""
        alone = node.alone()
        states, status = self.restore_reservations(
            state,
            pod,
            ReservationPairs.of_pod(pod, matched, alone),
            ReservationPairs.of_pod(pod, unmatched, alone),
        )
        return states.get(node.name), status

    def restore_reservations(
        self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> tuple[Mapping[str, object], Status]:
        """Return the same for all nodes with reservations for the pod, or used by other pods, by node name.

        Both pairs have these nodes as `nodes`. A plugin that keeps arrays writes them into `state` and
        returns nothing.
        """
        states: dict[str, object] = {}
        for node, of_matched, of_unmatched in zip(
            each(matched.nodes), matched.by_node(), unmatched.by_node(), strict=True
        ):
            states[node.name], status = self.restore_reservation(
                state, pod, of_matched.reservations, of_unmatched.reservations, node
            )
            if not status.is_success:
                return {}, status
        return states, SUCCESS

    def final_restore_reservation(self, state: CycleState, pod: Pod, states: Mapping[str, object]) -> Status:
        """Receive the states of all nodes, by node name. Not called if there are none."""
        raise NotImplementedError


class ReservationPreAllocationRestore(TwoForms):
    """The same for a Reservation that takes over what running pods hold."""

    _forms: ClassVar[Forms] = (("restore_reservation_pre_allocation", "restore_reservations_pre_allocation"),)

    def pre_restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo
    ) -> Status:
        """Prepare; the first failure ends the restoring."""
        raise NotImplementedError

    def restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pods: Sequence[Pod], node: NodeInfo
    ) -> tuple[object, Status]:
        """Return this plugin's state of one node, of which `pods` may be taken over."""
        pairs = ReservationPairs.of_reservation(reservation, pods, node.alone())
        states, status = self.restore_reservations_pre_allocation(state, reservation, pairs)
        return states.get(node.name), status

    def restore_reservations_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pairs: ReservationPairs
    ) -> tuple[Mapping[str, object], Status]:
        """Return the same for all nodes with pods that may be taken over, by node name."""
        states: dict[str, object] = {}
        for node, of_node in zip(each(pairs.nodes), pairs.by_node(), strict=True):
            states[node.name], status = self.restore_reservation_pre_allocation(
                state, reservation, of_node.pods, node
            )
            if not status.is_success:
                return {}, status
        return states, SUCCESS


class ReservationFilter(TwoForms):
    """Filters reservations for a pod.

    It may be called for pairs that no longer matter, and repeatedly for a pair.
    """

    _forms: ClassVar[Forms] = (
        ("filter_reservation", "filter_reservations"),
        ("filter_nominate_reservation", "filter_nominate_reservations"),
    )

    def filter_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node: NodeInfo
    ) -> Status:
        """Return, while nodes are filtered, whether the pod fits into a reservation."""
        return self.filter_reservations(state, ReservationPairs.of_pod(pod, [reservation], node)).status(0)

    def filter_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Return the same for all pairs (k,) at once."""
        return Verdict.of(
            [self.filter_reservation(state, pod, reservation, node) for pod, reservation, node in pairs]
        )

    def filter_nominate_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        """Return, once a node is chosen, whether a reservation may be nominated for the pod.

        Raises LookupError if the node is gone.
        """
        pairs = _pair(self, pod, reservation, node_name)
        return self.filter_nominate_reservations(state, pairs).status(0)

    def filter_nominate_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Return the same for all pairs (k,) at once."""
        return Verdict.of(
            [
                self.filter_nominate_reservation(state, pod, reservation, node.name)
                for pod, reservation, node in pairs
            ]
        )


class ReservationScore(TwoForms):
    """Ranks the reservations of a node for a pod; every plugin has weight 1.

    Scores must be within 0..100 after normalisation, which happens among the pairs of each node.
    """

    _forms: ClassVar[Forms] = (("score_reservation", "score_reservations"),)

    def score_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> int:
        """Return a score; raise to fail. Raises LookupError if the node is gone."""
        return int(self.score_reservations(state, _pair(self, pod, reservation, node_name))[0])

    def score_reservations(self, state: CycleState, pairs: ReservationPairs) -> Int64:
        """Return (k,) int64 scores, one a pair; raise to fail."""
        return np.fromiter(
            (self.score_reservation(state, pod, reservation, node.name) for pod, reservation, node in pairs),
            np.int64,
            len(pairs),
        )

    def normalize_reservation_scores(self, state: CycleState, pod: Pod, scores: list[int]) -> list[int]:
        """Return the scores of one node normalised to 0..100; the default leaves them unchanged.

        `pod` is the pod being scheduled: for a Reservation, its reserve pod.
        """
        if type(self).normalize_reservations_of_nodes is ReservationScore.normalize_reservations_of_nodes:
            return scores
        found = np.array(scores, np.int64)
        normalized = self.normalize_reservations_of_nodes(state, pod, found, np.zeros(1, np.int64))
        return [int(score) for score in normalized]

    def normalize_reservations_of_nodes(
        self, state: CycleState, pod: Pod, scores: Int64, first: Int64
    ) -> Int64:
        """Do the same for the scores (k,) of many nodes; `first` (g,) has the start of each node's scores."""
        if type(self).normalize_reservation_scores is ReservationScore.normalize_reservation_scores:
            return scores
        parts = [
            self.normalize_reservation_scores(state, pod, of_node.tolist())
            for of_node in np.split(scores, first[1:])
        ]
        return np.array([score for part in parts for score in part], np.int64)


class ReservationNominator:
    """Chooses the reservation that a pod will use; one per profile."""

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Choose, once the node is known; a failure ends the attempt."""
        raise NotImplementedError

    def delete_nominated_reservation(self, pod: Pod) -> None:
        """Forget what was chosen for a pod."""
        raise NotImplementedError


class ReservationPreBind:
    """PreBind for reserve pods: plain PreBind plugins are not called for them."""

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        """Return Success, or a failure that ends the attempt."""
        raise NotImplementedError


def _pair(plugin: TwoForms, pod: Pod, reservation: ReservationInfo, node_name: str) -> ReservationPairs:
    """Return one pair on a node by its name."""
    table: NodeTable = plugin.handle.nodes  # type: ignore[attr-defined]  # every class with forms is a Plugin
    nodes, missing = table.select([node_name])
    if missing:
        raise LookupError(f"node {node_name} is gone")
    return ReservationPairs.of_pod(pod, [reservation], NodeInfo(nodes, 0))
