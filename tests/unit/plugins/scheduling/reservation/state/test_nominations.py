"""Nominations: which reservation a pod that is not bound yet will use on which node."""

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy_plugins.scheduling.reservation.state.nominations import Nominations
from tests.unit.scheduling.worlds import node, pod

from ..scenes import Scene, copied, pending, reservation


class Stage(Scene):
    """Reservations on two nodes, and nominations of nothing yet."""

    def __init__(self) -> None:
        super().__init__([node("n1"), node("n2")], [reservation("r", "n1"), reservation("s", "n2")])
        self.infos = self.plugin.cache.infos
        self.nominations = Nominations(
            self.plugin.cache, self.cluster.store(Pod), self.cluster.store(Reservation)
        )

    def nominated(self, *pods: Pod) -> None:
        """Nominate each pod to both reservations."""
        for each in pods:
            assert self.nominations.add(each, "n1", self.infos["uid-r"])
            assert self.nominations.add(each, "n2", self.infos["uid-s"])


def test_each_pod_has_a_reservation_a_node() -> None:
    stage = Stage()
    x, y = pod("x"), pod("y")
    stage.nominated(x)
    assert stage.nominations.get(x, "n1") is stage.infos["uid-r"]
    assert stage.nominations.get(x, "n2") is stage.infos["uid-s"]
    assert stage.nominations.get(x, "n3") is None
    assert stage.nominations.get(y, "n1") is None
    assert stage.nominations.has(x)
    assert not stage.nominations.has(y)


def test_forgetting_one_pod_leaves_the_others() -> None:
    stage = Stage()
    x, y = pod("x"), pod("y")
    stage.nominated(x, y)
    stage.nominations.discard(x)
    assert not stage.nominations.has(x)
    assert stage.nominations.get(y, "n1") is stage.infos["uid-r"]


def test_a_bound_pod_is_not_nominated_but_one_in_its_place_is() -> None:
    stage = Stage()
    stage.show(pod("x", node_name="n1"), pod("z"))
    assert not stage.nominations.add(pod("x"), "n1", stage.infos["uid-r"])
    assert not stage.nominations.has(pod("x"))
    stage.nominated(pod("x", uid="uid-of-another"), pod("z"), pod("unknown"))


def test_only_an_active_reservation_is_nominated() -> None:
    stage = Stage()
    info, wanted = stage.infos["uid-r"], pod("x")
    for changed in (copied(reservation("r"), uid="another"), reservation("r", phase="Failed")):
        stage.show(changed)
        assert not stage.nominations.add(wanted, "n1", info)
    stage.cluster.store(Reservation).discard("r")
    assert not stage.nominations.add(wanted, "n1", info)
    stage.show(pending("r"))
    assert not stage.nominations.add(wanted, "n1", info)
    stage.show(reservation("r"))
    assert stage.nominations.add(wanted, "n1", info)


def test_a_nomination_shows_the_reservation_as_it_is_now() -> None:
    stage = Stage()
    x = pod("x")
    stage.nominated(x)
    before = stage.infos["uid-r"]
    assert stage.nominations.stands(before)
    stage.cluster.store(Reservation).discard("r")
    assert stage.nominations.get(x, "n1") is None
    assert not stage.nominations.stands(before)
    stage.show(reservation("r"))
    assert stage.nominations.get(x, "n1") is stage.infos["uid-r"]
    assert not stage.nominations.stands(before)


def test_nominations_end_when_their_pod_is_bound_ends_or_is_deleted() -> None:
    stage = Stage()
    pods = [pod(name) for name in "abcde"]
    stage.show(*(each for each in pods if each.metadata.name != "d"))  # which the watch shows late
    stage.nominated(*pods)
    stage.show(pod("a", node_name="n1"), pod("b", status={"phase": "Failed"}), pod("e", cpu="2"))
    stage.show(pod("d", node_name="n1"))
    stage.cluster.store(Pod).discard("default/c")
    assert [each.metadata.name for each in pods if stage.nominations.has(each)] == ["e"]
