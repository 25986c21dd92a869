"""Two `koordpy serve` on one cluster, and a stock scheduler that calls one of them and then the other."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from koordpy.api.reservation import AVAILABLE
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import Fault
from tests.integration.reservations.stage import Stage
from tests.processes import extender_of, leads

LEASE = {"leaseDuration": 15, "renewDeadline": 10, "retryPeriod": 0.5}


async def two(stage: Stage) -> tuple[Process, Process]:
    """Run two replicas; return the one that leads, and the other."""
    await stage.add_namespace("koordinator-system")
    await stage.add_node("n1")
    processes = [await stage.serve(leaderElect=True, lease=LEASE) for _ in range(2)]

    async def leading() -> list[Process]:
        return [process for process in processes if leads(process)]

    [leader] = await stage.until(leading, "no leader")
    [other] = [process for process in processes if process is not leader]
    return leader, other


def term(process: Process) -> int:
    return extender_of(process).binds.fence.term


async def test_a_bind_waits_for_the_reservation_that_another_replica_is_just_placing(stage: Stage) -> None:
    if stage.server is None:
        pytest.skip("kube-apiserver lets no write wait")
    leader, other = await two(stage)
    written, arrived = asyncio.Event(), asyncio.Event()

    def held(method: str, path: str) -> Fault | None:
        if method == "PATCH" and "/reservations/web/status" in path:
            arrived.set()
            return Fault(held=written)
        return None

    stage.server.faults = held
    await stage.begin(other)
    await stage.reserve("web", "6")
    await arrived.wait()
    await stage.add_pod("stock", "4")
    fence = extender_of(other).binds.fence

    async def waits() -> bool:
        return fence.is_awaited

    await stage.until(waits, "the bind does not wait")
    written.set()
    assert (await stage.in_phase("web", AVAILABLE)).node_name == "n1"
    assert "Insufficient cpu" in await stage.refusal("stock")
    assert (term(leader), term(other)) == (0, 1)
    await stage.assert_nothing_is_booked_twice()


async def test_pods_and_reservations_in_a_crowd_survive_a_failover(stage: Stage) -> None:
    leader, other = await two(stage)
    await stage.add_node("n2")
    waited = REGISTRY.get_sample_value("koordpy_extender_fence_wait_seconds_count") or 0
    await stage.begin(leader)
    work = [stage.add_pod(f"p{i}", "1") for i in range(4)]
    await asyncio.gather(*work, *(stage.reserve(f"r{i}", "2") for i in range(2)))
    await stage.end()
    await stage.begin(other)
    work = [stage.add_pod(f"p{i}", "1") for i in range(4, 8)]
    await asyncio.gather(*work, *(stage.reserve(f"r{i}", "2") for i in range(2, 5)))

    async def full() -> bool:
        pods = [await stage.pod(f"p{i}") for i in range(8)]
        reservations = [await stage.reservation(f"r{i}") for i in range(5)]
        placed = sum(reservation.is_available for reservation in reservations)
        return sum(bool(pod.spec.node_name) for pod in pods) + 2 * placed >= 15

    await stage.until(full, "the cluster is not filled")
    await stage.assert_nothing_is_booked_twice()
    assert (REGISTRY.get_sample_value("koordpy_extender_fence_wait_seconds_count") or 0) > waited
    stage.processes.sort(key=lambda process: process is not other)
    await stage.assert_memory_equals_a_rebuild()
