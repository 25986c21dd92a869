from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.scheduling.cycle_state import CycleState
from koordpy.scheduling.interface import (
    Binding,
    Plugin,
    ReservationFilter,
    ReservationInfo,
    ReservationPairs,
    ReservationPreBind,
    ReservationScore,
)
from koordpy.scheduling.node_info import NodeInfo
from koordpy.scheduling.reservation_points import default_normalize
from koordpy.scheduling.status import SUCCESS, Code, Status

from .worlds import framework, node, pod, world


@dataclass(frozen=True)
class Reservation:
    name: str
    uid: str = ""
    node_name: str = "a"


class ByName(Plugin, ReservationFilter, ReservationScore, ReservationPreBind):
    """Refuses the reservation x, scores by the length of the name."""

    name = "ByName"

    def filter_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node: NodeInfo
    ) -> Status:
        return Status.unschedulable("is x") if reservation.name == "x" else SUCCESS

    def filter_nominate_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        return SUCCESS

    def score_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> int:
        return len(reservation.name)

    def normalize_reservation_scores(self, state: CycleState, pod: Pod, scores: list[int]) -> list[int]:
        return default_normalize(scores)

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        return Status.unschedulable("is x") if reservation.name == "x" else SUCCESS


@pytest.mark.parametrize(("name", "passes"), [("x", False), ("y", True)])
def test_a_refused_reservation_keeps_the_plugins_status(name: str, passes: bool) -> None:
    points = framework(world([node("a")]), ByName).reservations
    nodes = world([node("a")]).nodes.all()
    pairs = ReservationPairs.of_pod(pod("p"), [Reservation(name)], NodeInfo(nodes, 0))
    status = points.filter(CycleState(), pairs).status(0)
    assert (status == SUCCESS) is passes


def test_reservations_are_scored_and_normalised() -> None:
    cluster = world([node("a")])
    pairs = ReservationPairs.of_pod(
        pod("p"), [Reservation("a"), Reservation("abcd")], NodeInfo(cluster.nodes.all(), 0)
    )
    scores, status = framework(cluster, ByName).reservations.score(CycleState(), pod("p"), pairs)
    assert {name: found.tolist() for name, found in scores.items()} == {"ByName": [25, 100]}
    assert status == SUCCESS


async def test_a_failure_before_binding_a_reservation_is_an_error() -> None:
    fw = framework(world([node("a")]), ByName)
    status = await fw.run_pre_bind_reservation(CycleState(), Reservation("x"), Binding(pod("p"), "a"))
    assert status.code is Code.ERROR
    assert status.message == 'running ReservationPreBindPlugin plugin "ByName": is x'


@pytest.mark.parametrize(
    ("scores", "reverse", "expected"),
    [
        ([3, 7, 10], False, [30, 70, 100]),
        ([3, 7, 10], True, [70, 30, 0]),
        ([1, 3], True, [67, 0]),
        ([0, 0], False, [0, 0]),
        ([0, 0], True, [100, 100]),
        ([-3, 0], False, [-3, 0]),
    ],
)
def test_scores_are_scaled_to_the_largest(scores: list[int], reverse: bool, expected: list[int]) -> None:
    assert default_normalize(scores, reverse=reverse) == expected


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_scaling_keeps_the_order(scores: list[int]) -> None:
    scaled = default_normalize(scores)
    assert all(0 <= score <= 100 for score in scaled)
    assert all(
        (a <= b) <= (c <= d)
        for a, c in zip(scores, scaled, strict=True)
        for b, d in zip(scores, scaled, strict=True)
    )
