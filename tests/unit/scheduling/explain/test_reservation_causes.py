"""Reservations that keep a pod waiting: which one, its problem, and the fix."""

import json
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import set_succeeded, set_unschedulable
from koordpy.scheduling.explain.cause import Cause
from koordpy.scheduling.explain.reservation_causes import reservation_causes
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import NOW, node, pod, reservation

ASKS = "scheduling.koordinator.sh/reservation-affinity"
SERVED = ("default-scheduler",)


def told(subject: Pod, *reservations: Reservation, pods: tuple[Pod, ...] = ()) -> list[Cause]:
    known = cluster(node("n", cpu=8), *pods, *reservations)
    known.store(Reservation)
    return list(reservation_causes(known, subject, SERVED))


def asking(name: str = "", **labels: str) -> Pod:
    affinity: dict[str, Any] = {"name": name} if name else {"reservationSelector": {"team": "a"}}
    return pod("web", labels=labels, annotations={ASKS: json.dumps(affinity)})


def test_a_reservation_that_does_not_exist_is_named() -> None:
    [cause] = told(asking("gone"))
    assert cause.cause == "ReservationMissing"
    assert "Reservation 'gone', which does not exist" in cause.message


def test_labels_that_no_reservation_has_are_reported() -> None:
    [cause] = told(asking(), reservation("r", on="n", labels={"team": "b"}))
    assert cause.cause == "ReservationMissing"
    assert "labels that none of the 1 Reservations has" in cause.message


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (reservation("r"), "has no node yet, and no attempt to place it was made"),
        (
            set_unschedulable(reservation("r"), "0/1 nodes are available: 1 Insufficient cpu.", NOW),
            "has no node yet: 0/1 nodes are available: 1 Insufficient cpu.",
        ),
        (
            reservation("r", spec={"template": {"spec": {"schedulerName": "nobody"}}}),
            "is scheduled by no profile: its template's schedulerName is 'nobody'",
        ),
        (set_succeeded(reservation("r", on="n"), NOW), "has ended: Succeeded"),
        (
            reservation("r", on="n", owners=[{"labelSelector": {"matchLabels": {"app": "other"}}}]),
            "is not for this pod: none of its spec.owners describes it",
        ),
        (
            reservation("r", on="n", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}),
            "has a taint that the pod does not tolerate: {k: v}",
        ),
    ],
)
def test_the_problem_of_a_reservation_is_reported(made: Reservation, message: str) -> None:
    [cause] = told(asking("r", **{"reserved-by": "r"}), made)
    assert cause.cause == "ReservationNotUsable"
    assert cause.message.startswith(f"Reservation r {message}")
    assert cause.fix


def test_a_usable_reservation_is_not_a_cause() -> None:
    assert told(asking("r", **{"reserved-by": "r"}), reservation("r", on="n")) == []


def test_an_invalid_affinity_is_reported() -> None:
    [cause] = told(pod("web", annotations={ASKS: "{"}), reservation("r", on="n"))
    assert cause.cause == "ReservationAffinityUnreadable"


def test_of_many_reservations_some_are_named_and_the_rest_counted() -> None:
    made = [reservation(f"r{i}", on="n", labels={"team": "a"}) for i in range(5)]
    *each, rest = told(asking(), *made)
    assert [cause.message.split()[1] for cause in each] == ["r0", "r1", "r2"]
    assert rest.message.startswith("2 more")


def test_a_reservation_that_holds_resources_is_named_with_its_amounts() -> None:
    held = reservation("held", cpu=6, memory="8Gi", on="n")
    [cause] = told(pod("web", cpu="3500m", memory="1Gi"), held)
    assert cause.cause == "HeldByReservation"
    assert cause.message.startswith("Reservation held holds cpu 6, memory 8192Mi of node n for other pods")


def test_a_reservation_is_not_blamed_for_requests_of_pods() -> None:
    held, full = reservation("held", cpu=6, on="n"), pod("full", cpu=6, on="n")
    assert told(pod("web", cpu=3), held, pods=(full,)) == []
    assert told(pod("web", cpu=1), reservation("small", cpu=1, on="n")) == []


def test_an_owner_is_not_kept_out_by_its_reservation() -> None:
    assert told(pod("web", cpu=3, labels={"reserved-by": "held"}), reservation("held", cpu=6, on="n")) == []


def test_without_followed_reservations_there_is_no_cause() -> None:
    assert list(reservation_causes(cluster(node("n")), asking("r"), SERVED)) == []
