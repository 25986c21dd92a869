import asyncio
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from koordpy import data
from koordpy.api.core import Node, Pod
from koordpy.api.meta import format_time
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import Fault
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface import gates
from koordpy.scheduling.interface.handle import Handle
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.scheduling.reservation.args import ReservationArgs
from koordpy_plugins.scheduling.reservation.controller.controller import ReservationController, key_of
from tests.eventually import PATIENCE
from tests.unit.scheduling.reservations.stage import reservation
from tests.unit.scheduling.worlds import NOW, node, pod_document

ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"


class World:
    """A controller, an API server to write to, and stores that show what is there when `look` is called."""

    def __init__(self, *, cleans: bool = False) -> None:
        self.clock = FakeClock(NOW)
        self.server = ApiServer(crds=[data.deploy("crds")], clock=self.clock)
        self.client = Client(ServerChannel(self.server))
        self.cluster = Cluster(self.clock)
        self.cluster.store(Node).apply(node("n1"))
        handle = Handle(self.cluster, client=self.client, clock=self.clock)
        handle.gates = FeatureGates(gates.SPECS, {gates.CLEAN_EXPIRED_RESERVATION_ALLOCATED: cleans})
        self.controller = ReservationController(handle, ReservationArgs())

    async def add(self, name: str, phase: str = "Available", **spec: Any) -> Reservation:
        status = spec.pop("status", {})
        await self.server.load()
        await self.client.create_raw(resource_of(Reservation), "", reservation(name, **spec))
        placed = {"nodeName": "n1", "phase": phase, "allocatable": {"cpu": "10", "memory": "10Gi"}}
        await self.client.patch_status(Reservation, "", name, {"status": {**placed, **status}})
        return await self.look(name)

    async def look(self, name: str) -> Reservation:
        """Let the stores see a Reservation as it is now."""
        found = await self.client.get(Reservation, "", name)
        self.cluster.store(Reservation).apply(found)
        return found

    async def add_pod(self, name: str, of: Reservation, node_name: str = "n1", **amounts: str) -> Pod:
        document = pod_document(name, node_name=node_name)
        requests = {"cpu": "2", "memory": "2Gi", **amounts}
        document["spec"]["containers"][0] |= {"image": "i", "resources": {"requests": requests}}
        text = f'{{"name":"{of.metadata.name}","uid":"{of.metadata.uid}"}}'
        document["metadata"] |= {"annotations": {ALLOCATED: text}}
        del document["metadata"]["uid"]
        document |= {"apiVersion": "v1", "kind": "Pod"}
        await self.client.create_raw(resource_of(Pod), "default", document)
        made = await self.client.get(Pod, "default", name)
        self.cluster.store(Pod).apply(made)
        return made

    async def sync(self, of: Reservation) -> float | None:
        return await self.controller.sync(key_of(of))


async def test_owners_and_what_they_use_are_written() -> None:
    world = World()
    held = await world.add("r", allocateOnce=False)
    pods = [await world.add_pod(f"p{i}", held, **{"ephemeral-storage": "10Gi"}) for i in range(3)]
    assert await world.sync(held) == 15
    status = (await world.look("r")).status
    assert [owner.uid for owner in status.current_owners] == sorted(pod.metadata.uid for pod in pods)
    assert {owner.name for owner in status.current_owners} == {"p0", "p1", "p2"}
    assert status.allocated == {"cpu": "6", "memory": "6Gi"}
    assert status.phase == "Available"


async def test_nothing_is_written_where_nothing_changed() -> None:
    world = World()
    held = await world.add("r", allocateOnce=False)
    await world.add_pod("p", held)
    await world.sync(held)
    before = await world.look("r")
    await world.sync(held)
    assert (await world.look("r")).metadata.resource_version == before.metadata.resource_version


async def test_an_owner_that_goes_is_taken_out() -> None:
    world = World()
    held = await world.add("r", allocateOnce=False)
    await world.add_pod("p", held)
    await world.sync(held)
    await world.look("r")
    world.cluster.store(Pod).discard("default/p")
    await world.sync(held)
    status = (await world.look("r")).status
    assert (status.current_owners, status.allocated) == ([], {})


async def test_one_owner_uses_a_reservation_up() -> None:
    world = World()
    held = await world.add("r")
    for i in range(4):
        await world.add_pod(f"p{i}", held, **{"ephemeral-storage": "10Gi"})
    assert await world.sync(held) is None
    status = (await world.look("r")).status
    assert status.phase == "Succeeded"
    assert status.allocated == {"cpu": "8", "memory": "8Gi"}
    assert [(c.type, c.status, c.reason) for c in status.conditions] == [("Ready", "False", "Succeeded")]


async def test_pods_on_other_nodes_and_of_other_reservations_are_no_owners() -> None:
    world = World()
    held, other = await world.add("r"), await world.add("other")
    await world.add_pod("elsewhere", held, node_name="n2")
    await world.add_pod("another", other)
    await world.sync(held)
    assert (await world.look("r")).status.current_owners == []


@pytest.mark.parametrize(
    ("spec", "age", "phase"),
    [
        ({"ttl": "1m"}, 59, "Available"),
        ({"ttl": "1m"}, 61, "Failed"),
        ({"ttl": "0s", "expires": format_time(NOW + timedelta(seconds=10))}, 3600, "Available"),
        ({"ttl": "1h", "expires": format_time(NOW + timedelta(seconds=10))}, 9, "Available"),
        ({"ttl": "1h", "expires": format_time(NOW + timedelta(seconds=10))}, 11, "Failed"),
        ({"expires": format_time(NOW + timedelta(hours=48))}, 25 * 3600, "Failed"),
    ],
)
async def test_a_reservation_expires(spec: dict[str, str], age: int, phase: str) -> None:
    world = World()
    held = await world.add("r", **spec)
    world.clock.advance(age)
    await world.sync(held)
    found = await world.look("r")
    assert found.status.phase == phase
    if phase == "Failed":
        assert [(c.type, c.status, c.reason) for c in found.status.conditions] == [
            ("Ready", "False", "Expired")
        ]


async def test_a_reservation_expires_with_its_node() -> None:
    world = World()
    held = await world.add("r")
    world.cluster.store(Node).discard("n1")
    assert await world.sync(held) is None
    assert (await world.look("r")).status.phase == "Failed"


async def test_a_reservation_that_is_not_placed_never_expires() -> None:
    world = World()
    pending = await world.add("r", phase="Pending", ttl="1m", status={"nodeName": None})
    world.clock.advance(3600)
    assert await world.sync(pending) is None
    assert (await world.look("r")).status.phase == "Pending"


@pytest.mark.parametrize(
    ("spec", "age", "seconds"),
    [
        ({"ttl": "1m"}, 0, 15),
        ({"ttl": "1m"}, 50, 10),
        ({"ttl": "1m"}, 59, 3),
        ({"ttl": "0s"}, 0, None),
        ({"ttl": "1h", "expires": format_time(NOW + timedelta(seconds=9))}, 0, 9),
    ],
)
async def test_when_a_reservation_is_reconciled_again(
    spec: dict[str, str], age: int, seconds: float | None
) -> None:
    world = World()
    held = await world.add("r", **spec)
    world.clock.advance(age)
    assert await world.sync(held) == seconds


async def test_a_concurrent_write_of_another_client_is_not_lost() -> None:
    world = World()
    held = await world.add("r", allocateOnce=False)
    await world.add_pod("p", held)
    condition = {"type": "Scheduled", "status": "True", "reason": "Scheduled"}
    await world.client.patch_status(Reservation, "", "r", {"status": {"conditions": [condition]}})
    await world.sync(held)  # with the store behind
    status = (await world.look("r")).status
    assert [owner.name for owner in status.current_owners] == ["p"]
    assert [c.type for c in status.conditions] == ["Scheduled"]


async def test_a_reservation_that_ended_meanwhile_stays_ended() -> None:
    world = World()
    held = await world.add("r")
    await world.add_pod("p", held)
    await world.client.patch_status(Reservation, "", "r", {"status": {"phase": "Failed"}})
    await world.sync(held)
    assert (await world.client.get(Reservation, "", "r")).status.phase == "Failed"


async def test_what_cannot_be_written_is_tried_again() -> None:
    world = World()
    held = await world.add("r")
    await world.add_pod("p", held)
    failures = iter((409, 429, 409))
    world.server.faults = lambda method, path: (
        Fault(status=status) if method == "PATCH" and (status := next(failures, 0)) else None
    )
    await world.sync(held)
    assert (await world.look("r")).status.phase == "Succeeded"


@pytest.mark.parametrize("cleans", [True, False])
async def test_pods_of_a_deleted_reservation_are_released_where_the_gate_is_enabled(cleans: bool) -> None:
    world = World(cleans=cleans)
    held = await world.add("r")
    await world.add_pod("p", held)
    await world.client.delete(Reservation, "", "r")
    world.cluster.store(Reservation).discard("r")
    await world.sync(held)
    found = await world.client.get(Pod, "default", "p")
    assert (ALLOCATED in found.metadata.annotations) is not cleans


@pytest.mark.parametrize(
    ("phase", "reason", "hours", "collected"),
    [
        ("Succeeded", "Succeeded", 23, False),
        ("Succeeded", "Succeeded", 25, True),
        ("Failed", "Expired", 23, False),
        ("Failed", "Expired", 25, True),
        ("Failed", "Other", 25, False),
        ("Available", "Available", 25, False),
    ],
)
async def test_what_ended_long_ago_is_deleted(phase: str, reason: str, hours: int, collected: bool) -> None:
    world = World()
    moment = format_time(NOW)
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
    }
    await world.add("r", phase=phase, status={"conditions": [condition]})
    world.clock.advance(hours * 3600)
    await world.controller.collect_garbage()
    left = await world.client.list_all(Reservation)
    assert (left == []) is collected


@pytest.mark.parametrize(
    ("phase", "reason", "probed", "changed", "collected"),
    [
        ("Succeeded", "Succeeded", 25, 1, True),
        ("Succeeded", "Succeeded", 1, 25, False),
        ("Succeeded", "Succeeded", 24, 25, False),
        ("Failed", "Expired", 1, 25, True),
        ("Failed", "Expired", 25, 1, False),
        ("Failed", "Expired", 25, 24, False),
    ],
)
async def test_one_that_succeeded_ages_from_its_last_probe_and_one_that_expired_from_its_last_transition(
    phase: str, reason: str, probed: int, changed: int, collected: bool
) -> None:
    world = World()
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": reason,
        "lastProbeTime": format_time(NOW - timedelta(hours=probed)),
        "lastTransitionTime": format_time(NOW - timedelta(hours=changed)),
    }
    await world.add("r", phase=phase, status={"conditions": [condition]})
    await world.controller.collect_garbage()
    assert (await world.client.list_all(Reservation) == []) is collected


async def test_what_ended_is_deleted_at_once_when_its_node_is_gone() -> None:
    world = World()
    moment = format_time(NOW)
    condition = {"type": "Ready", "status": "False", "reason": "Expired", "lastTransitionTime": moment}
    await world.add("r", phase="Failed", status={"conditions": [condition]})
    await world.controller.collect_garbage()
    assert len(await world.client.list_all(Reservation)) == 1
    world.cluster.store(Node).discard("n1")
    await world.controller.collect_garbage()
    assert await world.client.list_all(Reservation) == []


async def test_running_it_reconciles_everything_and_follows() -> None:
    world = World()
    first = await world.add("first")
    running = asyncio.create_task(world.controller.run())
    try:
        await asyncio.sleep(0)
        await world.add_pod("p", first)
        async with asyncio.timeout(PATIENCE):
            while (await world.look("first")).status.phase != "Succeeded":
                await asyncio.sleep(0.005)
            second = await world.add("second", allocateOnce=False)
            world.cluster.store(Node).discard(second.status.node_name)
            while (await world.look("second")).status.phase != "Failed":
                await asyncio.sleep(0.005)
        labels = {"name": "first", "phase": "Available"}
        assert REGISTRY.get_sample_value("scheduler_reservation_status_phase", labels) is not None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert REGISTRY.get_sample_value("scheduler_reservation_status_phase", labels) is None
