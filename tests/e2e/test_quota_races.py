"""Pods that race for quotas through two replicas of koordpy, each with a kube-scheduler of its own.

At no moment that a watch of the API server shows does a quota, or the parent of quotas, have more in use than
its maximum; in the end everything that quotas allow is used, also after some pods have gone.

`KOORDPY_QUOTAS=4x10x50` plays it with 4 parents of 10 quotas with 50 pods each; by default there are fewer.
"""

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.racing import (
    NAMESPACE,
    PodWatch,
    Replica,
    client_of,
    create_all,
    node,
    pod,
    profiles,
)
from tests.moments import always_clean

pytestmark = pytest.mark.timeout(1800)

PARENTS, CHILDREN, PODS = map(int, os.environ.get("KOORDPY_QUOTAS", "2x4x24").split("x"))
LABEL = "quota.scheduling.koordinator.sh/"
ROOM = PODS // 2
"""CPUs that a quota may use at most; every pod requests one."""
SHARE = ROOM * 3 // 4
"""What is left of that because the parent's maximum is less than the sum of its quotas'."""
SCHEDULERS = ("default-scheduler", "koord-scheduler")
ARGS = {"enableCheckParentQuota": True}


def quota(name: str, maximum: int, minimum: int, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {LABEL + key.replace("_", "-"): value for key, value in labels.items()},
        },
        "spec": {"max": {"cpu": str(maximum)}, "min": {"cpu": str(minimum)}},
    }


class InUse:
    """How many CPUs quotas and their parents have in use, at each moment of a watch."""

    def __init__(self, watch: PodWatch) -> None:
        self.used: Counter[str] = Counter()
        self.problems: list[str] = []
        watch.on_bound = self._bound
        watch.on_gone = self._gone

    def _bound(self, found: Pod) -> None:
        name = found.metadata.labels[f"{LABEL}name"]
        for each, maximum in ((name, ROOM), (name.partition("-")[0], CHILDREN * SHARE)):
            self.used[each] += 1
            if self.used[each] > maximum:
                self.problems.append(f"{self.used[each]} of {maximum} are used in {each}")

    def _gone(self, found: Pod) -> None:
        name = found.metadata.labels[f"{LABEL}name"]
        self.used[name] -= 1
        self.used[name.partition("-")[0]] -= 1


async def test_no_quota_is_exceeded_at_any_moment(tmp_path: Path) -> None:
    parents = [f"p{n}" for n in range(PARENTS)]
    names = [f"{parent}-{n}" for parent in parents for n in range(CHILDREN)]
    with ControlPlane() as plane:
        plane.install_crds()
        profile = profiles({"ElasticQuota": ARGS}, SCHEDULERS)
        settings = {"kubeconfig": str(plane.kubeconfig)}
        replicas = [Replica(tmp_path / scheduler, settings, profile) for scheduler in SCHEDULERS]
        schedulers = []
        client = client_of(plane)
        try:
            nodes = PARENTS * CHILDREN * PODS // 40 + 1
            await create_all(client, Node, (node(f"n{n:03d}", "40") for n in range(nodes)))
            await create_all(
                client,
                ElasticQuota,
                [
                    *(quota(name, CHILDREN * SHARE, CHILDREN, is_parent="true") for name in parents),
                    *(quota(name, ROOM, 1, parent=name.partition("-")[0]) for name in names),
                ],
            )
            for scheduler, replica in zip(SCHEDULERS, replicas, strict=True):
                replica.start()
                schedulers.append(plane.run_scheduler(replica.scheduler_config(scheduler), scheduler)[0])
            async with always_clean(client), PodWatch(plane) as watch:
                used = InUse(watch)

                def complaint() -> str:
                    logs = [replica.log() for replica in replicas]
                    return "\n".join([str(used.used), *used.problems, *logs])

                async def fill() -> None:
                    expected = PARENTS * CHILDREN * SHARE
                    await watch.until(lambda: len(watch.bound) >= expected or used.problems != [], complaint)
                    assert used.problems == [], complaint()
                    assert {name: used.used[name] for name in parents} == dict.fromkeys(
                        parents, CHILDREN * SHARE
                    )

                pods = [
                    pod(f"{name}-{n}", "1", SCHEDULERS[n % 2], labels={f"{LABEL}name": name})
                    for n in range(PODS)
                    for name in names
                ]
                await create_all(client, Pod, pods)
                await fill()
                going = list(watch.bound.values())[::3]
                await asyncio.gather(
                    *(
                        client.delete(Pod, NAMESPACE, each.metadata.name, grace_period_seconds=0)
                        for each in going
                    )
                )
                await watch.until(
                    lambda: all(each.metadata.uid not in watch.bound for each in going), complaint
                )
                await fill()
        finally:
            await client.close()
            for process in schedulers:
                process.kill()
            for replica in replicas:
                replica.kill()
