"""Pods that preempt within their quota, beside a scheduler that knows nothing of quotas."""

from pathlib import Path
from typing import Any

import pytest

from koordpy.api.koordinator import ElasticQuota

from .preempting import Stage, cluster

LABEL = "quota.scheduling.koordinator.sh/name"
FITS = {"preemptionFitsQuota": True, "enableRuntimeQuota": False}
DEFAULTS = {"enableRuntimeQuota": False}


async def add_quota(stage: Stage, name: str, cpu: str) -> None:
    labels = {
        "quota.scheduling.koordinator.sh/parent": "koordinator-root-quota",
        "quota.scheduling.koordinator.sh/is-parent": "false",
    }
    amounts = {"cpu": cpu, "memory": "64Gi"}
    document = {"metadata": {"name": name, "labels": labels}, "spec": {"max": amounts, "min": {"cpu": "0"}}}
    await stage.create(ElasticQuota, document, "default")


async def add_running(stage: Stage, name: str, quota: str, node: str, **spec: Any) -> None:
    options = {"terminationGracePeriodSeconds": 0, **spec}
    await stage.add_pod(name, "500m", "low", {LABEL: quota}, nodeName=node, **options)


async def free(stage: Stage, *nodes: str) -> None:
    for name in nodes:
        await stage.end(f"low-{name}")


@pytest.mark.parametrize("args", [DEFAULTS, FITS])
async def test_a_pod_evicts_a_less_important_one_of_its_quota_and_of_no_other(
    tmp_path: Path, args: dict[str, bool]
) -> None:
    async with cluster(tmp_path, args, nodes=2, plugin="ElasticQuota") as stage:
        await free(stage, "n1", "n2")
        await add_quota(stage, "a", "1")
        await add_quota(stage, "b", "1")
        for name, quota, node in (("a1", "a", "n1"), ("b1", "b", "n1"), ("a2", "a", "n2"), ("b2", "b", "n2")):
            await add_running(stage, name, quota, node)
        await stage.add_pod("more-1", "500m", "high", {LABEL: "a"})
        await stage.until(lambda: stage.bound("more", 1), "the pod is not bound")
        left = (await stage.pods()).keys()
        assert {"b1", "b2"} <= left
        assert len(left & {"a1", "a2"}) == 1


async def test_while_the_victim_takes_its_time_no_other_is_evicted(tmp_path: Path) -> None:
    async with cluster(tmp_path, FITS, nodes=3, plugin="ElasticQuota") as stage:
        await free(stage, "n1", "n2", "n3")
        await add_quota(stage, "a", "1500m")
        for number in (1, 2, 3):
            await add_running(stage, f"a{number}", "a", f"n{number}", terminationGracePeriodSeconds=600)
        await stage.add_pod("more-1", "500m", "high", {LABEL: "a"})
        victims = await stage.until(stage.terminating, "nobody is evicted")
        assert len(victims) == 1
        await add_running(stage, "other", "b", "n1")
        await stage.end("other")  # a change at which the pod is tried again

        async def nominated() -> str:
            return (await stage.pods())["more-1"].status.nominated_node_name

        await stage.until(nominated, "the pod is not nominated")
        assert await stage.terminating() == victims
        await stage.end(victims[0])
        await stage.until(lambda: stage.bound("more", 1), "the pod is not bound")
        assert await stage.terminating() == []


async def test_nobody_is_evicted_if_the_quota_would_be_exceeded_even_then(tmp_path: Path) -> None:
    async with cluster(tmp_path, FITS, nodes=2, plugin="ElasticQuota") as stage:
        await free(stage, "n1", "n2")
        await add_quota(stage, "a", "1")
        await add_running(stage, "a1", "a", "n1")
        await add_running(stage, "a2", "a", "n2")
        await stage.add_pod("large-1", "1200m", "high", {LABEL: "a"})

        async def told() -> bool:
            conditions = (await stage.pods())["large-1"].status.conditions
            return any("Insufficient quotas" in condition.message for condition in conditions)

        await stage.until(told, "the pod is not told that its quota is exceeded")
        await stage.add_pod("fine-1", "100m", "high", {LABEL: "b"})
        await stage.until(lambda: stage.bound("fine", 1), "a pod without a quota is not bound")
        assert {"a1", "a2"} <= (await stage.pods()).keys()


async def test_what_kube_scheduler_would_evict_for_a_pod_over_its_quota_stays(tmp_path: Path) -> None:
    """All nodes are full, so kube-scheduler proposes victims of any quota: they would be evicted in vain."""
    async with cluster(tmp_path, FITS, nodes=2, plugin="ElasticQuota") as stage:
        await add_quota(stage, "a", "1")
        await stage.add_pod("large-1", "2", "high", {LABEL: "a"})

        async def told() -> bool:
            conditions = (await stage.pods())["large-1"].status.conditions
            return any(condition.type == "PodScheduled" for condition in conditions)

        await stage.until(told, "the pod is not tried")
        await stage.add_pod("fine-1", "2", "high", {LABEL: "b"})
        await stage.until(lambda: stage.bound("fine", 1), "a pod within its quota does not preempt")
        left = {name for name in await stage.pods() if name.startswith("low-")}
        assert len(left) == 1
