"""Anti-affinity and spread constraints keep pods from Reservations, which kube-scheduler does not know."""

from typing import Any

import pytest

from koordpy.api.reservation import AVAILABLE, Reservation
from tests.integration.reservations.stage import Stage

HOST = "kubernetes.io/hostname"
LABELS: dict[str, Any] = {"group": "alone"}

_AWAY = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": HOST}
AWAY: dict[str, Any] = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_AWAY]}}
}
SPREAD: dict[str, Any] = {
    "topologySpreadConstraints": [{**_AWAY, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
}


@pytest.mark.parametrize("choice", ["kube-scheduler", "koordpy"])
async def test_a_pod_is_not_bound_beside_a_reservation_that_its_anti_affinity_matches(
    stage: Stage, choice: str
) -> None:
    await stage.add_node("n1")
    await stage.start(nodeChoice=choice)
    await stage.reserve("web", "1", labels=LABELS, pod=AWAY)
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("alone", "1", spec=AWAY, **LABELS)
    assert "didn't match pod anti-affinity rules" in await stage.refusal("alone")
    await stage.add_pod("other", "1")
    assert await stage.node_of("other") == "n1"
    assert not (await stage.pod("alone")).spec.node_name
    await stage.add_node("n2")
    assert await stage.node_of("alone") == "n2"


async def test_a_pod_is_not_bound_beside_a_reservation_whose_anti_affinity_matches_it(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "1", pod=AWAY)
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("alone", "1", **LABELS)
    assert "didn't satisfy existing pods anti-affinity rules" in await stage.refusal("alone")


async def test_a_pod_that_was_kept_from_a_reservation_is_bound_when_that_is_gone(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "1", labels=LABELS)
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("alone", "1", spec=AWAY)
    await stage.refusal("alone")
    await stage.client.delete(Reservation, "", "web")
    assert await stage.node_of("alone") == "n1"


async def test_an_owner_is_bound_into_the_reservation_that_its_anti_affinity_matches(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "1", labels=LABELS, pod=AWAY)
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("owner", "1", affinity={}, spec=AWAY, app="web", **LABELS)
    assert await stage.node_of("owner") == "n1"


async def test_pods_are_spread_over_nodes_with_reservations_among_them(stage: Stage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.start()
    await stage.reserve("web", "1", labels=LABELS)
    taken = (await stage.in_phase("web", AVAILABLE)).node_name
    await stage.add_pod("first", "1", spec=SPREAD, **LABELS)
    assert await stage.node_of("first") != taken
    await stage.reserve("more", "1", labels=LABELS, pod={**SPREAD, "nodeSelector": {HOST: taken}})
    await stage.in_phase("more", AVAILABLE)
    # Two Reservations here, one pod there: kube-scheduler, which sees the pod alone, leaves this node only.
    await stage.add_pod("second", "1", spec=SPREAD, **LABELS)
    assert "didn't match pod topology spread constraints" in await stage.refusal("second")
    await stage.client.delete(Reservation, "", "more")
    assert await stage.node_of("second") == taken


async def test_reservations_keep_from_each_other(stage: Stage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.start()
    for name in ("web", "db"):
        await stage.reserve(name, "1", labels=LABELS, pod=AWAY)
    nodes = {(await stage.in_phase(name, AVAILABLE)).node_name for name in ("web", "db")}
    assert nodes == {"n1", "n2"}
