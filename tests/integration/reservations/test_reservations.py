"""The life of Reservations on a cluster with a stock scheduler."""

import asyncio
import json

from click.testing import CliRunner

from koordpy.api.core import Node
from koordpy.api.extension import LABEL_RESERVATION_ORDER
from koordpy.api.reservation import AVAILABLE, FAILED, SUCCEEDED, Reservation
from koordpy.cli import cli
from koordpy.cluster.errors import NotFound
from koordpy.compose.process import Process
from tests.integration.reservations.stage import ALLOCATED, Stage
from tests.processes import extender_of, leads


async def test_a_reservation_becomes_available(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web")
    found = await stage.in_phase("web", AVAILABLE)
    assert found.node_name == "n1"
    assert found.status.allocatable == {"cpu": "4"}
    assert [(c.type, c.status) for c in found.status.conditions] == [("Scheduled", "True"), ("Ready", "True")]


async def test_an_unschedulable_reservation_has_a_reason_and_is_placed_when_a_node_is_added(
    stage: Stage,
) -> None:
    await stage.add_node("n1", cpu="2")
    await stage.start()
    await stage.reserve("web")

    async def message() -> str:
        return next((c.message for c in (await stage.reservation("web")).status.conditions), "")

    found = await stage.until(message, "the reservation does not say why it is pending")
    assert found.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    uid = (await stage.reservation("web")).metadata.uid
    [decision, *_] = extender_of(stage.process).decisions.of("default", uid)
    assert decision.reservation == "web"
    assert (decision.outcome, decision.rejections[0].plugin) == ("unschedulable", "NodeResourcesFit")
    await stage.add_node("n2")
    assert (await stage.in_phase("web", AVAILABLE)).node_name == "n2"


async def test_stock_pods_are_kept_off_and_owners_use_what_is_reserved(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "6", allocateOnce=False)
    reserved = await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("small", "2")
    assert await stage.node_of("small") == "n1"
    await stage.add_pod("stock", "2")
    assert "Insufficient cpu" in await stage.refusal("stock")
    await stage.add_pod("owner", "4", app="web")
    assert await stage.node_of("owner") == "n1"
    annotation = json.loads((await stage.pod("owner")).metadata.annotations[ALLOCATED])
    assert annotation == {"name": "web", "uid": reserved.metadata.uid}

    async def owned() -> Reservation | None:
        found = await stage.reservation("web")
        return found if found.status.current_owners else None

    status = (await stage.until(owned, "the reservation does not know its owner")).status
    assert [(owner.namespace, owner.name) for owner in status.current_owners] == [("default", "owner")]
    assert status.allocated == {"cpu": "4"}
    await stage.add_pod("second", "2", app="web")
    assert await stage.node_of("second") == "n1"
    await stage.refusal("stock")
    await stage.assert_nothing_is_booked_twice()


async def test_one_owner_uses_a_reservation_up(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "4", ttl="1h")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("owner", "1", app="web")
    await stage.node_of("owner")
    ended = await stage.in_phase("web", SUCCEEDED)
    assert [owner.name for owner in ended.status.current_owners] == ["owner"]
    await stage.assert_memory_equals_a_rebuild()
    await stage.add_pod("stock", "7")  # what the owner left of it is free
    assert await stage.node_of("stock") == "n1"


async def test_what_an_expired_reservation_held_is_free_again(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "6", ttl="8s")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("stock", "4")
    await stage.refusal("stock")
    ended = await stage.in_phase("web", FAILED)
    assert [(c.type, c.status, c.reason) for c in ended.status.conditions][1:] == [
        ("Ready", "False", "Expired")
    ]
    assert await stage.node_of("stock") == "n1"

    async def gone() -> bool:
        try:
            await stage.reservation("web")
        except NotFound:
            return True
        return False

    await stage.until(gone, "the expired reservation is not deleted")


async def test_what_a_deleted_reservation_held_is_free_again(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web", "6")
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("stock", "4")
    await stage.refusal("stock")
    await stage.client.delete(Reservation, "", "web")
    assert await stage.node_of("stock") == "n1"


async def test_a_reservation_fails_with_its_node(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.reserve("web")
    await stage.in_phase("web", AVAILABLE)
    await stage.client.delete(Node, "", "n1")
    await stage.in_phase("web", FAILED)


async def test_a_pod_that_wants_a_reservation_waits_for_it(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.add_pod("owner", "1", {"reservationSelector": {"pool": "a"}}, app="web")
    await stage.refusal("owner")
    await stage.reserve("web")
    await stage.in_phase("web", AVAILABLE)
    await stage.client.patch(Reservation, "", "web", {"metadata": {"labels": {"pool": "a"}}})
    assert await stage.node_of("owner") == "n1"
    assert ALLOCATED in (await stage.pod("owner")).metadata.annotations


async def test_pods_and_reservations_in_a_crowd_are_never_given_the_same(stage: Stage) -> None:
    for name in ("n1", "n2", "n3"):
        await stage.add_node(name)
    await stage.start()
    work = [stage.add_pod(f"p{i}", "1") for i in range(12)]
    work += [stage.reserve(f"r{i}", "2", allocateOnce=False) for i in range(9)]
    await asyncio.gather(*work)

    async def settled() -> bool:
        reservations = await stage.client.list_all(Reservation)
        placed = [reservation for reservation in reservations if reservation.is_available]
        pods = [await stage.pod(f"p{i}") for i in range(12)]
        bound = [pod for pod in pods if pod.spec.node_name]
        return 2 * len(placed) + len(bound) >= 23

    await stage.until(settled, "the cluster is not filled")
    await stage.assert_nothing_is_booked_twice()
    await stage.assert_memory_equals_a_rebuild()


async def test_a_restart_in_the_middle_loses_nothing_and_books_nothing_twice(stage: Stage) -> None:
    for name in ("n1", "n2"):
        await stage.add_node(name)
    await stage.start()
    await stage.reserve("web", "6", allocateOnce=False)
    first = await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("owner", "2", app="web")
    assert await stage.node_of("owner") == first.node_name
    await asyncio.gather(*(stage.reserve(f"r{i}", "3") for i in range(4)))
    await stage.restart_koordpy()
    await stage.add_pod("stock", "5")
    await stage.add_pod("second", "4", app="web")
    assert await stage.node_of("second") == first.node_name

    async def settled() -> bool:
        reservations = await stage.client.list_all(Reservation)
        return sum(3 for r in reservations if r.is_available and r.metadata.name != "web") >= 3

    await stage.until(settled, "no further reservation is placed")
    await stage.assert_nothing_is_booked_twice()
    await stage.assert_memory_equals_a_rebuild()
    info = (await stage.reservation("web")).status
    assert info.node_name == first.node_name


async def test_one_of_two_processes_schedules_reservations(stage: Stage) -> None:
    await stage.add_namespace("koordinator-system")
    await stage.add_node("n1")
    # Long enough for a busy machine; who stops gives the lead up.
    lease = {"leaseDuration": 60, "renewDeadline": 40, "retryPeriod": 0.2}
    one = await stage.serve(leaderElect=True, lease=lease)
    other = await stage.serve(leaderElect=True, lease=lease)
    await stage.reserve("first", "1")
    await stage.in_phase("first", AVAILABLE)
    assert leads(one) is not leads(other)
    leader = one if leads(one) else other
    stage.processes.remove(leader)
    await leader.stop()
    await stage.reserve("second", "1")
    await stage.in_phase("second", AVAILABLE)


async def test_the_process_that_the_scheduler_calls_schedules_reservations(stage: Stage) -> None:
    await stage.add_namespace("koordinator-system")
    await stage.add_node("n1")
    # Long enough for a busy machine; who stops gives the lead up.
    lease = {"leaseDuration": 60, "renewDeadline": 40, "retryPeriod": 0.2}
    for _ in range(2):
        await stage.serve(leaderElect=True, lease=lease)

    async def leading() -> list[Process]:
        return [process for process in stage.processes if leads(process)]

    [leader] = await stage.until(leading, "no leader")
    [asked] = [process for process in stage.processes if process is not leader]
    await stage.begin(asked)
    await stage.add_pod("p")
    await stage.node_of("p")

    async def moved() -> bool:
        return await leading() == [asked]

    await stage.until(moved, "the lead does not go to the process that is asked")
    await stage.reserve("web")
    await stage.in_phase("web", AVAILABLE)


async def test_why_names_the_reservation_of_a_pod_also_after_a_restart(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start(parts=["extender", "debug"])
    await stage.reserve("web", allocateOnce=False)
    await stage.in_phase("web", AVAILABLE)
    await stage.add_pod("owner", app="web")
    await stage.add_pod("stock")
    for name in ("owner", "stock"):
        await stage.node_of(name)
    assert "default/owner (profile default-scheduler): bound to n1 in Reservation web\n" in await why(
        stage, "default/owner"
    )
    assert "default/stock (profile default-scheduler): bound to n1\n" in await why(stage, "default/stock")
    await stage.restart_koordpy(parts=["extender", "debug"])
    assert "(schedulerName default-scheduler): bound on n1 in Reservation web\n" in await why(
        stage, "default/owner"
    )
    assert "(schedulerName default-scheduler): bound on n1\n" in await why(stage, "default/stock")


async def why(stage: Stage, pod: str) -> str:
    """Return what `koordpy why` prints about a pod."""
    server = ("--debug-server", stage.process.listeners["debug"].url)
    return (await asyncio.to_thread(CliRunner().invoke, cli, ["why", pod, *server])).output


async def test_replicas_that_come_at_once_use_a_reservation_each(stage: Stage) -> None:
    """The one that goes before all others attracts them all; only one pod can have it."""
    for number in range(4):
        await stage.add_node(f"n{number}")
    await stage.start()
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    for number in range(4):
        name = f"r{number}"
        await stage.reserve(name, "6", owners=owners)  # one on a node, the next pod would fit beside it
        await stage.in_phase(name, AVAILABLE)
        order = {"metadata": {"labels": {LABEL_RESERVATION_ORDER: str(1000 + number)}}}
        await stage.client.patch(Reservation, "", name, order)
    await asyncio.gather(*(stage.add_pod(f"p{number}", "1", app="web") for number in range(4)))
    used = set()
    for number in range(4):
        await stage.node_of(f"p{number}")
        pod = await stage.pod(f"p{number}")
        assert ALLOCATED in pod.metadata.annotations, f"{pod.metadata.name} is beside a reservation"
        used.add(json.loads(pod.metadata.annotations[ALLOCATED])["name"])
    assert used == {"r0", "r1", "r2", "r3"}
    await stage.assert_nothing_is_booked_twice()
