"""Plugins with opinions about reservations that look like chance but are the same whenever they are asked."""

from collections.abc import Mapping, Sequence
from zlib import crc32

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface import (
    Binding,
    Plugin,
    ReservationFilter,
    ReservationInfo,
    ReservationPairs,
    ReservationPreAllocationRestore,
    ReservationPreBind,
    ReservationRestore,
    ReservationScore,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import PASS, SUCCESS, Status, Verdict
from koordpy.scheduling.toolkit.reservation_normalize import default_normalize, normalize_of_nodes


class Opinion:
    """What one plugin thinks of a pod in a reservation on a node."""

    def __init__(self, salt: str, *, strict: int = 4, fails: int = 0) -> None:
        self.salt, self.strict, self.fails = salt, strict, fails
        self.restored: dict[str, tuple[list[str], list[str]]] = {}
        """By node: the names of the matched and the unmatched reservations."""

    def _chance(self, *parts: str) -> int:
        return crc32("/".join((self.salt, *parts)).encode())

    def filter(self, pod: Pod, info: ReservationInfo, node_name: str) -> Status:
        chance = self._chance("filter", pod.metadata.uid, info.uid, node_name)
        if chance % self.strict:
            return SUCCESS
        reason = f"{self.salt} minds {info.name if chance & 64 else 'it'}"
        return Status.unresolvable(reason, "really") if chance & 128 else Status.unschedulable(reason)

    def nominate(self, pod: Pod, info: ReservationInfo, node_name: str) -> Status:
        mind = self._chance("nominate", pod.metadata.uid, info.uid, node_name) % self.strict
        return SUCCESS if mind else Status.unschedulable(f"{self.salt} minds")

    def score(self, pod: Pod, info: ReservationInfo, node_name: str) -> int:
        chance = self._chance("score", pod.metadata.uid, info.uid, node_name)
        if self.fails and chance % self.fails == 0:
            raise ValueError(f"{self.salt} has no score")
        return chance % 7


class _Opinionated(ReservationPreBind):
    """What both forms share; with a point that configurations have a list for, or the plugin is not made."""

    opinion: Opinion

    def pre_restore_reservation(self, state: CycleState, pod: Pod) -> Status:
        self.opinion.restored.clear()
        return SUCCESS

    def pre_restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo
    ) -> Status:
        self.opinion.restored.clear()
        return SUCCESS

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        return SUCCESS


def one_by_one(opinion: Opinion) -> type[Plugin]:
    """The plugin, evaluating one pair at a time."""

    class OneByOne(
        _Opinionated,
        Plugin,
        ReservationFilter,
        ReservationScore,
        ReservationRestore,
        ReservationPreAllocationRestore,
    ):
        name = opinion.salt

        def filter_reservation(
            self, state: CycleState, pod: Pod, reservation: ReservationInfo, node: NodeInfo
        ) -> Status:
            return opinion.filter(pod, reservation, node.name)

        def filter_nominate_reservation(
            self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
        ) -> Status:
            return opinion.nominate(pod, reservation, node_name)

        def score_reservation(
            self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
        ) -> int:
            return opinion.score(pod, reservation, node_name)

        def normalize_reservation_scores(self, state: CycleState, pod: Pod, scores: list[int]) -> list[int]:
            return default_normalize(scores, reverse=True)

        def restore_reservation(
            self,
            state: CycleState,
            pod: Pod,
            matched: Sequence[ReservationInfo],
            unmatched: Sequence[ReservationInfo],
            node: NodeInfo,
        ) -> tuple[object, Status]:
            return ([info.name for info in matched], sorted(info.name for info in unmatched)), SUCCESS

        def final_restore_reservation(
            self, state: CycleState, pod: Pod, states: Mapping[str, object]
        ) -> Status:
            opinion.restored.update(states)  # type: ignore[arg-type]
            return SUCCESS

        def restore_reservation_pre_allocation(
            self, state: CycleState, reservation: ReservationInfo, pods: Sequence[Pod], node: NodeInfo
        ) -> tuple[object, Status]:
            _, unmatched = opinion.restored.get(node.name, ([], []))
            opinion.restored[node.name] = [pod.metadata.name for pod in pods], unmatched
            return None, SUCCESS

    OneByOne.opinion = opinion
    return OneByOne


def all_at_once(opinion: Opinion) -> type[Plugin]:
    """The plugin, evaluating all pairs together."""

    def verdict(statuses: Sequence[Status]) -> Verdict:
        table = sorted({status.reasons for status in statuses})
        codes = np.array([status.code for status in statuses], np.int8)
        keys = np.array([table.index(status.reasons) for status in statuses], np.int64)
        return Verdict.keyed(codes, keys, table) if statuses else PASS

    class AllAtOnce(
        _Opinionated,
        Plugin,
        ReservationFilter,
        ReservationScore,
        ReservationRestore,
        ReservationPreAllocationRestore,
    ):
        name = opinion.salt

        def filter_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
            return verdict([opinion.filter(pod, info, node.name) for pod, info, node in pairs])

        def filter_nominate_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
            refused = [not opinion.nominate(pod, info, node.name).is_success for pod, info, node in pairs]
            return Verdict.reject(np.array(refused, np.bool_), f"{opinion.salt} minds")

        def score_reservations(self, state: CycleState, pairs: ReservationPairs) -> Int64:
            return np.array([opinion.score(pod, info, node.name) for pod, info, node in pairs], np.int64)

        def normalize_reservations_of_nodes(
            self, state: CycleState, pod: Pod, scores: Int64, first: Int64
        ) -> Int64:
            return normalize_of_nodes(scores, first, reverse=True)

        def restore_reservations(
            self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
        ) -> tuple[Mapping[str, object], Status]:
            assert matched.nodes is unmatched.nodes
            for name in matched.nodes.names:
                opinion.restored[name] = [], []
            for of_node, pairs in ((0, matched), (1, unmatched)):
                for _, info, node in pairs:
                    opinion.restored[node.name][of_node].append(info.name)
            return {}, SUCCESS

        def restore_reservations_pre_allocation(
            self, state: CycleState, reservation: ReservationInfo, pairs: ReservationPairs
        ) -> tuple[Mapping[str, object], Status]:
            for pod, _, node in pairs:
                opinion.restored.setdefault(node.name, ([], []))[0].append(pod.metadata.name)
            return {}, SUCCESS

    AllAtOnce.opinion = opinion
    return AllAtOnce
