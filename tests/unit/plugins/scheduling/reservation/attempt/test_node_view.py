from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.cluster.columns import CPU, PODS
from tests.unit.scheduling.worlds import node, pod

from ..scenes import Scene, claimant, reservation, user


def test_what_is_reserved_is_kept_from_others_and_free_for_owners() -> None:
    scene = Scene(objects=[reservation("r", cpu="8")])
    assert scene.reasons(pod("other", "3")) == {"n1": ("Insufficient cpu",)}
    assert scene.fits(pod("small", "2"))
    assert scene.fits(claimant("owner", "r", "10"))


def test_what_owners_use_is_not_counted_twice() -> None:
    scene = Scene(objects=[reservation("r", cpu="8"), user("a", "r", "5")])
    assert scene.fits(pod("small", "2"))
    assert not scene.fits(pod("other", "3"))


def test_a_reservation_counts_as_a_pod_of_the_node() -> None:
    scene = Scene([node("n1", pods="1")], [reservation("r", cpu="1")])
    assert scene.reasons(pod("other")) == {"n1": ("Too many pods",)}
    assert scene.fits(claimant("owner", "r"))


def test_host_ports_of_a_reservation_are_taken_for_all_but_owners() -> None:
    scene = Scene(objects=[reservation("r", cpu="1", ports=[80])])
    ports = [{"name": "c", "ports": [{"hostPort": 80}]}]
    assert scene.reasons(pod("other", containers=ports)) == {
        "n1": ("node(s) didn't have free ports for the requested pod ports",)
    }
    assert scene.fits(claimant("owner", "r", containers=ports))


def test_a_pod_that_ignores_reservations_sees_none() -> None:
    scene = Scene(objects=[reservation("r", cpu="8"), user("a", "r", "5")])
    ignoring = claimant("x", cpu="5", labels={"scheduling.koordinator.sh/reservation-ignored": "true"})
    assert scene.fits(ignoring)
    assert not scene.fits(pod("other", "5"))


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed", "Waiting"])
def test_only_an_available_reservation_holds_anything(phase: str) -> None:
    scene = Scene(objects=[reservation("r", cpu="8", phase=phase)])
    assert scene.fits(pod("other", "9"))


def test_what_ends_or_is_deleted_is_free_again() -> None:
    scene = Scene(objects=[reservation("r", cpu="8")])
    assert not scene.fits(pod("other", "9"))
    scene.show(reservation("r", cpu="8", phase="Succeeded"))
    assert scene.fits(pod("other", "9"))
    scene.show(reservation("s", cpu="8"))
    assert not scene.fits(pod("other", "9"))
    scene.cluster.store(type(reservation("s"))).discard("s")
    assert scene.fits(pod("other", "9"))


def test_a_node_that_comes_later_has_its_reservations() -> None:
    scene = Scene([node("n1", cpu="10")], [reservation("r", "n2", cpu="8")])
    scene.cluster.store(type(node("n2"))).apply(node("n2", cpu="10"))
    assert scene.reasons(pod("other", "3")) == {"n2": ("Insufficient cpu",)}
    assert scene.fits(claimant("owner", "r", "10"))
    scene.cluster.store(type(node("n2"))).discard("n2")
    scene.cluster.store(type(node("n3"))).apply(node("n3", cpu="10"))
    assert scene.reasons(pod("other", "11")).keys() == {"n1", "n3"}
    assert scene.fits(pod("other", "10"))


def test_shown_pods_and_amounts_agree() -> None:
    scene = Scene(objects=[reservation("r", cpu="2"), reservation("s", cpu="3"), user("a", "s", "1")])
    wanted = claimant("owner", "r")
    state, _ = scene.find(wanted)
    shown = scene.plugin.transform_nodes(state, wanted, scene.nodes)
    assert shown.requested(CPU).tolist() == [3000]
    assert shown.requested(PODS).tolist() == [2]
    assert {each.metadata.name for each in shown.pods_on(int(shown.rows[0]))} == {"a", "uid-s"}


def test_scores_see_what_is_withheld() -> None:
    scene = Scene([node("n1", cpu="10"), node("n2", cpu="10")], [reservation("r", cpu="8")])
    wanted = pod("other", "1")
    state, outcome = scene.find(wanted)
    scores, _ = scene.framework.run_score(state, wanted, outcome.kept)
    assert scores is not None
    assert scores.by_plugin["NodeResourcesFit"][0] < scores.by_plugin["NodeResourcesFit"][1]


_CPU = st.integers(1, 6)


@st.composite
def _reservations(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [
        {
            "cpu": draw(_CPU),
            "matched": draw(st.booleans()),
            "used": draw(st.integers(0, 6)),
            "once": draw(st.booleans()),
            "settled": draw(st.booleans()),
        }
        for _ in range(draw(st.integers(0, 4)))
    ]


@settings(max_examples=100, deadline=None)
@given(_reservations(), st.integers(0, 6), st.booleans())
def test_what_is_withheld_is_what_is_reserved_less_what_is_used(
    made: list[dict[str, Any]], others: int, ignores: bool
) -> None:
    """Matched reservations give all back, other ones that are offered what their pods use."""
    scene = Scene([node("n1", cpu="100")], [pod("p", str(others), "0", "n1")])
    withheld, users = 0, others
    for i, each in enumerate(made):
        name, held, used = f"r{i}", each["cpu"], each["used"]
        owners = [{"object": {"name": "x" if each["matched"] else "nobody"}}]
        current = reservation(name, cpu=str(held), allocateOnce=each["once"], owners=owners)
        scene.show(current)
        if used:
            scene.show(user(f"u{i}", name, str(used)))
            if each["settled"]:
                scene.show(current)
        offered = not (used and each["once"] and each["settled"])
        users += used
        if not (offered and (each["matched"] or ignores)):
            withheld += held - (used if offered else 0)
    label = {"scheduling.koordinator.sh/reservation-ignored": "true"} if ignores else {}
    wanted = claimant("x", labels=label)
    state, _ = scene.find(wanted)
    shown = scene.plugin.transform_nodes(state, wanted, scene.nodes)
    assert shown.requested(CPU).tolist() == [1000 * (users + withheld)]
    assert shown.requested(PODS)[0] == len(list(shown.pods_on(int(shown.rows[0]))))
