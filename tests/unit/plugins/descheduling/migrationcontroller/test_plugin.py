from typing import Any

import pytest

from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.descheduling.interface import EvictOptions, Refusal, SharedObjects
from koordpy.embedded.apiserver import Fault
from koordpy.testing import objects
from koordpy_plugins.descheduling.migrationcontroller.job_creation import JobContext, job_context
from koordpy_plugins.descheduling.migrationcontroller.plugin import MigrationController

from .migrations import Migrations, pod, replica_set

HOT = EvictOptions(plugin_name="LowNodeLoad", reason="node is overutilized")


async def evicting(**args: Any) -> Migrations:
    migrations = Migrations(replica_set(), pod("a"), pod("b"), **args)
    await migrations.server.load()
    return migrations


async def test_an_eviction_creates_a_job() -> None:
    migrations = await evicting(defaultDeleteOptions={"gracePeriodSeconds": 7})
    assert await migrations.plugin.evict(pod("a"), HOT) is True
    [job] = await migrations.jobs()
    assert job.metadata.annotations == {
        "koordinator.sh/evict-reason": "node is overutilized",
        "koordinator.sh/evict-trigger": "LowNodeLoad",
        "koordinator.sh/job-created-by": "ns/lease/p",
    }
    assert (job.pod_key, job.pod_uid) == ("default/a", "uid-default-a")
    assert (job.spec.mode, job.spec.ttl) == ("ReservationFirst", "5m0s")
    assert job.spec.delete_options == {"gracePeriodSeconds": 7}
    assert job.is_pending


async def test_a_created_job_counts_before_it_is_seen_and_until_it_is_gone() -> None:
    migrations = await evicting(maxMigratingGlobally=1)
    assert await migrations.plugin.evict(pod("a"), HOT)
    refused = await migrations.plugin.evict(pod("b"), HOT)
    assert refused == Refusal("maxMigratingGlobally=1 is reached: 1 migrating")
    assert not migrations.plugin.filter(pod("a"))
    await migrations.sync()
    assert not migrations.plugin.filter(pod("b"))
    for job in await migrations.jobs():
        await migrations.client.delete(PodMigrationJob, "", job.metadata.name)
    await migrations.sync()
    assert migrations.plugin.filter(pod("b"))


async def test_a_created_job_that_is_never_seen_stops_counting() -> None:
    migrations = await evicting(maxMigratingGlobally=1)
    assert await migrations.plugin.evict(pod("a"), HOT)
    arbitrator, _ = migrations.arbitration()
    migrations.clock.advance(61)
    migrations.plugin._controller.jobs.forget_unseen()
    await arbitrator.arbitrate()
    assert migrations.plugin.filter(pod("b"))


CONDITION = {"lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z", "type": "Eviction"}
GONE = {"conditions": [{**CONDITION, "status": "True", "reason": "EvictComplete"}]}
BEGUN = {"conditions": [{**CONDITION, "status": "False", "reason": "Evicting"}]}


@pytest.mark.parametrize(
    ("status", "stays"),
    [
        ({"phase": "Failed"}, True),
        ({"phase": "Failed", **BEGUN}, True),
        ({"phase": "Failed", **GONE}, False),
        ({"phase": "Succeeded"}, False),
        (None, True),
    ],
)
async def test_a_job_that_ends_or_is_deleted_reports_once_that_its_pod_was_not_evicted(
    status: dict[str, Any] | None, stays: bool
) -> None:
    migrations = await evicting()
    assert await migrations.plugin.evict(pod("a"), HOT)
    await migrations.sync()
    [job] = await migrations.jobs()
    assert migrations.not_evicted == []
    if status is not None:
        await migrations.client.patch_status(PodMigrationJob, "", job.metadata.name, {"status": status})
        await migrations.sync()
    await migrations.client.delete(PodMigrationJob, "", job.metadata.name)
    await migrations.sync()
    assert migrations.not_evicted == (["uid-default-a"] if stays else [])


async def test_the_caller_may_set_parts_of_the_job() -> None:
    migrations = await evicting()
    context = JobContext({"l": "1"}, {"koordinator.sh/evict-reason": "mine"}, 60_000_000_000, "EvictDirectly")
    with job_context(context):
        await migrations.plugin.evict(pod("a"), HOT)
    await migrations.plugin.evict(pod("b"), HOT)
    jobs = {job.pod_key: job for job in await migrations.jobs()}
    special, usual = jobs["default/a"], jobs["default/b"]
    assert special.metadata.labels == {"l": "1"}
    assert special.metadata.annotations["koordinator.sh/evict-reason"] == "mine"
    assert special.metadata.annotations["koordinator.sh/evict-trigger"] == "LowNodeLoad"
    assert (special.spec.mode, special.spec.ttl) == ("EvictDirectly", "1m0s")
    assert (usual.metadata.labels, usual.spec.mode) == ({}, "ReservationFirst")


async def test_a_dry_run_creates_no_job() -> None:
    migrations = await evicting(dryRun=True)
    assert migrations.plugin.is_dry_run
    assert await migrations.plugin.evict(pod("a"), HOT) is True
    assert await migrations.jobs() == []


async def test_the_object_limiter_refuses_new_jobs() -> None:
    migrations = await evicting()
    migrations.plugin._controller.limiters.track(pod("a"))
    refused = await migrations.plugin.evict(pod("b"), HOT)
    assert isinstance(refused, Refusal)
    assert "limiter of its workload" in refused.reason
    assert await migrations.jobs() == []


async def test_a_job_that_cannot_be_created_is_a_refusal() -> None:
    migrations = await evicting()
    migrations.server.faults = lambda method, path: Fault(status=403)
    refused = await migrations.plugin.evict(pod("a"), HOT)
    assert isinstance(refused, Refusal)
    assert refused.reason.startswith("its PodMigrationJob cannot be created: ")
    assert migrations.plugin.filter(pod("a"))


def test_profiles_share_one_controller_and_need_equal_arguments() -> None:
    migrations = Migrations()
    second = MigrationController.make(migrations.handle(profile="second"))
    assert second._controller is migrations.plugin._controller
    assert sorted(migrations.tasks) == ["migration-arbitrator", "podmigrationjobs", "workload-scales"]
    with pytest.raises(ValueError, match="profile third has other arguments of MigrationController"):
        MigrationController.make(migrations.handle(profile="third"), {"evictQPS": 1})


def test_without_an_api_server_and_in_a_dry_run_no_loop_runs() -> None:
    migrations = Migrations()
    migrations.tasks.clear()
    MigrationController.make(migrations.handle(client=None, shared=SharedObjects()))
    MigrationController.make(migrations.handle(dry_run=True, shared=SharedObjects()))
    assert migrations.tasks == {}


def test_an_unknown_eviction_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="unsupported eviction policy: evictionPolicy is 'Push'"):
        Migrations(evictionPolicy="Push")
    with pytest.raises(ValueError, match=r"expected one of Eviction, Delete, SoftEviction$"):
        Migrations(evictionPolicy="EvictionRequest")


def test_with_node_fit_a_pod_needs_another_ready_node_that_is_selected() -> None:
    big = objects.node("n2", labels={"pool": "a"})
    small = pod("a")
    for args, known, fits in (
        ({"nodeFit": True}, [objects.node("n1")], False),
        ({"nodeFit": True}, [objects.node("n1"), big], True),
        ({"nodeFit": True, "nodeSelector": "pool=b"}, [big], False),
        ({"nodeFit": True, "skipEvictionGates": ["NodeFit"]}, [], True),
        ({}, [], True),
    ):
        assert Migrations(small, *known, **args).plugin.pre_eviction_filter(small) is fits
