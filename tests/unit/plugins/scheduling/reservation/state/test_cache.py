"""Whatever the order of events, the cache and its columns are what a rebuild from the objects gives."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.reservation import Reservation
from koordpy.cluster.cluster import Cluster
from koordpy_plugins.scheduling.reservation.state.cache import ReservationCache
from koordpy_plugins.scheduling.reservation.state.withheld import Withheld
from tests.unit.scheduling.worlds import node, pod

from ..scenes import copied, reservation, user

NODES = ("n1", "n2")
NAMES = ("a", "b", "c")
PODS = ("x", "y", "z")


@st.composite
def _event(draw: st.DrawFn) -> tuple[str, Any]:
    kind = draw(st.sampled_from(["reservation", "reservation", "pod", "pod", "node", "gone"]))
    if kind == "reservation":
        policy = draw(st.sampled_from(["Aligned", "Restricted", ""]))
        phase = draw(st.sampled_from(["Available", "Available", "Pending", "Succeeded", "Waiting"]))
        name, where = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NODES))
        made = reservation(
            name,
            "" if phase == "Pending" else where,
            str(draw(st.integers(1, 8))),
            phase=phase,
            allocatePolicy=policy,
            allocateOnce=draw(st.booleans()),
        )
        return "put", made
    if kind == "pod":
        name, of = draw(st.sampled_from(PODS)), draw(st.sampled_from((*NAMES, "nobody")))
        made_pod = user(name, of, str(draw(st.integers(1, 4))), draw(st.sampled_from((*NODES, ""))))
        if draw(st.booleans()):
            made_pod = pod(name, "1", "0", draw(st.sampled_from(NODES)))
        if draw(st.integers(0, 5)) == 0:
            made_pod.status.phase = "Succeeded"
        return "put", made_pod
    if kind == "node":
        return "put", node(draw(st.sampled_from(NODES)), cpu="8")
    type_ = draw(st.sampled_from([Reservation, Pod, Node]))
    names = {Reservation: NAMES, Pod: [f"default/{name}" for name in PODS], Node: NODES}[type_]
    return "discard", (type_, draw(st.sampled_from(names)))


class _World:
    def __init__(self) -> None:
        self.cluster = Cluster()
        assert len(self.cluster.nodes) == 0
        self.cache = self.cluster.shared(ReservationCache)
        self.withheld = self.cluster.shared(Withheld)

    def feed(self, events: list[tuple[str, Any]]) -> None:
        for action, what in events:
            if action == "put":
                self.cluster.store(type(what)).apply(what)
            else:
                self.cluster.store(what[0]).discard(what[1])

    def settle(self) -> None:
        """Let every Reservation be seen once more: only then it is matchable anew."""
        for each in list(self.cluster.store(Reservation)):
            self.cluster.store(Reservation).apply(copied(each))

    def state(self) -> dict[str, Any]:
        return {
            "infos": {
                uid: (info.allocatable, _nonzero(info.allocated), info.available, sorted(info.assigned))
                for uid, info in self.cache.infos.items()
            },
            "on_node": {name: sorted(infos) for name, infos in self.cache.on_node.items()},
            "matchable_on": {name: sorted(infos) for name, infos in self.cache.matchable.items()},
            "allocated_on": {name: sorted(uids) for name, uids in self.cache.allocated_on.items()},
            "columns": {name: self._columns(name) for name in NODES},
            "matchable": {
                info.uid: self._slot(slot)
                for slot, info in enumerate(self.withheld.matchable.infos)
                if info is not None
            },
        }

    def _columns(self, name: str) -> list[Any]:
        row = self.cluster.nodes.row_of(name)
        if row is None or self.cluster.nodes.node(row) is None:
            return []
        withheld = self.withheld
        amounts = [withheld.held, withheld.held_nonzero, withheld.given]
        flags = [withheld.used, withheld.allocated, withheld.has_matchable]
        return [*(each[row].tolist() for each in amounts), *(bool(each[row]) for each in flags)]

    def _slot(self, slot: int) -> list[Any]:
        matchable, table = self.withheld.matchable, self.cluster.nodes
        row = int(matchable.row[slot])
        where = table.name_of(row) if row >= 0 and table.node(row) is not None else ""
        arrays = (
            matchable.held,
            matchable.allocated,
            matchable.available,
            matchable.left,
            matchable.allocatable,
            matchable.names,
        )
        return [where, *(each[slot].tolist() for each in arrays), bool(matchable.used_up[slot])]


def _nonzero(amounts: Any) -> dict[str, Any]:
    return {name: amount for name, amount in (amounts or {}).items() if not amount.is_zero}


@settings(max_examples=100, deadline=None)
@given(st.lists(_event(), max_size=25))
def test_any_order_of_events_gives_what_a_rebuild_gives(events: list[tuple[str, Any]]) -> None:
    lived = _World()
    lived.feed(events)
    lived.settle()
    rebuilt = _World()
    for type_ in (Node, Reservation, Pod):
        rebuilt.feed([("put", each) for each in lived.cluster.store(type_)])
    rebuilt.settle()
    assert lived.state() == rebuilt.state()


def test_a_pod_that_is_seen_before_its_reservation_is_counted_in_it() -> None:
    world = _World()
    world.feed([("put", user("x", "a")), ("put", reservation("a"))])
    assert world.cache.infos["uid-a"].assigned.keys() == {"uid-x"}


def test_what_was_matchable_stays_so_until_the_reservation_changes() -> None:
    world = _World()
    world.feed([("put", reservation("a", allocateOnce=True)), ("put", user("x", "a"))])
    assert world.cache.matchable == {"n1": {"uid-a": world.cache.infos["uid-a"]}}
    world.settle()
    assert not world.cache.matchable


def test_an_invalid_reservation_is_not_taken_in() -> None:
    world = _World()
    world.feed([("put", reservation("a", owners=[]))])
    assert not world.cache.infos


def test_columns_follow_resources_that_come_later() -> None:
    world = _World()
    world.feed([("put", node("n1")), ("put", reservation("a", cpu="2"))])
    held = world.withheld.held.shape[1]
    made = reservation("b", cpu="1")
    made.status.allocatable = {"cpu": "1", "x.io/gpu": "2"}
    world.feed([("put", made)])
    row = world.cluster.nodes.row_of("n1")
    assert world.withheld.held.shape[1] == held + 1
    assert world.withheld.held[row].tolist() == [3000, 0, 0, 2, 2]
    assert np.count_nonzero(world.withheld.matchable.names.any(axis=1)) == 2
