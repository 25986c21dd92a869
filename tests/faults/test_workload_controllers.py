"""Workload controllers and kubelets whose requests fail, and whose watches break, on simulated time.

Whatever fails, no pod is created beyond the wanted number, and in the end everything is as wanted.
"""

import asyncio
import random
from contextlib import suppress

import pytest

from koordpy.cluster.errors import ApiError
from koordpy.embedded.apiserver.server import Fault
from tests.integration.embedded.living import Living, deployment, live, name_of, template
from tests.integration.embedded.test_deployments import is_done
from tests.integration.embedded.test_jobs import is_over, job

WRITES = ("POST", "PUT", "PATCH", "DELETE")


def is_of_stand_ins(method: str, path: str) -> bool:
    """Whether a request is a write that controllers or kubelets make."""
    return method in WRITES and any(
        part in path for part in ("/replicasets", "/pods", "/deployments", "/jobs")
    )


def faulty(cluster: Living, share: float, faults: tuple[Fault, ...], seed: int = 1) -> None:
    """Let a share of the stand-ins' writes fail."""
    rng = random.Random(seed)

    def inject(method: str, path: str) -> Fault | None:
        if is_of_stand_ins(method, path) and "/binding" not in path and rng.random() < share:
            return rng.choice(faults)
        return None

    cluster.api.faults = inject


BEFORE = (Fault(status=409), Fault(status=500), Fault(status=503), Fault(status=429, retry_after=1))
AFTER = (Fault(status=500, after=True), Fault(status=504, after=True))
"""Writes that take effect although their answers are errors."""


@pytest.mark.parametrize("faults", [BEFORE, AFTER, BEFORE + AFTER], ids=["refused", "unanswered", "both"])
def test_a_deployment_gets_exactly_its_pods_though_writes_fail(faults: tuple[Fault, ...]) -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 30))
        faulty(cluster, 0.3, faults)
        most = 0
        while not is_done(cluster):
            there = [item for item in cluster.pods() if "deletionTimestamp" not in item["metadata"]]
            most = max(most, len(there))
            assert cluster.clock.monotonic() < 3600
            await asyncio.sleep(0.05)
        assert most == 30
        cluster.api.faults = None
        await cluster.patch("deployments", "web", {"spec": {"template": template("web", "web:2")}})
        faulty(cluster, 0.3, faults, seed=2)
        while not is_done(cluster):
            most = max(most, sum(item["spec"]["replicas"] for item in cluster.all("replicasets")))
            assert cluster.clock.monotonic() < 7200
            await asyncio.sleep(0.05)
        assert most == 38  # 25 % more during a rollout
        assert {item["spec"]["containers"][0]["image"] for item in cluster.running()} == {"web:2"}

    live(story)


def test_a_job_is_counted_exactly_though_writes_fail() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("jobs", job(command=("sleep", "2"), completions=20, parallelism=5))
        faulty(cluster, 0.3, BEFORE + AFTER)
        await cluster.until(lambda: is_over(cluster), 3600)
        status = cluster.one("jobs", "work")["status"]
        assert status["succeeded"] == 20
        assert len(cluster.pods()) == 20

    live(story)


def test_lost_watches_and_history_change_nothing() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 40))
        most = 0
        for round_ in range(40):
            cluster.api.cut_watches()
            if round_ % 3 == 0:
                cluster.api.compact()
            await asyncio.sleep(0.3)
            most = max(most, len(cluster.pods()))
        await cluster.until(lambda: is_done(cluster), 600)
        assert most <= 40
        assert len(cluster.pods()) == 40

    live(story)


def test_kubelets_report_in_the_end_though_their_writes_fail() -> None:
    async def story(cluster: Living) -> None:
        await cluster.create("deployments", deployment("web", 10))
        faulty(cluster, 0.5, BEFORE + AFTER)
        await cluster.until(lambda: len(cluster.running()) == 10, 600)
        for item in cluster.pods()[:5]:
            with suppress(ApiError):
                await cluster.delete("pods", name_of(item))
        await cluster.until(lambda: len(cluster.running()) == len(cluster.pods()) == 10, 600)

    live(story)
