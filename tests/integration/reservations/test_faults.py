"""Reservations while the API server refuses, is busy, or answers into the void."""

import asyncio

import pytest

from koordpy.api.core import Pod
from koordpy.api.reservation import AVAILABLE, SUCCEEDED, Reservation
from koordpy.embedded.apiserver.server import Fault
from tests.integration.reservations.stage import ALLOCATED, Stage


def ours(stage: Stage) -> None:
    """Leave a test that needs to make an API server fail."""
    if stage.server is None:
        pytest.skip("kube-apiserver does not fail when it is told to")


async def test_status_writes_outlast_conflicts_and_a_busy_server(stage: Stage) -> None:
    ours(stage)
    assert stage.server is not None
    await stage.add_node("n1")
    await stage.start()
    answers = iter((409, 429, 409, 409, 500, 409))

    def faults(method: str, path: str) -> Fault | None:
        if method == "PATCH" and path.partition("?")[0].endswith("/status") and "/reservations/" in path:
            status = next(answers, 0)
            return Fault(status=status) if status else None
        return None

    stage.server.faults = faults
    await stage.reserve("web")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("owner", "1", app="web")
    await stage.in_phase("web", SUCCEEDED)
    await stage.assert_nothing_is_booked_twice()


@pytest.mark.parametrize("fault", [Fault(cut=True, after=True), Fault(status=504, after=True)])
async def test_a_status_that_was_written_unheard_counts(stage: Stage, fault: Fault) -> None:
    ours(stage)
    assert stage.server is not None
    await stage.add_node("n1")
    await stage.start()
    first = iter((fault,))
    stage.server.faults = lambda method, path: (
        next(first, None) if method == "PATCH" and "/reservations/web/status" in path else None
    )
    await stage.reserve("web", "6")
    assert (await stage.in_phase("web", AVAILABLE)).node_name == "n1"
    await stage.reserve("other", "6")
    await asyncio.sleep(0.5)
    assert not (await stage.reservation("other")).node_name
    await stage.assert_nothing_is_booked_twice()


async def test_an_owner_that_cannot_be_bound_leaves_its_reservation_to_another(stage: Stage) -> None:
    ours(stage)
    assert stage.server is not None
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "6")
    await stage.in_phase("web", AVAILABLE)
    stage.server.faults = lambda method, path: (
        Fault(status=500) if method == "POST" and "/pods/broken/binding" in path else None
    )
    await stage.add_pod("broken", "4", app="web")

    async def failed() -> bool:
        conditions = (await stage.pod("broken")).status.conditions
        return any(condition.reason == "SchedulerError" for condition in conditions)

    await stage.until(failed, "the bind does not fail")
    await stage.delete_pod("broken")
    await stage.add_pod("owner", "4", app="web")
    assert await stage.node_of("owner") == "n1"
    ended = await stage.in_phase("web", SUCCEEDED)
    assert [owner.name for owner in ended.status.current_owners] == ["owner"]


async def test_reservations_are_scheduled_again_after_the_watch_was_lost(stage: Stage) -> None:
    ours(stage)
    assert stage.server is not None
    await stage.add_node("n1")
    await stage.start()
    stage.server.cut_watches()
    await stage.reserve("web", "2")
    await stage.in_phase("web", AVAILABLE)
    stage.server.cut_watches()
    await stage.add_pod("owner", "1", app="web")
    await stage.node_of("owner")
    assert ALLOCATED in (await stage.client.get(Pod, "default", "owner")).metadata.annotations
    await stage.in_phase("web", SUCCEEDED)
    await stage.client.delete(Reservation, "", "web")
    await stage.add_pod("stock", "7")
    assert await stage.node_of("stock") == "n1"
