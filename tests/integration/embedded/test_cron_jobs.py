"""CronJobs on the embedded control plane, on simulated time, which starts at midnight."""

import asyncio
from typing import Any

from tests.integration.embedded.living import Living, live, name_of


def cron_job(schedule: str = "*/5 * * * *", command: tuple[str, ...] = ("sleep", "10"), **spec: Any) -> dict:
    container = {"name": "c", "image": "i:1", "command": list(command)}
    job = {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job}, **spec},
    }


def test_a_job_is_created_at_every_time_of_the_schedule() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("cronjobs", cron_job(successfulJobsHistoryLimit=2))
        times = set()
        while cluster.clock.monotonic() < 26 * 60:
            times |= {item["metadata"]["creationTimestamp"][11:16] for item in cluster.all("jobs")}
            await asyncio.sleep(5)
        assert sorted(times) == ["00:05", "00:10", "00:15", "00:20", "00:25"]
        kept = [name_of(item) for item in cluster.all("jobs")]
        assert len(kept) == 2
        assert all(name.startswith("tick-") for name in kept)
        status = cluster.one("cronjobs", "tick")["status"]
        assert status["lastScheduleTime"] == "2026-01-01T00:25:00Z"
        assert status["lastSuccessfulTime"] > status["lastScheduleTime"]
        assert "active" not in status

    live(story)


def test_forbid_skips_times_while_a_job_runs_and_replace_ends_it() -> None:
    async def story(cluster: Living, policy: str) -> None:
        slow = cron_job("* * * * *", ("sleep", "150"), concurrencyPolicy=policy)
        await cluster.create("cronjobs", slow)
        most, created = 0, set()
        while cluster.clock.monotonic() < 8 * 60:
            jobs = cluster.all("jobs")
            created |= {name_of(item) for item in jobs}
            most = max(most, sum(not item["status"].get("completionTime") for item in jobs))
            await asyncio.sleep(1)
        assert most == 1 if policy != "Allow" else most > 1
        assert len(created) == {"Forbid": 3, "Replace": 7, "Allow": 7}[policy]

    for policy in ("Forbid", "Replace", "Allow"):
        live(lambda cluster, policy=policy: story(cluster, policy))  # type: ignore[misc]


def test_a_suspended_cron_job_creates_nothing() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("cronjobs", cron_job("* * * * *", suspend=True))
        await asyncio.sleep(300)
        assert not cluster.all("jobs")
        await cluster.patch("cronjobs", "tick", {"spec": {"suspend": False}})
        await cluster.until(lambda: cluster.all("jobs"), 70)

    live(story)


def test_no_job_is_created_twice_after_a_restart() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("cronjobs", cron_job("* * * * *"))
        for _ in range(5):
            await cluster.until(lambda: cluster.all("jobs"), 120)
            await cluster.stop_controllers()
            await cluster.start_controllers()
            await asyncio.sleep(30)
        names = [name_of(item) for item in cluster.all("jobs")]
        assert len(names) == len(set(names)) <= 4

    live(story)
