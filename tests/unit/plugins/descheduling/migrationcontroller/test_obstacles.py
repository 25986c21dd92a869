"""What hinders a job that has started is told, although its status does not change."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.scheme import resource_of
from koordpy_plugins.descheduling.migrationcontroller.obstacles import LONGEST, Obstacles
from tests.eventually import PATIENCE

from .migrations import Migrations
from .test_controller import ARGS, create_pod, ended, leading

BUDGET: dict[str, Any] = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "budget"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
}


async def protect(migrations: Migrations) -> None:
    """Let a budget forbid the eviction of the pod `a`."""
    await migrations.client.patch(Pod, "default", "a", {"metadata": {"labels": {"app": "x"}}})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await migrations.client.patch_status(Pod, "default", "a", {"status": status})
    await migrations.client.create_raw(resource_of(PodDisruptionBudget), "default", BUDGET)


def why(migrations: Migrations) -> str:
    pod = migrations.cluster.store(Pod).get("default", "a")
    return "" if pod is None else migrations.plugin.reason_against(pod) or ""


async def passing(migrations: Migrations, holds: Callable[[], bool]) -> None:
    """Let time pass until something holds, so that failed attempts are repeated."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            migrations.clock.advance(0.1)
            await asyncio.sleep(0.01)


async def until_why(migrations: Migrations, holds: Callable[[str], bool]) -> str:
    await passing(migrations, lambda: holds(why(migrations)))
    return why(migrations)


def has_ended(migrations: Migrations) -> bool:
    return ended(list(migrations.cluster.store(PodMigrationJob)))


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[int]:
    return [record.levelno for record in caplog.records if text in record.getMessage()]


async def test_the_budget_that_refuses_an_eviction_is_named_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    migrations = Migrations(**ARGS)
    pod = await create_pod(migrations, "a")
    await protect(migrations)
    await migrations.job(pod, name="j")
    with caplog.at_level(logging.DEBUG):
        async with leading(migrations):
            found = await until_why(migrations, lambda text: "disruption budget" in text)
            await passing(migrations, lambda: len(lines(caplog, "reconcile of j failed")) >= 3)
            await migrations.client.delete(PodDisruptionBudget, "default", "budget")
            await passing(migrations, lambda: has_ended(migrations))
    assert found.startswith(
        "PodMigrationJob j of it has not ended: it is being carried out; its last attempt failed, and is "
        'repeated: error when evicting pod (ignoring) "a": '
    )
    assert "disruption budget budget" in found
    levels = lines(caplog, "reconcile of j failed")
    assert levels[0] == logging.WARNING
    assert set(levels[1:]) == {logging.DEBUG}
    assert migrations.plugin._controller.jobs.obstacles.of((await migrations.read("j")).metadata.uid) == ""


async def test_a_deleted_reservation_is_named_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    migrations = Migrations(**ARGS | {"defaultJobMode": "ReservationFirst"})
    pod = await create_pod(migrations, "a")
    await migrations.job(pod, name="j")
    options = {"spec": {"reservationOptions": {"reservationRef": {"name": "gone"}}}}
    await migrations.client.patch(PodMigrationJob, "", "j", options)
    async with leading(migrations):
        found = await until_why(migrations, lambda text: "not found" in text)
        await migrations.client.delete(PodMigrationJob, "", "j")
        await until_why(migrations, lambda text: "PodMigrationJob" not in text)
    assert 'reservations.scheduling.koordinator.sh "gone" not found' in found
    assert lines(caplog, '"gone" not found') == [logging.WARNING]


async def test_a_rate_limit_and_a_missing_pod_are_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    migrations = Migrations(**ARGS | {"evictQPS": 0.001, "evictBurst": 1})
    for name in ("a", "b"):
        await migrations.job(await create_pod(migrations, name))
    missing = await create_pod(migrations, "c")
    await migrations.job(missing, name="missing")
    await migrations.client.delete(Pod, "default", "c", grace_period_seconds=0)
    with caplog.at_level(logging.INFO):
        async with leading(migrations):
            await passing(
                migrations,
                lambda: bool(lines(caplog, "TooManyEvictions") and lines(caplog, "of missing failed")),
            )
    assert lines(caplog, "TooManyEvictions: evictQPS and evictBurst allow no eviction now") == [logging.INFO]
    assert lines(caplog, "reconcile of missing failed") == [logging.INFO]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_timeout_is_logged_with_what_hindered_the_job(caplog: pytest.LogCaptureFixture) -> None:
    migrations = Migrations(**ARGS)
    pod = await create_pod(migrations, "a")
    await protect(migrations)
    await migrations.job(pod, name="j")
    await migrations.client.patch(PodMigrationJob, "", "j", {"spec": {"ttl": "1h"}})
    async with leading(migrations):
        await until_why(migrations, lambda text: "disruption budget" in text)
        migrations.clock.advance(3601)
        await migrations.client.patch(PodMigrationJob, "", "j", {"metadata": {"labels": {"x": "y"}}})
        await passing(migrations, lambda: bool(lines(caplog, "ends with its TTL")))
    [message] = [text for text in caplog.messages if "ends with its TTL" in text]
    assert message.startswith(
        "PodMigrationJob j of pod default/a ends with its TTL; its last attempt failed: "
    )
    assert "disruption budget budget" in message


async def test_a_job_that_was_changed_meanwhile_is_still_hindered_by_what_was_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    migrations = Migrations(**ARGS)
    pod = await create_pod(migrations, "a")
    await protect(migrations)
    await migrations.job(pod, name="j")
    async with leading(migrations):
        await until_why(migrations, lambda text: "disruption budget" in text)
    outdated = await migrations.read("j")
    await migrations.client.patch(PodMigrationJob, "", "j", {"metadata": {"labels": {"x": "y"}}})
    migrations.apply(outdated)
    with caplog.at_level(logging.DEBUG):
        task = asyncio.ensure_future(migrations.tasks["podmigrationjobs"]())
        await passing(migrations, lambda: bool(lines(caplog, "409 Conflict")))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert set(lines(caplog, "409 Conflict")) == {logging.DEBUG}
    assert "disruption budget budget" in why(migrations)


def test_a_failure_is_new_once_and_bounded() -> None:
    obstacles = Obstacles()
    assert obstacles.failed("u", "x" * 10_000)
    assert not obstacles.failed("u", "x" * 10_000)
    assert len(obstacles.of("u")) == LONGEST
    obstacles.forget("u")
    assert obstacles.of("u") == ""
    assert obstacles.failed("u", "y")
