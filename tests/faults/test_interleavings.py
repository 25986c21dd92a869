"""Gangs and quotas in every order in which the calls for a few pods can come.

`KOORDPY_INTERLEAVINGS=12` follows more steps than `make test`.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

import pytest

from koordpy.api.core import PriorityClass
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import resource_of
from koordpy.lib import simulated_time
from koordpy_plugins.scheduling.elasticquota.controllers.overuse_revoke import QuotaOverUsedRevokeController
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota as ElasticQuotaPlugin
from tests.audited import assert_clean
from tests.faults.competing import profile
from tests.faults.interleaving import NAMESPACE, Choices, Document, SmallCluster

STEPS = int(os.environ.get("KOORDPY_INTERLEAVINGS", "0"))
"""The first calls, whose order is varied; those after them come in one order."""
GANG = "gang.scheduling.koordinator.sh/"
QUOTA = "quota.scheduling.koordinator.sh/"
WAIT = 20.0


# --- gangs -------------------------------------------------------------------------------------------

Group = Mapping[str, int]
"""The gangs that belong together, and how many members each has."""


async def add_group(cluster: SmallCluster, group: Group) -> None:
    """Create the pods of a group that do not exist; all members are needed."""
    for name, members in group.items():
        annotations = {
            f"{GANG}name": name,
            f"{GANG}min-available": str(members),
            f"{GANG}waiting-time": f"{WAIT:g}s",
            f"{GANG}groups": json.dumps([f"{NAMESPACE}/{each}" for each in group]),
        }
        for number in range(members):
            if f"{name}-{number}" not in cluster.documents:
                await cluster.add(f"{name}-{number}", annotations=annotations)


async def next_steps(
    cluster: SmallCluster, groups: Sequence[Group], tried: Mapping[str, int]
) -> dict[str, tuple[str, str]]:
    """Return what kube-scheduler may do next: try a pod, for the second time at most, or bind it.

    Of members of one gang that are in the same state only the first counts, and of groups of which none was
    tried only the first: others lead to the same.
    """
    steps: dict[str, tuple[str, str]] = {}
    fresh = [group for group in groups if not any(tried.get(f"{gang}-0") for gang in group)]
    later = {gang for group in fresh[1:] for gang in group}
    for name in await cluster.waiting():
        gang = name.partition("-")[0]
        if tried.get(name, 0) < 2 and gang not in later:
            steps.setdefault(f"try {gang} {tried.get(name, 0)}", ("try", name))
    for name in cluster.answers:
        steps.setdefault(f"bind {name.partition('-')[0]} {tried[name]}", ("bind", name))
    return steps


async def one_contest(
    cluster: SmallCluster, groups: Sequence[Group], choices: Choices, steps_varied: int, fault: str, room: int
) -> None:
    """Have groups compete in one order of calls; a fault may happen at any moment."""
    for group in groups:
        await add_group(cluster, group)
    await asyncio.sleep(0.1)
    tried: dict[str, int] = {}
    for _ in range(steps_varied):
        steps = await next_steps(cluster, groups, tried)
        if fault:
            steps["fault"] = (fault, "")
        if not steps:
            break
        what, name = list(steps.values())[choices.choose(len(steps))]
        if what == "try":
            tried[name] = tried.get(name, 0) + 1
            await cluster.filter(name)
        elif what == "bind":
            await cluster.bind(name)
        else:
            fault = ""
            if what == "bind fails":
                cluster.fail_next_bind()
            elif what == "time passes":
                await asyncio.sleep(WAIT + 1)
            else:  # a pod is replaced
                await cluster.delete(next(iter(sorted(cluster.documents))))
                await add_group(cluster, groups[0])
        await cluster.check_nodes()
    await cluster.settle()
    await cluster.check_nodes()
    bound = await cluster.bound()
    whole = [group for group in groups if all(bound.get(gang) == size for gang, size in group.items())]
    partly = bound.keys() - {gang for group in whole for gang in group}
    assert not partly, f"partly bound: {bound}"
    assert whole, "no group is whole"
    left = room - sum(bound.values())
    waiting = [sum(group.values()) for group in groups if group not in whole]
    assert all(size > left for size in waiting), bound
    await cluster.clear()


SCOPES: Mapping[str, tuple[Sequence[Group], Mapping[str, int]]] = {
    "two groups of two gangs": (({"a": 1, "b": 1}, {"c": 1, "d": 1}), {"n0": 1, "n1": 2}),
    "two gangs of two pods": (({"a": 2}, {"b": 2}), {"n0": 3}),
    "three gangs": (({"a": 2}, {"b": 2}, {"c": 1}), {"n0": 2, "n1": 2}),
}


@pytest.mark.parametrize("fault", ["", "bind fails", "time passes", "pod is replaced"])
@pytest.mark.parametrize("scope", SCOPES)
def test_in_every_order_of_calls_a_group_is_bound_whole_and_none_partly(scope: str, fault: str) -> None:
    groups, nodes = SCOPES[scope]
    steps = STEPS or (4 if fault else 5)

    async def explore(cluster: SmallCluster) -> None:
        await cluster.start(nodes)
        for choices in Choices():
            await one_contest(cluster, groups, choices, steps, fault, sum(nodes.values()))

    run(explore, profile(Coscheduling={"defaultTimeout": f"{WAIT:g}s"}))


def run(explore: Callable[[SmallCluster], Awaitable[None]], configured: Document) -> None:
    """Run on simulated time."""

    async def explored(cluster: SmallCluster) -> None:
        try:
            await explore(cluster)
            assert_clean(cluster.server)
        finally:
            await cluster.stop()

    simulated_time.run(lambda loop: explored(SmallCluster(loop, configured)))


# --- quotas ------------------------------------------------------------------------------------------

QUOTAS = ("a", "b", "c")
IMPORTANT = "important"
REVOKING = {
    "monitorAllQuotas": True,
    "delayEvictTime": "5s",
    "preemptionFitsQuota": True,
    "revokeExactly": True,
}


class Circle:
    """Three quotas, each with a third of their parent's CPUs, that borrow from each other and claim it back.

    Evicted pods are created again at once.
    """

    def __init__(self, cluster: SmallCluster) -> None:
        self.cluster = cluster
        [framework] = cluster.extender.profiles.frameworks.values()
        plugin = next(each for each in framework.plugins if isinstance(each, ElasticQuotaPlugin))
        self.trees = plugin.trees
        [self.revoking] = [
            each for each in plugin.controllers() if isinstance(each, QuotaOverUsedRevokeController)
        ]

    async def start(self) -> None:
        """Create the quotas."""
        await self.cluster.start({"n0": 9})
        client = self.cluster.client
        await client.create(PriorityClass(metadata=ObjectMeta(name=IMPORTANT), value=100))
        parent = f"{QUOTA}parent"
        for name, labels, minimum in (
            ("team", {f"{QUOTA}is-parent": "true"}, 3),
            *((name, {parent: "team"}, 1) for name in QUOTAS),
        ):
            document = {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "ElasticQuota",
                "metadata": {"name": name, "labels": labels},
                "spec": {"min": {"cpu": str(minimum)}, "max": {"cpu": "3"}},
            }
            await client.create_raw(resource_of(ElasticQuota), NAMESPACE, document)

    async def add(self, name: str, *, important: bool) -> None:
        """Create a pod of the quota that its name begins with."""
        labels = {f"{QUOTA}name": name[0]}
        await self.cluster.add(name, labels=labels, priority_class=IMPORTANT if important else "")

    async def schedule(self) -> None:
        """Try all pods once, bind those that fit, and end what is being deleted."""
        cluster = self.cluster
        for name in await cluster.waiting():
            await cluster.filter(name)
            if name in cluster.answers:
                await cluster.bind(name)
        for name, pod in (await cluster.pods()).items():
            if pod.metadata.deletion_timestamp:
                await cluster.delete(name)
                base, _, times = name.partition("-again")
                await self.add(f"{base}-again{int(times or 0) + 1}", important=bool(pod.spec.priority))

    async def revoke(self) -> None:
        """Let quotas be over-used for long enough, and evict."""
        self.trees.refresh_all()  # as the controller of the quotas' status does all the time
        await self.revoking.revoke()
        await asyncio.sleep(6.0)
        await self.revoking.revoke()
        await asyncio.sleep(0.1)

    async def one_run(self, choices: Choices) -> None:
        """Quotas get their pods in one order, the last of each being important; evictions come between."""
        cluster, left = self.cluster, dict.fromkeys(QUOTAS, 0)
        while any(count < 3 for count in left.values()):
            names = [name for name in QUOTAS if left[name] < 3]
            fresh = [name for name in names if not left[name]]
            names = [name for name in names if left[name] or name == fresh[0]]  # the others lead to the same
            is_varied = len(names) > 1 and sum(left.values()) < (STEPS or 5)
            name = names[choices.choose(len(names)) if is_varied else 0]
            left[name] += 1
            await self.add(f"{name}{left[name]}", important=left[name] == 3)
            await self.schedule()
            if left[name] == 2:
                await self.revoke()
            await cluster.check_nodes()
        before, evicted = -1, 0
        for _ in range(8):
            if before == evicted and len(await cluster.bound_pods()) == len(QUOTAS):
                break
            await self.schedule()
            await self.revoke()
            before, evicted = evicted, sum(cluster.evictions.values())
        assert before == evicted, f"pods are still being evicted: {cluster.evictions}"
        bound = await cluster.bound_pods()
        assert sorted(pod.metadata.name[0] for pod in bound) == list(QUOTAS), bound
        assert all(pod.spec.priority == 100 for pod in bound), bound
        # A pod that gave its room to another quota may get room there again, and give it to the important pod
        # of its own quota at last.
        assert max(cluster.evictions.values(), default=0) <= 2, cluster.evictions
        assert evicted <= 6, cluster.evictions
        await cluster.clear()


def test_quotas_that_claim_from_each_other_in_a_circle_come_to_rest_in_every_order() -> None:
    async def explore(cluster: SmallCluster) -> None:
        circle = Circle(cluster)
        await circle.start()
        for choices in Choices():
            await circle.one_run(choices)

    run(explore, profile(ElasticQuota=REVOKING))
