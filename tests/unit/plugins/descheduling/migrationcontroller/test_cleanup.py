"""What is deleted after migrations, on an API server of this process."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy import data
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.lib.token_bucket import TokenBucket
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.migrationcontroller.cleanup import Cleanup
from koordpy_plugins.descheduling.migrationcontroller.evictions import PodEvictions, Policy
from koordpy_plugins.descheduling.migrationcontroller.reconciler import Reconciler
from tests.faults.migrating import NoLimit

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS = {"app.kubernetes.io/created-by": "koord-descheduler"}


class Scene:
    """Jobs and Reservations on a server, and the cleanup of a controller called `me`."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.server = ApiServer(crds=[data.deploy("crds")], clock=self.clock, rng=random.Random(1))
        self.client = Client(ServerChannel(self.server), attempts=1)
        self.cluster = Cluster(self.clock)
        evictions = PodEvictions(
            self.client, None, self.clock, default=Policy.EVICTION, rate=TokenBucket(1.0, 1, self.clock)
        )
        self.reconciler = Reconciler(
            self.cluster, self.client, None, self.clock, evictor=evictions, limiter=NoLimit(), identity="me"
        )
        self.cleanup = Cleanup(self.cluster, self.client, self.clock, self.reconciler)

    async def reservation(self, name: str, labels: dict[str, str]) -> None:
        await self.server.load()
        owners = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name, "labels": labels},
            "spec": {"owners": owners, "template": {}, "ttl": "1h"},
        }
        await self.client.create_raw(resource_of(Reservation), "", document)
        await self.see()

    async def job(
        self, name: str, phase: str = "", reservation: str = "", by: str = "me", **spec: Any
    ) -> PodMigrationJob:
        await self.server.load()
        if reservation:
            spec["reservationOptions"] = {"reservationRef": {"name": reservation}}
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {"name": name, "annotations": {"koordinator.sh/job-created-by": by}},
            "spec": {"podRef": {"namespace": "a", "name": "p"}, **spec},
        }
        await self.client.create_raw(resource_of(PodMigrationJob), "", document)
        if phase:
            await self.client.patch_status(PodMigrationJob, "", name, {"status": {"phase": phase}})
        await self.see()
        found = self.cluster.store(PodMigrationJob).get("", name)
        assert found is not None
        return found

    async def see(self) -> None:
        """Let the stores have what the server has."""
        for type_ in (PodMigrationJob, Reservation):
            self.cluster.store(type_).replace(await self.client.list_all(type_))

    async def left(self) -> set[str]:
        await self.see()
        return {item.metadata.name for item in await self.client.list_all(Reservation)}

    async def jobs(self) -> set[str]:
        return {item.metadata.name for item in await self.client.list_all(PodMigrationJob)}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Aborted"])
async def test_the_reservation_that_a_job_created_goes_with_its_end(phase: str) -> None:
    it = Scene()
    await it.reservation("r", OURS)
    job = await it.job("j", phase, "r")
    it.cleanup.ended(job)
    await it.cleanup.clean(job.metadata.uid)
    assert await it.left() == set()


async def test_a_reservation_without_a_reference_yet_is_found_by_the_uid_of_the_job() -> None:
    it = Scene()
    job = await it.job("j", "Failed")
    await it.reservation(job.metadata.uid, OURS)
    it.cleanup.ended(job)
    await it.cleanup.clean(job.metadata.uid)
    assert await it.left() == set()


async def test_a_users_reservation_stays_when_the_job_ends_and_goes_with_the_job() -> None:
    it = Scene()
    await it.reservation("r", {})
    job = await it.job("j", "Succeeded", "r")
    it.cleanup.ended(job)
    await it.cleanup.clean(job.metadata.uid)
    assert await it.left() == {"r"}
    it.cleanup.deleted(job)
    await it.cleanup.clean(job.metadata.uid)
    assert await it.left() == set()


async def test_another_reservation_of_the_same_name_stays() -> None:
    it = Scene()
    await it.reservation("r", OURS)
    options = {"reservationRef": {"name": "r", "uid": "another"}}
    job = await it.job("j", "Failed", reservationOptions=options)
    it.cleanup.deleted(job)
    await it.cleanup.clean(job.metadata.uid)
    assert await it.left() == {"r"}


async def test_reservations_whose_job_is_gone_or_has_ended_are_found_after_a_minute() -> None:
    it = Scene()
    for name in ("gone", "ended", "running", "theirs"):
        await it.reservation(name, OURS)
    await it.reservation("users", {})
    await it.job("a", "Failed", "ended")
    await it.job("b", "Running", "running")
    await it.job("c", "Failed", "theirs", by="another")
    await it.cleanup.delete_orphans()
    assert await it.left() == {"gone", "ended", "running", "theirs", "users"}
    it.clock.advance(61)
    await it.cleanup.delete_orphans()
    assert await it.left() == {"running", "theirs", "users"}


async def test_jobs_are_deleted_five_minutes_after_their_ttl_or_after_half_an_hour() -> None:
    it = Scene()
    await it.reservation("r", {})
    await it.job("short", "Running", "r", ttl="15m", paused=True)
    await it.job("foreign", "Succeeded", by="another", ttl="15m")
    await it.job("none", "Succeeded")
    await it.job("odd", ttl="0s")
    it.clock.advance(19 * 60 + 59)
    await it.cleanup.scavenge()
    assert await it.jobs() == {"short", "foreign", "none", "odd"}
    it.clock.advance(1)
    await it.cleanup.scavenge()
    assert await it.jobs() == {"none", "odd"}
    assert await it.left() == set()
    it.clock.advance(10 * 60)
    await it.see()
    await it.cleanup.scavenge()
    assert await it.jobs() == set()


async def test_a_reservation_that_cannot_be_deleted_ends_the_pass() -> None:
    it = Scene()
    await it.reservation("r", {})
    await it.job("a", reservation="r")
    await it.job("b")
    it.clock.advance(31 * 60)
    it.server.faults = lambda method, path: (
        Fault(status=403) if method == "DELETE" and path.endswith("/reservations/r") else None
    )
    await it.cleanup.scavenge()
    assert await it.jobs() == {"a", "b"}
