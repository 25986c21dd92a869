"""What plugins read of reservations that do not own them: `handle.reservations`."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    ReservationInfo,
    ReservationScore,
    Reserve,
    Score,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_cache import NoReservations
from koordpy.scheduling.interface.status import SUCCESS, Status
from tests.unit.scheduling.worlds import framework, node, pod, world

from .scenes import Scene, claimant, pending, reservation, user


def names(infos: Sequence[ReservationInfo]) -> list[str]:
    return [info.name for info in infos]


class Reader(Plugin, Filter, Score, Reserve, ReservationScore):
    """Notes at each point what it reads; prefers the reservation `large`."""

    name = "Reader"
    seen: ClassVar[dict[str, object]] = {}

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.seen[f"filter {node.name}"] = names(self.handle.reservations.matched(state, node.name))
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        self.seen[f"score {node.name}"] = self._nominated(state, pod, node.name)
        return 0

    def score_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> int:
        return 100 if reservation.name == "large" else 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.seen["reserve"] = self._nominated(state, pod, node_name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.seen["unreserve"] = self._nominated(state, pod, node_name)

    def _nominated(self, state: CycleState, pod: Pod, node_name: str) -> str:
        info = self.handle.reservations.nominated(pod, node_name, state)
        return "" if info is None else info.name


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Reader.seen.clear()


def test_reservations_are_found_by_uid_by_node_and_by_the_pod_that_uses_them() -> None:
    other = claimant("other")
    scene = Scene(objects=[reservation("b"), reservation("a"), user("web", "a", cpu="3"), other])
    read = scene.handle.reservations
    found = read.get("uid-a")
    assert found is not None
    assert (found.name, found.node_name, str((found.allocated or {})["cpu"])) == ("a", "n1", "3")
    assert list(found.assigned) == ["uid-web"]
    assert read.get("uid-c") is None
    assert names(read.on_node("n1")) == ["a", "b"]
    assert list(read.on_node("n2")) == []
    assert read.used_by(user("web", "a"), "n1") is found
    assert read.used_by(other, "n1") is None


def test_an_attempt_knows_what_matches_and_what_was_nominated() -> None:
    scene = Scene(
        [node("n1", cpu="10"), node("n2", cpu="10")],
        [
            reservation("small", cpu="2", owners=[{"labelSelector": {"matchLabels": {"for": "team"}}}]),
            reservation("large", cpu="4", owners=[{"labelSelector": {"matchLabels": {"for": "team"}}}]),
            reservation("foreign", "n2"),
        ],
        others=[Reader],
    )
    wanted = claimant("web", "team", cpu="2")
    state, outcome = scene.find(wanted)
    assert (Reader.seen["filter n1"], Reader.seen["filter n2"]) == (["large", "small"], [])
    read = scene.handle.reservations
    everything = scene.handle.nodes.select(["n2", "n1"])[0]
    assert read.nominated(wanted, "n1", state) is None
    assert read.nominated_among(wanted, state, everything) == {}
    scores, status = scene.framework.run_score(state, wanted, outcome.kept)
    assert scores is not None, status
    assert (Reader.seen["score n1"], Reader.seen["score n2"]) == ("large", "")
    assert read.nominated_among(wanted, state, everything) == {1: read.get("uid-large")}
    assert scene.framework.nominate_reservation(state, wanted, "n1").is_success
    assert scene.framework.run_reserve(state, wanted, "n1").is_success
    assert Reader.seen["reserve"] == "large"
    assert read.nominated_among(wanted, state, everything) == {1: read.get("uid-large")}
    taken = read.used_by(wanted, "n1")
    assert taken is read.get("uid-large")
    assert taken is not None
    assert list(taken.assigned) == ["uid-web"]
    scene.framework.run_unreserve(state, wanted, "n1")
    assert read.used_by(wanted, "n1") is None


def test_a_choice_of_an_earlier_attempt_is_known_without_its_state() -> None:
    scene = Scene(objects=[reservation("r")])
    wanted = claimant("web", "r")
    state, _ = scene.find(wanted)
    assert scene.framework.nominate_reservation(state, wanted, "n1").is_success
    found = scene.handle.reservations.nominated(wanted, "n1")
    assert found is not None
    assert found.name == "r"
    assert scene.handle.reservations.nominated(wanted, "n2") is None
    among = scene.handle.reservations.nominated_among(wanted, CycleState(), scene.handle.nodes.all())
    assert among == {scene.handle.nodes.all().index_of("n1"): found}
    scene.framework.delete_nominated_reservation(wanted)
    assert scene.handle.reservations.nominated(wanted, "n1") is None


def test_a_nominated_reservation_that_is_gone_is_not_answered() -> None:
    scene = Scene(objects=[reservation("r")])
    wanted = claimant("web", "r")
    state, outcome = scene.find(wanted)
    scene.framework.run_score(state, wanted, outcome.kept)
    assert scene.handle.reservations.nominated(wanted, "n1", state) is not None
    scene.cluster.store(type(reservation("r"))).discard("r")
    assert scene.handle.reservations.nominated(wanted, "n1", state) is None
    assert scene.handle.reservations.nominated_among(wanted, state, outcome.kept) == {}


def test_the_pods_that_a_reservation_takes_over_are_known_from_the_attempt() -> None:
    wanted = pending(
        "r",
        "6",
        preAllocation=True,
        allocatePolicy="Restricted",
        owners=[{"labelSelector": {"matchLabels": {"app": "a"}}}],
    )
    running = pod("a", "5", "0", "n1")
    running.metadata.labels = {"app": "a"}
    scene = Scene(objects=[wanted, running, pod("b", "3", "0", "n1")])
    state, _ = scene.find(new_reserve_pod(wanted))
    read = scene.handle.reservations
    assert list(read.taken_over(state, "n1")) == []
    assert scene.framework.nominate_reservation(state, new_reserve_pod(wanted), "n1").is_success
    assert [each.metadata.name for each in read.taken_over(state, "n1")] == ["a"]
    assert list(read.taken_over(state, "n2")) == []


def test_a_profile_without_an_owner_of_reservations_has_none() -> None:
    class Plain(Plugin, Filter):
        name = "Plain"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            return SUCCESS

    cluster = world([node("n1")])
    read = framework(cluster, Plain).handle.reservations
    state = CycleState()
    assert read.get("uid-r") is None
    assert read.used_by(pod("p"), "n1") is None
    assert read.nominated(pod("p"), "n1", state) is None
    assert read.nominated_among(pod("p"), state, cluster.nodes.all()) == {}
    assert not [*read.on_node("n1"), *read.matched(state, "n1"), *read.taken_over(state, "n1")]


def test_one_plugin_of_a_profile_owns_its_reservations() -> None:
    scene = Scene()
    with pytest.raises(RuntimeError, match="owns its reservations already"):
        scene.handle.publish_reservations(NoReservations())
    Handle(scene.cluster).publish_reservations(NoReservations())
