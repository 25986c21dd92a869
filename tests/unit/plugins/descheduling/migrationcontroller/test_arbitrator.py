import pytest

from koordpy.api.core import Event
from koordpy.api.pod_migration_job import ANNOTATION_PASSED_ARBITRATION, PodMigrationJob
from koordpy.embedded.apiserver import Fault
from koordpy_plugins.descheduling.migrationcontroller.arbitrator import Verdict

from .migrations import Migrations, pod, replica_set

PASSED, FAILED = Verdict.PASSED, Verdict.FAILED

BARE = "it has no owner"


async def test_jobs_pass_within_the_limits_and_the_others_wait() -> None:
    migrations = Migrations(replica_set(), *map(pod, "abc"), maxMigratingPerNode=2, maxMigratingPerWorkload=9)
    arbitrator, jobs = migrations.arbitration()
    for name in "abc":
        await migrations.job(pod(name))
    assert [verdict for _, verdict in await arbitrator.arbitrate()] == [PASSED, PASSED]
    await migrations.sync()
    passed = {
        job.metadata.name
        for job in await migrations.jobs()
        if job.metadata.annotations.get(ANNOTATION_PASSED_ARBITRATION) == "true"
    }
    assert len(passed) == 2
    assert {job.metadata.name for job in await migrations.jobs() if jobs.has_passed(job)} == passed
    assert await arbitrator.arbitrate() == []
    await migrations.set_phase(passed.pop(), "Succeeded")
    await migrations.sync()
    assert [verdict for _, verdict in await arbitrator.arbitrate()] == [PASSED]


async def test_a_pod_that_must_never_be_migrated_fails_its_job_with_an_event() -> None:
    migrations = Migrations(pod("a", owner=""))
    arbitrator, _ = migrations.arbitration()
    await migrations.job(pod("a"))
    assert await arbitrator.arbitrate() == [("job-a", FAILED)]
    job = await migrations.read("job-a")
    message = 'Pod "default/a" is forbidden to migrate because it does not meet the requirements'
    assert (job.status.phase, job.status.reason, job.status.message) == (
        "Failed",
        "ForbiddenMigratePod",
        message,
    )
    await migrations.recorder.flush()
    events = await migrations.client.list_all(Event)
    assert [(event.type, event.reason, event.note) for event in events] == [
        ("Warning", "ForbiddenMigratePod", message)
    ]


async def test_a_job_whose_pod_is_gone_passes() -> None:
    migrations = Migrations()
    arbitrator, _ = migrations.arbitration()
    await migrations.job(pod("a"))
    assert await arbitrator.arbitrate() == [("job-a", PASSED)]


async def test_after_a_restart_only_pending_jobs_wait_and_running_ones_count() -> None:
    migrations = Migrations(replica_set(), *map(pod, "abcd"), maxMigratingGlobally=2)
    for name, phase in zip("abcd", ("Succeeded", "Running", "Failed", ""), strict=True):
        await migrations.job(pod(name), phase=phase, annotations={ANNOTATION_PASSED_ARBITRATION: "true"})
    restarted = Migrations(replica_set(), *map(pod, "abcd"), server=migrations.server, maxMigratingGlobally=1)
    await restarted.sync()
    arbitrator, jobs = restarted.arbitration()
    assert list(arbitrator.waiting.values()) == ["job-d"]
    assert [job.metadata.name for job in await restarted.jobs() if jobs.has_passed(job)] == ["job-b"]
    assert await arbitrator.arbitrate() == []
    assert [job.status.phase for job in await restarted.jobs()] == ["Succeeded", "Running", "Failed", ""]


async def test_a_job_that_changed_unseen_is_arbitrated_as_it_is_now() -> None:
    migrations = Migrations(replica_set(), pod("a"))
    arbitrator, _ = migrations.arbitration()
    await migrations.job(pod("a"))
    patch = {"metadata": {"labels": {"new": "label"}}}
    await migrations.client.patch(PodMigrationJob, "", "job-a", patch)
    assert await arbitrator.arbitrate() == []
    await migrations.sync()
    assert await arbitrator.arbitrate() == [("job-a", PASSED)]
    job = await migrations.read("job-a")
    assert job.metadata.labels == {"new": "label"}


async def test_a_job_deleted_unseen_or_seen_leaves_nothing_behind() -> None:
    migrations = Migrations(replica_set(), pod("a"), pod("b"))
    arbitrator, jobs = migrations.arbitration()
    for name in "ab":
        await migrations.job(pod(name))
        await migrations.client.delete(PodMigrationJob, "", f"job-{name}")
    assert len(arbitrator.waiting) == 1
    assert await arbitrator.arbitrate() == []
    assert not arbitrator.waiting
    await migrations.sync()
    assert len(jobs.unfinished) == len(jobs.started) == 0


async def test_a_job_of_the_same_name_and_another_uid_is_another_job() -> None:
    migrations = Migrations(replica_set(), pod("a"))
    arbitrator, _ = migrations.arbitration()
    first = await migrations.job(pod("a"))
    await migrations.client.delete(PodMigrationJob, "", "job-a")
    second = await migrations.job(pod("a"))
    assert first.metadata.uid != second.metadata.uid
    assert list(arbitrator.waiting) == [second.metadata.uid]


async def test_a_job_started_by_somebody_else_waits_no_longer() -> None:
    migrations = Migrations(replica_set(), pod("a"))
    arbitrator, jobs = migrations.arbitration()
    await migrations.job(pod("a"))
    await migrations.set_phase("job-a", "Running")
    await migrations.sync()
    assert not arbitrator.waiting
    assert len(jobs.started) == 1


async def test_an_unreachable_api_server_loses_no_job() -> None:
    migrations = Migrations(pod("a", owner=""))
    arbitrator, _ = migrations.arbitration()
    await migrations.job(pod("a"))
    migrations.server.faults = lambda method, path: Fault(status=503) if method == "PATCH" else None
    assert await arbitrator.arbitrate() == []
    assert list(arbitrator.waiting.values()) == ["job-a"]


async def test_a_paused_job_takes_no_place_before_it_is_continued() -> None:
    migrations = Migrations(replica_set(), *map(pod, "ab"), maxMigratingGlobally=1)
    arbitrator, _ = migrations.arbitration()
    await migrations.job(pod("a"))
    await migrations.client.patch(PodMigrationJob, "", "job-a", {"spec": {"paused": True}})
    await migrations.job(pod("b"))
    assert await arbitrator.arbitrate() == [("job-b", PASSED)]
    await migrations.set_phase("job-b", "Succeeded")
    await migrations.client.patch(PodMigrationJob, "", "job-a", {"spec": {"paused": False}})
    await migrations.sync()
    assert await arbitrator.arbitrate() == [("job-a", PASSED)]


async def test_the_check_that_fails_a_job_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    migrations = Migrations(pod("a", owner=""))
    arbitrator, _ = migrations.arbitration()
    await migrations.job(pod("a"))
    await arbitrator.arbitrate()
    [message] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert message == f"PodMigrationJob job-a fails: pod default/a is never migrated: {BARE}"
