"""What a pod finds too little of, on a node and in a reservation, and how well reservations suit it."""

from typing import Any

import numpy as np
import pytest

from koordpy.api.quantity import Quantity, parse
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy_plugins.scheduling.reservation.fit import scoring
from koordpy_plugins.scheduling.reservation.fit.node import NodeAmounts, lacking_on_node
from koordpy_plugins.scheduling.reservation.fit.reservation import lacking_in_reservation
from koordpy_plugins.scheduling.reservation.fit.rules import concerns

GI = 1 << 30
GPU = "nvidia.com/gpu"


def amounts(**texts: str) -> dict[str, Quantity]:
    return {name.replace("gpu", GPU): parse(text) for name, text in texts.items()}


def none_ignored(_: str) -> bool:
    return False


def holding(used: dict[str, Quantity] | None = None, pods: int = 0, **held: str) -> ReservationInfo:
    """A Restricted reservation of some amounts, of which some are used by so many pods."""
    requests = {name.replace("gpu", GPU): text for name, text in held.items()}
    document: dict[str, Any] = {
        "metadata": {"name": "r", "uid": "uid-r"},
        "spec": {
            "allocatePolicy": "Restricted",
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}},
        },
    }
    info = ReservationInfo(decode(Reservation, document))
    info.allocated = used
    info.assigned = {f"u{i}": AssignedPod("default", f"p{i}", f"u{i}", {}) for i in range(pods)}
    return info


class TestInsideAReservation:
    def lacking(
        self, info: ReservationInfo, detailed: bool = False, ignored: str = "", **wanted: str
    ) -> list[str]:
        return lacking_in_reservation(
            amounts(**wanted), info, lambda name: name == ignored, preemptible={}, detailed=detailed
        )

    @pytest.mark.parametrize(("cpu", "lacks"), [("1", []), ("1001m", ["Insufficient cpu"]), ("0", [])])
    def test_a_pod_may_take_exactly_what_is_left(self, cpu: str, lacks: list[str]) -> None:
        assert self.lacking(holding(amounts(cpu="3"), cpu="4"), cpu=cpu) == lacks

    def test_what_no_pod_may_have_is_not_left(self) -> None:
        info = holding(cpu="4", memory="4Gi")
        info.reserved = amounts(cpu="3")
        assert self.lacking(info, cpu="2", memory="4Gi") == ["Insufficient cpu"]
        assert self.lacking(info, cpu="1", memory="4Gi") == []

    def test_only_what_it_holds_and_what_is_not_ignored_counts(self) -> None:
        info = holding(cpu="4", memory="4Gi")
        assert self.lacking(info, cpu="5", memory="5Gi", gpu="1") == [
            "Insufficient cpu",
            "Insufficient memory",
        ]
        assert self.lacking(info, ignored="cpu", cpu="5", memory="5Gi") == ["Insufficient memory"]

    def test_the_number_of_its_pods_counts_without_preemption_too(self) -> None:
        info = holding(pods=2, cpu="4")
        info.allocatable = {**info.allocatable, **amounts(pods="2")}
        assert self.lacking(info, cpu="1") == ["Too many pods"]

    def test_reasons_have_numbers_where_they_are_wanted(self) -> None:
        info = holding(amounts(cpu="500m", memory="1Gi"), cpu="4", memory="4Gi")
        info.reserved = amounts(cpu="1")
        assert self.lacking(info, True, cpu="2600m", memory="4Gi") == [
            "Insufficient cpu, requested: 2600, used: 500, capacity: 3000",
            f"Insufficient memory, requested: {4 * GI}, used: {GI}, capacity: {4 * GI}",
        ]

    @pytest.mark.parametrize(
        ("freed", "cpu", "lacks"),
        [
            ({"cpu": "2"}, "3", []),
            ({"cpu": "2"}, "3001m", ["Insufficient cpu"]),
            ({"cpu": "9"}, "4", []),
            ({"cpu": "9"}, "4001m", ["Insufficient cpu"]),  # more than all of it is never free
            ({"memory": "9"}, "2", ["Insufficient cpu"]),
        ],
    )
    def test_what_preemption_frees_is_left(self, freed: dict[str, str], cpu: str, lacks: list[str]) -> None:
        info = holding(amounts(cpu="3"), cpu="4")
        found = lacking_in_reservation(
            amounts(cpu=cpu), info, none_ignored, preemptible=amounts(**freed), detailed=False
        )
        assert found == lacks

    @pytest.mark.parametrize(
        ("pods", "freed", "full"), [(1, 0, False), (2, 0, True), (2, 1, False), (3, 1, True)]
    )
    def test_the_number_of_its_pods_is_bounded(self, pods: int, freed: int, full: bool) -> None:
        info = holding(pods=pods, cpu="4")
        info.allocatable = {**info.allocatable, **amounts(pods="2")}
        for detailed, reason in (
            (False, "Too many pods"),
            (True, f"Too many pods, requested: 1, used: {pods - freed}, capacity: 2"),
        ):
            found = lacking_in_reservation(
                amounts(cpu="1"), info, none_ignored, preemptible=amounts(pods=str(freed)), detailed=detailed
            )
            assert found == ([reason] if full else [])


class TestOnANode:
    NODE = NodeAmounts(
        allocatable={"cpu": 4000, "memory": 8, "pods": 3, GPU: 2},
        requested={"cpu": 3500, "memory": 8, GPU: 1},
        pods=2,
        allocated={"cpu": 1000},
    )

    @pytest.mark.parametrize(
        ("request_", "lacking"),
        [
            ({"cpu": 1500}, []),  # what pods use of the matched reservations is counted twice
            ({"cpu": 1501}, ["cpu"]),
            ({"cpu": 100, "memory": 1}, ["memory"]),
            ({"cpu": 100, GPU: 1}, []),
            ({"cpu": 100, GPU: 2}, [GPU]),
            ({"cpu": 100, "example.com/none": 1}, ["example.com/none"]),
            ({"cpu": 1501, "memory": 1, GPU: 2}, ["cpu", "memory", GPU]),
        ],
    )
    def test_a_request_fits_into_what_is_left(self, request_: dict[str, int], lacking: list[str]) -> None:
        assert lacking_on_node(request_, self.NODE, none_ignored) == lacking

    def test_what_is_available_or_makes_way_is_left_too(self) -> None:
        wanted = {"cpu": 1800, "memory": 3}
        found = lacking_on_node(
            wanted,
            self.NODE,
            none_ignored,
            available={"cpu": 200, "memory": 1},
            preemptible={"cpu": 100, "memory": 2},
        )
        assert found == []
        wanted = {"cpu": 1801, "memory": 4}
        found = lacking_on_node(
            wanted,
            self.NODE,
            none_ignored,
            available={"cpu": 200, "memory": 1},
            preemptible={"cpu": 100, "memory": 2},
        )
        assert found == ["cpu", "memory"]

    @pytest.mark.parametrize(
        ("pods", "leaving", "crowded"), [(2, 0, False), (3, 0, True), (3, 1, False), (5, 2, True)]
    )
    def test_one_more_pod_has_to_have_its_place(self, pods: int, leaving: int, crowded: bool) -> None:
        node = NodeAmounts({"cpu": 4000, "pods": 3}, {}, pods, {})
        found = lacking_on_node({"cpu": 1}, node, none_ignored, leaving=leaving)
        assert found == (["pods"] if crowded else [])

    def test_a_full_node_and_one_that_takes_no_pods_lack_a_place(self) -> None:
        for allocatable in ({"cpu": 4000, "pods": 3}, {"cpu": 4000}):
            node = NodeAmounts(allocatable, {}, 3 if "pods" in allocatable else 0, {})
            assert lacking_on_node({"cpu": 1}, node, none_ignored) == ["pods"]

    def test_ignored_resources_are_not_compared_unless_every_node_has_them(self) -> None:
        wanted = {"cpu": 4000, GPU: 5}
        assert lacking_on_node(wanted, self.NODE, lambda name: name in (GPU, "cpu")) == ["cpu"]

    def test_what_kube_scheduler_allocates_on_a_node_is_not_compared(self) -> None:
        node = NodeAmounts({"cpu": 4000, "pods": 3}, {}, 0, {}, [GPU])
        assert lacking_on_node({"cpu": 1, GPU: 5}, node, none_ignored) == []
        assert lacking_on_node({"cpu": 4001, GPU: 5}, node, none_ignored) == ["cpu"]

    def test_a_node_with_less_than_nothing_refuses_what_requests_anything(self) -> None:
        node = NodeAmounts({"cpu": 4000, "pods": 3}, {"memory": 1}, 0, {})
        assert lacking_on_node({"cpu": 1}, node, none_ignored) == ["memory"]
        assert lacking_on_node({"cpu": 0}, node, none_ignored) == []
        assert lacking_on_node({}, node, none_ignored) == []
        assert lacking_on_node({"pods": 1}, node, none_ignored) == []


def test_a_reservation_concerns_a_pod_that_names_anything_it_holds() -> None:
    assert concerns(["cpu", "memory"], amounts(memory="0"))
    assert not concerns(["cpu"], amounts(memory="1"))
    assert not concerns([], amounts(memory="1"))


class TestScore:
    @pytest.mark.parametrize(
        ("info", "wanted", "score"),
        [
            (holding(cpu="4"), {"cpu": "2"}, 50),
            (holding(amounts(cpu="1"), cpu="4"), {"cpu": "2"}, 75),
            (holding(amounts(cpu="1"), cpu="4"), {"cpu": "3"}, 100),
            (holding(amounts(cpu="1"), cpu="4"), {"cpu": "3001m"}, 0),
            (holding(cpu="4", memory="4Gi"), {"cpu": "3"}, 37),  # (75 + 0) / 2
            (holding(cpu="4", memory="4Gi"), {"cpu": "3", "memory": "1Gi"}, 50),
            (holding(cpu="4", memory="0"), {"cpu": "3"}, 75),
            (holding(cpu="0", memory="4Gi"), {"memory": "1Gi"}, 25),
            (holding(), {"cpu": "3"}, 0),
        ],
    )
    def test_it_is_how_full_the_pod_makes_it(
        self, info: ReservationInfo, wanted: dict[str, str], score: int
    ) -> None:
        assert scoring.score(amounts(**wanted), info, {}) == score

    def test_what_preemption_frees_makes_it_emptier(self) -> None:
        info = holding(amounts(cpu="3"), cpu="4", memory="4Gi")
        wanted = amounts(cpu="1")
        assert scoring.score(wanted, info, {}) == 50
        assert scoring.score(wanted, info, amounts(cpu="2")) == 25
        assert scoring.score(wanted, info, amounts(cpu="9", gpu="1")) == 12
        assert scoring.score(wanted, info, amounts(memory="1Gi")) == 50

    def test_many_at_once_score_the_same(self) -> None:
        wanted = np.array([[2, 0], [3, 5], [5, 1], [3, 0], [0, 0], [4, 0], [1, 2], [1, 0]])
        most = np.array([[4, 0], [4, 10], [4, 4], [4, 4], [0, 0], [4, 0], [3, 3], [1, 0]])
        assert scoring.scores(wanted, most).tolist() == [50, 62, 12, 37, 0, 100, 49, 100]

    def test_the_fewer_pods_are_taken_over_the_better(self) -> None:
        assert [scoring.of_many(taken) for taken in (0, 1, 2, 3, 99, 100)] == [100, 50, 33, 25, 1, 0]

    @pytest.mark.parametrize(
        ("scores", "normal"),
        [
            ([], []),
            ([0, 0], [0, 0]),
            ([1, 0], [100, 0]),
            ([1000, 50, 999], [100, 5, 99]),
            ([40, 20], [100, 50]),
        ],
    )
    def test_the_highest_of_all_nodes_is_a_hundred(self, scores: list[int], normal: list[int]) -> None:
        with np.errstate(all="raise"):
            assert scoring.normalize(np.array(scores, np.int64)).tolist() == normal
