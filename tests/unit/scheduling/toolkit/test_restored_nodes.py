import numpy as np
import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.toolkit.restored_nodes import Infos, RememberedNodes, RestoredNodes

Names = tuple[list[str], list[str]]


@pytest.fixture
def nodes() -> NodeSet:
    """Nodes a to e; e has no reservations."""
    cluster = Cluster()
    for name in "abcde":
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": name}}))
    return cluster.nodes.all()


def pairs(nodes: NodeSet, *at: tuple[int, str]) -> ReservationPairs:
    pod = decode(Pod, {"metadata": {"name": "p", "namespace": "default"}})
    infos = [
        ReservationInfo(decode(Reservation, {"metadata": {"name": name, "uid": name}})) for _, name in at
    ]
    return ReservationPairs(nodes, np.array([node for node, _ in at], np.int64), [pod] * len(at), infos)


class Finder:
    """Finds the names of reservations, on node d nothing; and counts its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, node_name: str, matched: Infos, unmatched: Infos) -> Names | None:
        self.calls.append(node_name)
        if node_name == "d":
            return None
        return [info.uid for info in matched], [info.uid for info in unmatched]


def restored(nodes: NodeSet, find: Finder) -> RestoredNodes[Names]:
    matched = pairs(nodes, (0, "r0"), (0, "r1"), (2, "r2"))
    return RestoredNodes.of_pairs(matched, pairs(nodes, (1, "r3"), (2, "r4"), (3, "r5")), find)


def test_a_node_is_found_out_once_and_only_if_it_is_asked_for(nodes: NodeSet) -> None:
    find = Finder()
    found = restored(nodes, find)
    assert find.calls == []
    for _ in range(2):
        assert found.on("a") == (["r0", "r1"], [])
        assert found.on("d") is None
        assert found.on("e") is None
    assert find.calls == ["a", "d"]


def test_among_nodes_are_those_on_which_anything_is_held(nodes: NodeSet) -> None:
    find = Finder()
    found = restored(nodes, find)
    some = nodes.pick(np.array([1, 2, 3, 4]))
    assert found.among(some) == {0: ([], ["r3"]), 1: (["r2"], ["r4"])}
    assert find.calls == ["b", "c", "d"]


def test_what_is_kept_replaces_what_was_found(nodes: NodeSet) -> None:
    found = restored(nodes, Finder())
    found.keep("a", None)
    found.keep("e", (["mine"], []))
    assert found.on("a") is None
    assert set(found.among(nodes)) == {1, 2, 4}


def test_without_reservations_nothing_is_held(nodes: NodeSet) -> None:
    found = RestoredNodes[Names]()
    assert found.on("a") is None
    assert found.among(nodes) == {}
    found.keep("b", (["mine"], []))
    assert set(found.among(nodes)) == {1}


class Counted:
    """Finds what a Finder finds, for a version that tests set; remembers it."""

    def __init__(self, *, max_bytes: int = 1 << 20) -> None:
        self.find, self.version = Finder(), 1
        self.remembered = RememberedNodes[Names](
            "test_restored",
            lambda _: self.version,
            self.find,
            size=lambda *_: 500,
            own=lambda found: (list(found[0]), list(found[1])),
            max_bytes=max_bytes,
        )


def infos(*names: str) -> list[ReservationInfo]:
    return [ReservationInfo(decode(Reservation, {"metadata": {"name": name, "uid": name}})) for name in names]


def test_what_was_found_is_remembered_until_the_node_or_a_reservation_changes() -> None:
    counted = Counted()
    (one, other), remembered = infos("r0", "r1"), counted.remembered
    for _ in range(2):
        assert remembered("a", [one], [other]) == (["r0"], ["r1"])
    assert counted.find.calls == ["a"]
    counted.version = 2
    assert remembered("a", [one], [other]) == (["r0"], ["r1"])
    other.revision += 1
    assert remembered("a", [one], [other]) == (["r0"], ["r1"])
    assert remembered("a", [one], infos("r1")) == (["r0"], ["r1"])
    assert counted.find.calls == ["a"] * 4


def test_pods_that_may_use_other_reservations_find_others() -> None:
    counted = Counted()
    one, other = infos("r0", "r1")
    for _ in range(2):
        assert counted.remembered("a", [one], [other]) == (["r0"], ["r1"])
        assert counted.remembered("a", [], [one, other]) == ([], ["r0", "r1"])
    assert counted.find.calls == ["a"] * 2


def test_a_node_without_anything_is_remembered_too() -> None:
    counted = Counted()
    held = infos("r0")
    assert counted.remembered("d", held, []) is counted.remembered("d", held, []) is None
    assert counted.find.calls == ["d"]


def test_attempts_may_change_what_they_get() -> None:
    counted = Counted()
    held = infos("r0")
    for _ in range(2):
        found = counted.remembered("a", held, [])
        assert found == (["r0"], [])
        found[0].append("mine")
    assert counted.find.calls == ["a"]


def test_what_is_too_large_is_found_anew() -> None:
    counted = Counted(max_bytes=8000)
    held = infos("r0")
    for _ in range(2):
        assert counted.remembered("a", held, []) == (["r0"], [])
    assert counted.find.calls == ["a"] * 2
