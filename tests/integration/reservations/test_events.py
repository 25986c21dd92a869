"""What a pod is told that needs a reservation and gets none."""

from koordpy.api.reservation import AVAILABLE
from tests.integration.reservations.stage import Stage

REASON = "FailedScheduling-Reservation"


async def told(stage: Stage, name: str) -> str:
    """Wait until a pod has an event about reservations and return what it says."""

    async def notes() -> list[str]:
        return [event.note for event in await stage.events(REASON) if event.regarding.name == name]

    found: list[str] = await stage.until(notes, f"pod {name} is told nothing of reservations")
    return found[0]


async def test_reservations_that_are_too_small_are_counted(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "2", allocatePolicy="Restricted")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("p", "3", affinity={"reservationSelector": {}}, app="web")
    await stage.refusal("p")
    assert await told(stage, "p") == ("0/1 reservations are available: 1 Reservation(s) Insufficient cpu.")


async def test_reservations_that_are_for_others_are_not_counted(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "2")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("p", "1", affinity={"reservationSelector": {}}, app="other")
    await stage.refusal("p")
    assert (await told(stage, "p")).startswith("0/0 reservations are available: ")


async def test_reservations_with_other_labels_are_counted_as_such(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "2")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("p", "1", affinity={"reservationSelector": {"zone": "x"}}, app="web")
    await stage.refusal("p")
    assert await told(stage, "p") == (
        "0/1 reservations are available: 1 Reservation(s) didn't match affinity rules."
    )


async def test_a_pod_that_needs_no_reservation_gets_no_event_about_one(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "6")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("p", "4")
    assert "Insufficient cpu" in await stage.refusal("p")
    await stage.add_pod("q", "4", affinity={"reservationSelector": {}}, app="other")
    await told(stage, "q")
    assert {event.regarding.name for event in await stage.events(REASON)} == {"q"}
