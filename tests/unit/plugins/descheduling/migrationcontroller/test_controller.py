"""The loops of the controller together: a job is arbitrated and carried out, also after a restart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.pod_migration_job import ANNOTATION_PASSED_ARBITRATION, PodMigrationJob
from koordpy.api.scheme import resource_of
from koordpy.cluster.informers import Informers
from koordpy.descheduling.interface import EvictOptions
from tests.eventually import PATIENCE

from .migrations import Migrations

ARGS: dict[str, Any] = {
    "defaultJobMode": "EvictDirectly",
    "evictAllBarePods": True,
    "defaultDeleteOptions": {"gracePeriodSeconds": 0},
    "arbitrationArgs": {"interval": "10ms"},
    "evictQPS": 1000,
    "evictBurst": 100,
}


async def create_pod(migrations: Migrations, name: str) -> Pod:
    await migrations.server.load()
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    await migrations.client.create_raw(resource_of(Pod), "default", document)
    return await migrations.client.get(Pod, "default", name)


@asynccontextmanager
async def leading(migrations: Migrations) -> AsyncIterator[None]:
    """Run the loops of a process, as while it leads."""
    async with Informers(migrations.cluster, migrations.client) as informers:
        await informers.wait_synced()
        running = [asyncio.ensure_future(task()) for task in migrations.tasks.values()]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def until(migrations: Migrations, holds: Callable[[list[PodMigrationJob]], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds(await migrations.jobs()):
            await asyncio.sleep(0.01)


def ended(jobs: list[PodMigrationJob]) -> bool:
    return bool(jobs) and not any(job.is_unfinished for job in jobs)


async def test_an_eviction_is_arbitrated_and_carried_out() -> None:
    migrations = Migrations(**ARGS)
    pod = await create_pod(migrations, "a")
    async with leading(migrations):
        assert await migrations.plugin.evict(pod, EvictOptions(plugin_name="Test", reason="because"))
        await until(migrations, ended)
    [job] = await migrations.jobs()
    assert (job.status.phase, job.status.status) == ("Succeeded", "Complete")
    assert job.metadata.annotations[ANNOTATION_PASSED_ARBITRATION] == "true"
    assert await migrations.client.list_all(Pod) == []


@pytest.mark.parametrize("passed", [False, True])
async def test_a_pending_job_of_the_process_before_is_carried_out(passed: bool) -> None:
    """It is arbitrated again, and starts although writing the annotation again changes nothing."""
    before = Migrations(**ARGS)
    pod = await create_pod(before, "a")
    before.apply(pod)
    assert await before.plugin.evict(pod, EvictOptions(plugin_name="Test"))
    [job] = await before.jobs()
    if passed:
        patch = {"metadata": {"annotations": {ANNOTATION_PASSED_ARBITRATION: "true"}}}
        await before.client.patch(PodMigrationJob, "", job.metadata.name, patch)
    after = Migrations(server=before.server, **ARGS)
    async with leading(after):
        await until(after, ended)
    [job] = await after.jobs()
    assert job.status.phase == "Succeeded"


async def test_a_job_that_says_itself_that_it_passed_waits_for_the_limits() -> None:
    migrations = Migrations(**ARGS, maxMigratingPerNode=1)
    first, second = await create_pod(migrations, "a"), await create_pod(migrations, "b")
    paused = await migrations.job(first, name="first", phase="Running")
    await migrations.client.patch(PodMigrationJob, "", paused.metadata.name, {"spec": {"paused": True}})
    forged = {ANNOTATION_PASSED_ARBITRATION: "true"}
    await migrations.job(second, name="second", annotations=forged)
    async with leading(migrations):
        await asyncio.sleep(0.1)
        assert [job.status.phase for job in await migrations.jobs()] == ["Running", ""]
        await migrations.client.delete(PodMigrationJob, "", "first")
        await until(migrations, ended)
    assert [pod.metadata.name for pod in await migrations.client.list_all(Pod)] == ["a"]


@pytest.mark.parametrize("phase", ["", "Running"])
async def test_a_job_whose_ttl_is_no_duration_fails(phase: str, caplog: pytest.LogCaptureFixture) -> None:
    """At once: a pending one although it waits for the limits."""
    migrations = Migrations(**ARGS, maxMigratingGlobally=1)
    other, pod = await create_pod(migrations, "other"), await create_pod(migrations, "a")
    await migrations.job(other, name="other", phase="Running")
    await migrations.client.patch(PodMigrationJob, "", "other", {"spec": {"paused": True}})
    await migrations.job(pod, name="j", phase=phase)
    await migrations.client.patch(PodMigrationJob, "", "j", {"spec": {"ttl": "banana"}})
    async with leading(migrations):
        await until(migrations, lambda jobs: any(job.status.phase == "Failed" for job in jobs))
    job = await migrations.read("j")
    assert (job.status.phase, job.status.reason) == ("Failed", "InvalidTTL")
    assert job.status.message.startswith("Abort job caused by invalid TTL: spec.ttl: ")
    assert "banana" in job.status.message
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
