import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.api.meta import ObjectMeta
from koordpy.api.plugin import NoArgs
from koordpy.api.reservation import Reservation, ReservationStatus
from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface import (
    Binding,
    Plugin,
    ReservationFilter,
    ReservationInfo,
    ReservationNominator,
    ReservationPairs,
    ReservationPreBind,
    ReservationRestore,
    ReservationScore,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Code, Status, Verdict
from koordpy.scheduling.toolkit.reservation_normalize import default_normalize, normalize_of_nodes

from ..worlds import framework, node, pod, world


def reservation(name: str) -> ReservationInfo:
    return ReservationInfo(
        Reservation(metadata=ObjectMeta(name=name), status=ReservationStatus(node_name="a"))
    )


class ByName(Plugin, ReservationFilter, ReservationScore, ReservationPreBind):
    """Rejects the reservation x, scores by the length of the name."""

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
    pairs = ReservationPairs.of_pod(pod("p"), [reservation(name)], NodeInfo(nodes, 0))
    status = points.filter(CycleState(), pairs).status(0)
    assert (status == SUCCESS) is passes


def test_reservations_are_scored_and_normalised() -> None:
    cluster = world([node("a")])
    pairs = ReservationPairs.of_pod(
        pod("p"), [reservation("a"), reservation("abcd")], NodeInfo(cluster.nodes.all(), 0)
    )
    scores, status = framework(cluster, ByName).reservations.score(CycleState(), pod("p"), pairs)
    assert {name: found.tolist() for name, found in scores.items()} == {"ByName": [25, 100]}
    assert status == SUCCESS


async def test_a_failure_before_binding_a_reservation_is_an_error() -> None:
    fw = framework(world([node("a")]), ByName)
    status = await fw.run_pre_bind_reservation(CycleState(), reservation("x"), Binding(pod("p"), "a"))
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


@given(st.lists(st.lists(st.integers(-5, 10**6), min_size=1), min_size=1), st.booleans())
def test_the_scores_of_each_node_are_scaled_among_themselves(by_node: list[list[int]], reverse: bool) -> None:
    first = np.cumsum([0, *map(len, by_node)])[:-1]
    scores = np.array([score for of_node in by_node for score in of_node])
    expected = [score for of_node in by_node for score in default_normalize(of_node, reverse=reverse)]
    assert normalize_of_nodes(scores, first, reverse=reverse).tolist() == expected


class AtOnce(Plugin, ReservationFilter, ReservationScore):
    """Rejects the reservation x and scores by the length of the name, in batch form."""

    name = "AtOnce"

    def filter_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        return Verdict.reject(np.array([info.name == "x" for info in pairs.reservations]), "is x")

    def filter_nominate_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        return self.filter_reservations(state, pairs)

    def score_reservations(self, state: CycleState, pairs: ReservationPairs) -> Int64:
        return np.array([len(info.name) for info in pairs.reservations])

    def normalize_reservations_of_nodes(
        self, state: CycleState, pod: Pod, scores: Int64, first: Int64
    ) -> Int64:
        return normalize_of_nodes(scores, first)


def test_the_single_form_is_derived_from_the_batch_form() -> None:
    cluster = world([node("a")])
    plugin, state = AtOnce(NoArgs(), Handle(cluster)), CycleState()
    node_a, x, long = NodeInfo(cluster.nodes.all(), 0), reservation("x"), reservation("long")
    assert plugin.filter_reservation(state, pod("p"), x, node_a) == Status.unschedulable("is x")
    assert plugin.filter_nominate_reservation(state, pod("p"), long, "a") == SUCCESS
    assert plugin.score_reservation(state, pod("p"), long, "a") == 4
    assert plugin.normalize_reservation_scores(state, pod("p"), [1, 4]) == [25, 100]


def test_a_deleted_node_raises_lookup_error() -> None:
    plugin = AtOnce(NoArgs(), Handle(world([])))
    with pytest.raises(LookupError, match="node a is gone"):
        plugin.score_reservation(CycleState(), pod("p"), reservation("x"), "a")


def test_a_plugin_without_either_form_is_refused() -> None:
    with pytest.raises(TypeError, match="must define score_reservation or score_reservations"):
        type("Neither", (Plugin, ReservationScore), {})


@given(st.lists(st.integers(0, 10**6), min_size=1))
def test_scaling_keeps_the_order(scores: list[int]) -> None:
    scaled = default_normalize(scores)
    assert all(0 <= score <= 100 for score in scaled)
    assert all(
        (a <= b) <= (c <= d)
        for a, c in zip(scores, scaled, strict=True)
        for b, d in zip(scores, scaled, strict=True)
    )


class Choosy(Plugin, ReservationNominator):
    """Rejects the node b, and fails for all but a and b."""

    name = "Choosy"

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        if node_name not in ("a", "b"):
            raise LookupError("no such node")
        return None, Status.unschedulable("not here") if node_name == "b" else SUCCESS

    def delete_nominated_reservation(self, pod: Pod) -> None:
        raise LookupError("nothing was nominated")


def test_a_nominators_rejection_names_its_plugin(caplog: pytest.LogCaptureFixture) -> None:
    phase = framework(world([node("a")]), Choosy)
    rejected = phase.nominate_reservation(CycleState(), pod("p"), "b")
    assert (rejected.plugin, rejected.message) == ("Choosy", "not here")
    failed = phase.nominate_reservation(CycleState(), pod("p"), "c")
    assert failed.plugin == "Choosy"
    assert failed.message == 'running NominateReservation plugin "Choosy": LookupError: no such node'
    phase.delete_nominated_reservation(pod("p"))
    assert "plugin Choosy raised at DeleteNominatedReservation" in caplog.text


class Restoring(Plugin, ReservationRestore):
    """Rejects every pod whose name is long, and fails for the others."""

    name = "Restoring"

    def pre_restore_reservation(self, state: CycleState, pod: Pod) -> Status:
        if len(pod.metadata.name) > 3:
            return Status.unschedulable("too long")
        raise LookupError("too short")

    def restore_reservations(
        self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> tuple[dict[str, object], Status]:
        return {}, SUCCESS


def test_a_failure_while_reservations_are_restored_names_its_plugin() -> None:
    from koordpy.scheduling.framework.reservation_phase import ReservationPhase

    phase = ReservationPhase([Restoring(NoArgs(), Handle(world([])))])
    assert phase.pre_restore(CycleState(), pod("long")).plugin == "Restoring"
    failed = phase.pre_restore(CycleState(), pod("p"))
    assert (failed.code, failed.plugin) == (Code.ERROR, "Restoring")
    assert "LookupError: too short" in failed.message
