import asyncio

import pytest

from koordpy.api.reservation import AVAILABLE, FAILED, Reservation, ReservationStatus
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.embedded.apiserver.server import Fault
from koordpy.scheduling.interface.pod_queues import ClusterEvent

from .stage import staged


async def test_a_reservation_becomes_available_on_a_node() -> None:
    async with staged("n1") as stage:
        await stage.add("r")
        assert await stage.node_of("r") == "n1"
        found = await stage.get("r")
        assert found.status.phase == AVAILABLE
        assert found.status.allocatable == {"cpu": "1"}
        assert [(c.type, c.status, c.reason) for c in found.status.conditions] == [
            ("Scheduled", "True", "Scheduled"),
            ("Ready", "True", "Available"),
        ]
        await stage.stop()
        (event,) = await stage.events("Scheduled")
        assert event.note == "Successfully assigned r to n1"
        assert (event.type, event.action, event.regarding.name) == ("Normal", "Binding", "r")
        assert stage.scheduler.queue.pool_of(found.metadata.uid) is None


async def test_each_reservation_gets_a_separate_node_and_the_last_one_waits() -> None:
    async with staged("n1", "n2") as stage:
        for name in ("a", "b", "c"):
            await stage.add(name)
        await stage.until(lambda: sum(bool(r.node_name) for r in stage.cluster.store(Reservation)) == 2)
        pending = next(r for r in stage.cluster.store(Reservation) if not r.node_name)
        message = await stage.message_of(pending.metadata.name)
        assert message == "0/2 nodes are available: 2 node is reserved. no victim makes room"
        condition = stage.known(pending.metadata.name).status.conditions[0]
        assert (condition.type, condition.status, condition.reason) == ("Scheduled", "False", "Unschedulable")
        placed = next(r for r in stage.cluster.store(Reservation) if r.node_name)
        await stage.client.delete(Reservation, "", placed.metadata.name)
        assert await stage.node_of(pending.metadata.name) == placed.node_name


@pytest.mark.parametrize("all_pods", [False, True])
async def test_a_plugin_can_make_reservations_be_retried(all_pods: bool) -> None:
    async with staged("n1") as stage:
        stage.plugin.held["n1"] = "held by what no object shows"
        await stage.add("r")
        await stage.message_of("r")
        uid = stage.known("r").metadata.uid
        await stage.until(lambda: stage.scheduler.queue.pool_of(uid) == "unschedulable")
        stage.plugin.held.clear()
        if all_pods:
            stage.handle.queue.move_all(ClusterEvent(Reservation, old=stage.known("r")))
        else:
            stage.handle.queue.activate([new_reserve_pod(stage.known("r"))])
        assert await stage.node_of("r") == "n1"


async def test_the_more_important_reservation_goes_first() -> None:
    async with staged() as stage:
        await stage.add("low", pod={"priority": 1})
        await stage.add("high", pod={"priority": 2})
        await stage.message_of("low")
        await stage.message_of("high")
        await stage.stop()
        await stage.add_node("n1")
        await stage.start()
        assert await stage.node_of("high") == "n1"
        assert not stage.known("low").node_name


async def test_a_failed_attempt_is_an_event() -> None:
    async with staged() as stage:
        await stage.add("r")
        assert await stage.message_of("r") == "no nodes available to schedule pods"
        await stage.stop()
        (event,) = await stage.events("FailedScheduling")
        assert (event.type, event.action) == ("Warning", "Scheduling")
        assert event.note == "no nodes available to schedule pods"


async def test_what_preemption_frees_is_held_for_the_next_attempt() -> None:
    async with staged("n1") as stage:
        stage.plugin.held["n1"] = "somebody"
        stage.plugin.promises = "n1"
        await stage.add("r")
        await stage.message_of("r")
        nominator = stage.handle.nominator
        (promised,) = nominator.pods_on("n1")
        assert promised.metadata.uid == stage.known("r").metadata.uid
        del stage.plugin.held["n1"]
        await stage.add_node("n0")
        await stage.node_of("r")
        assert not nominator


async def test_nothing_is_held_for_a_deleted_reservation() -> None:
    async with staged("n1") as stage:
        stage.plugin.held["n1"] = "somebody"
        stage.plugin.promises = "n1"
        await stage.add("r")
        await stage.message_of("r")
        assert stage.handle.nominator
        await stage.client.delete(Reservation, "", "r")
        await stage.until(lambda: not stage.handle.nominator)


async def test_a_reservation_of_another_scheduler_is_left_alone() -> None:
    async with staged("n1") as stage:
        await stage.add("r", pod={"schedulerName": "another"})
        await stage.add("other")
        await stage.node_of("other")
        assert (await stage.get("r")).status == ReservationStatus()


async def test_a_reservation_that_gets_a_profile_is_scheduled() -> None:
    async with staged("n1") as stage:
        await stage.add("r", pod={"schedulerName": "another"})
        patch = {"spec": {"template": {"spec": {"schedulerName": "default-scheduler"}}}}
        await stage.client.patch(Reservation, "", "r", patch)
        assert await stage.node_of("r") == "n1"


async def test_annotations_of_pre_bind_are_written_before_the_status() -> None:
    async with staged("n1") as stage:
        stage.plugin.writes = {
            "scheduling.koordinator.sh/reservation-resize-allocatable": '{"resources":{"cpu":"3"}}'
        }
        await stage.add("r")
        await stage.node_of("r")
        found = await stage.get("r")
        assert found.metadata.annotations == stage.plugin.writes


async def test_labels_of_pre_bind_are_written_in_the_same_patch() -> None:
    patches: list[str] = []

    def faults(method: str, path: str) -> Fault | None:
        if method == "PATCH":
            patches.append(path.partition("?")[0].rpartition("reservations/")[2])
        return None

    async with staged("n1", faults=faults) as stage:
        stage.plugin.writes, stage.plugin.labels = {"test/a": "1"}, {"test/l": "2"}
        await stage.add("r")
        await stage.node_of("r")
        meta = (await stage.get("r")).metadata
        assert (meta.annotations, meta.labels) == ({"test/a": "1"}, {"test/l": "2"})
        assert (patches[0], patches.count("r")) == ("r", 1)


async def test_writes_of_pre_bind_are_reverted_when_the_bind_fails() -> None:
    async with staged("n1") as stage:
        stage.plugin.writes, stage.plugin.labels = {"test/a": "1"}, {"test/l": "2"}
        stage.plugin.refuses_binds = True
        await stage.add("r", metadata={"labels": {"test/l": "before"}})
        assert "not now" in await stage.message_of("r")
        stage.plugin.writes, stage.plugin.labels = {}, {}
        stage.plugin.refuses_binds = False
        await stage.node_of("r")
        meta = (await stage.get("r")).metadata
        assert (meta.annotations, meta.labels) == ({}, {"test/l": "before"})


async def test_conflicts_and_a_busy_server_are_retried() -> None:
    failures = iter((409, 429, 409))

    def faults(method: str, path: str) -> Fault | None:
        if method == "PATCH" and "/reservations/r/status" in path:
            status = next(failures, 0)
            return Fault(status=status) if status else None
        return None

    async with staged("n1", faults=faults) as stage:
        await stage.add("r")
        assert await stage.node_of("r") == "n1"
        assert stage.plugin.held == {"n1": stage.known("r").metadata.uid}


async def test_a_write_with_a_lost_answer_counts() -> None:
    cut = iter((True, True, True, True))

    def faults(method: str, path: str) -> Fault | None:
        if method == "PATCH" and "/reservations/r/status" in path and next(cut, False):
            return Fault(status=504, after=True)
        return None

    async with staged("n1", faults=faults) as stage:
        await stage.add("r")
        assert await stage.node_of("r") == "n1"
        await asyncio.sleep(0.05)
        assert stage.plugin.held == {"n1": stage.known("r").metadata.uid}
        assert (await stage.get("r")).status.phase == AVAILABLE


async def test_a_failed_bind_rolls_everything_back_and_is_retried() -> None:
    refusals = iter((True,))

    def faults(method: str, path: str) -> Fault | None:
        if method == "PATCH" and "/reservations/r/status" in path and next(refusals, False):
            return Fault(status=500)
        return None

    async with staged("n1", faults=faults) as stage:
        await stage.add("r")
        assert await stage.node_of("r") == "n1"


async def test_a_waiting_reservation_is_dropped_when_it_is_deleted() -> None:
    async with staged("n1") as stage:
        stage.plugin.waits = 60
        await stage.add("r")
        await stage.until(lambda: len(stage.handle.waiting_pods) == 1)
        assert stage.plugin.held
        await stage.client.delete(Reservation, "", "r")
        await stage.until(lambda: not stage.plugin.held)
        stage.plugin.waits = 0
        await stage.add("next")
        assert await stage.node_of("next") == "n1"


async def test_a_waiting_reservation_proceeds_when_it_is_allowed() -> None:
    async with staged("n1") as stage:
        stage.plugin.waits = 60
        await stage.add("r")
        await stage.until(lambda: len(stage.handle.waiting_pods) == 1)
        for waiting in stage.handle.waiting_pods:
            waiting.allow("Reservation")
        assert await stage.node_of("r") == "n1"


async def test_a_reservation_that_changed_schedulers_while_waiting_is_not_bound() -> None:
    async with staged("n1") as stage:
        stage.plugin.waits = 60
        await stage.add("r")
        await stage.until(lambda: len(stage.handle.waiting_pods) == 1)
        patch = {"spec": {"template": {"spec": {"schedulerName": "another"}}}}
        await stage.client.patch(Reservation, "", "r", patch)
        await stage.until(lambda: not stage.plugin.held)
        assert (await stage.get("r")).node_name == ""


async def test_attempts_in_progress_are_rolled_back_when_leadership_is_lost() -> None:
    async with staged("n1") as stage:
        stage.plugin.waits = 60
        await stage.add("r")
        await stage.until(lambda: len(stage.handle.waiting_pods) == 1)
        await stage.stop()
        assert stage.plugin.held == {}
        stage.plugin.waits = 0
        await stage.start()
        assert await stage.node_of("r") == "n1"


async def test_writes_in_flight_are_finished_when_leadership_is_lost() -> None:
    slow = iter((True,))

    def faults(method: str, path: str) -> Fault | None:
        if method == "PATCH" and "/reservations/r/status" in path and next(slow, False):
            return Fault(delay=0.3)
        return None

    async with staged("n1", faults=faults) as stage:
        await stage.add("r")
        await stage.until(lambda: stage.plugin.held)
        await stage.stop()
        assert (await stage.get("r")).status.phase == AVAILABLE


async def test_a_failed_reservation_is_not_scheduled_again() -> None:
    async with staged() as stage:
        await stage.add("r")
        await stage.message_of("r")
        await stage.client.patch_status(Reservation, "", "r", {"status": {"phase": FAILED}})
        await stage.until(lambda: stage.known("r").status.phase == FAILED)
        await stage.add_node("n1")
        await stage.add("other")
        assert await stage.node_of("other") == "n1"
        assert stage.known("r").node_name == ""
