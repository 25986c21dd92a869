"""Jobs on the embedded control plane, on simulated time."""

import asyncio
from typing import Any

from tests.integration.embedded.living import Living, condition, live, name_of

FINALIZER = "batch.kubernetes.io/job-tracking"


def job(name: str = "work", command: tuple[str, ...] = ("sleep", "10"), **spec: Any) -> dict:
    container = {"name": "c", "image": "i:1", "command": list(command)}
    pod = {"containers": [container], "restartPolicy": spec.pop("restartPolicy", "Never")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}, **spec},
    }


def status(cluster: Living, name: str = "work") -> dict:
    return cluster.one("jobs", name)["status"]


def is_over(cluster: Living, type_: str = "Complete", name: str = "work") -> bool:
    return condition(cluster.one("jobs", name), type_).get("status") == "True"


def test_a_job_runs_its_pods_until_enough_have_succeeded() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(completions=5, parallelism=2))
        most = 0
        while not is_over(cluster):
            most = max(most, len(cluster.running()))
            await asyncio.sleep(0.05)
        assert most == 2
        found = status(cluster)
        assert (found["succeeded"], found.get("failed"), found.get("active")) == (5, None, None)
        assert found["completionTime"] > found["startTime"]
        assert found["uncountedTerminatedPods"] == {}
        pods = cluster.pods()
        assert len(pods) == 5
        assert all(name_of(item).startswith("work-") and len(name_of(item)) == 10 for item in pods)
        assert not any(FINALIZER in item["metadata"].get("finalizers", []) for item in pods)
        uid = cluster.one("jobs", "work")["metadata"]["uid"]
        labels = pods[0]["metadata"]["labels"]
        assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == uid
        assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "work"

    live(story)


def test_a_job_fails_beyond_its_backoff_limit() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(command=("false",), backoffLimit=2))
        await cluster.until(lambda: is_over(cluster, "Failed"), 600)
        assert status(cluster)["failed"] == 3
        assert condition(cluster.one("jobs", "work"), "Failed")["reason"] == "BackoffLimitExceeded"
        times = sorted(item["metadata"]["creationTimestamp"] for item in cluster.pods())
        assert len(times) == 3
        assert cluster.clock.monotonic() > 30  # 10 s, then 20 s between the pods

    live(story)


def test_a_job_is_ended_by_its_deadline() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(command=("sleep", "1h"), activeDeadlineSeconds=30))
        await cluster.until(lambda: is_over(cluster, "Failed"))
        assert condition(cluster.one("jobs", "work"), "Failed")["reason"] == "DeadlineExceeded"
        await cluster.until(lambda: not cluster.pods())

    live(story)


def test_each_index_of_an_indexed_job_is_done_once() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(completions=4, parallelism=3, completionMode="Indexed"))
        await cluster.until(lambda: len(cluster.running()) == 3)
        lost = next(item for item in cluster.pods() if name_of(item).startswith("work-1-"))
        await cluster.delete("pods", name_of(lost))
        await cluster.until(lambda: is_over(cluster))
        assert status(cluster)["completedIndexes"] == "0-3"
        assert status(cluster)["succeeded"] == 4
        assert status(cluster)["failed"] == 1
        first = next(item for item in cluster.pods() if name_of(item).startswith("work-0-"))
        assert first["spec"]["hostname"] == "work-0"
        assert first["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"

    live(story)


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(parallelism=2, completions=2))
        await cluster.until(lambda: len(cluster.running()) == 2)
        await cluster.patch("jobs", "work", {"spec": {"suspend": True}})
        await cluster.until(lambda: not cluster.pods())
        await asyncio.sleep(60)
        assert condition(cluster.one("jobs", "work"), "Suspended")["status"] == "True"
        assert "startTime" not in status(cluster)
        await cluster.patch("jobs", "work", {"spec": {"suspend": False}})
        await cluster.until(lambda: is_over(cluster))
        assert status(cluster)["succeeded"] == 2

    live(story)


def test_a_finished_job_is_deleted_after_its_time() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(ttlSecondsAfterFinished=100))
        await cluster.until(lambda: is_over(cluster))
        began = cluster.clock.monotonic()
        await cluster.until(lambda: cluster.one("jobs", "work") is None, 200)
        assert 98 < cluster.clock.monotonic() - began < 103
        await cluster.until(lambda: not cluster.pods())

    live(story)


def test_a_deleted_job_takes_its_pods_with_it() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(parallelism=3, completions=6))
        await cluster.until(lambda: status(cluster).get("succeeded", 0) >= 3)
        await cluster.delete("jobs", "work", propagationPolicy="Background")
        await cluster.until(lambda: not cluster.pods() and not cluster.all("jobs"))

    live(story)


def test_no_pod_is_counted_twice_or_lost_when_the_controllers_restart() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(command=("sleep", "3"), completions=30, parallelism=6))
        for _ in range(6):
            await asyncio.sleep(1.7)
            await cluster.stop_controllers()
            await asyncio.sleep(0.5)
            await cluster.start_controllers()
        await cluster.until(lambda: is_over(cluster))
        assert status(cluster)["succeeded"] == 30
        assert len([item for item in cluster.pods() if item["status"]["phase"] == "Succeeded"]) == 30

    live(story)


def test_restarts_of_a_pod_count_as_failures() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(command=("false",), restartPolicy="OnFailure", backoffLimit=2))
        await cluster.until(lambda: is_over(cluster, "Failed"), 600)
        assert len(cluster.pods()) <= 1

    live(story)
