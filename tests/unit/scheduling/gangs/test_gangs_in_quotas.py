"""Gangs whose members count in quotas: admitted together, or refused together with the quota's sentence."""

import json
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.extender.extender import Extender, create

from ..worlds import NOW, configuration, filter_body, node

Document = dict[str, Any]
NODES = ["n1", "n2", "n3"]


def quota(name: str, cpu: str) -> ElasticQuota:
    amounts = {"cpu": cpu, "memory": "100Gi"}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return decode(ElasticQuota, {"metadata": metadata, "spec": {"min": amounts, "max": amounts}})


def member(i: int, quota_name: str, *, needed: int = 6, gang: str = "g") -> Document:
    """A pod of 1 CPU."""
    name = f"{gang}-{i}"
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {"quota.scheduling.koordinator.sh/name": quota_name},
        "annotations": {
            "gang.scheduling.koordinator.sh/name": gang,
            "gang.scheduling.koordinator.sh/min-available": str(needed),
        },
    }
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]
    return {"metadata": metadata, "spec": {"schedulerName": "default-scheduler", "containers": containers}}


def cluster_with(pods: list[Document], *quotas: ElasticQuota) -> Extender:
    cluster = Cluster(FakeClock(NOW))
    made = create(configuration(("Coscheduling", "ElasticQuota")), cluster, None)
    for name in NODES:
        cluster.store(Node).apply(node(name))
    for each in quotas:
        cluster.store(ElasticQuota).apply(each)
    for pod in pods:
        cluster.store(Pod).apply(decode(Pod, pod))
    for store in cluster.stores:
        store.synced = True
    return made


def ask(made: Extender, pod: Document) -> tuple[list[str], str]:
    """Filter a pod; return the nodes that are left, and what it is told."""
    answer = json.loads(made.filter(filter_body(pod, NODES))[0])
    refused = set(answer["FailedAndUnresolvableNodes"].values())
    return answer["NodeNames"] or [], " ".join(sorted(refused))


def on_nodes(made: Extender, pods: list[Document]) -> int:
    return sum(made.nodes.placed_on(pod["metadata"]["uid"]) is not None for pod in pods)


async def test_a_gang_that_exceeds_its_quota_together_is_refused_at_once() -> None:
    pods = [member(i, "q") for i in range(6)]
    made = cluster_with(pods, quota("q", "5"))
    nodes, told = ask(made, pods[0])
    assert nodes == []
    assert told.startswith(
        "5 of 6 pods of default/g fit; pod default/g-5 does not: ElasticQuota: Insufficient quotas, "
        "quotaName: q, runtime: cpu:5,"
    )
    assert on_nodes(made, pods) == 0
    for pod in pods[1:]:
        assert ask(made, pod) == ([], told)
    made.close("end")


async def test_a_refused_gang_leaves_its_quota_to_others() -> None:
    pods, single = [member(i, "q") for i in range(6)], member(0, "q", needed=1, gang="single")
    made = cluster_with([*pods, single], quota("q", "5"))
    assert ask(made, pods[0])[0] == []
    assert len(ask(made, single)[0]) == 1
    made.close("end")


async def test_a_gang_in_several_quotas_needs_room_in_each() -> None:
    pods = [member(i, "ab"[i % 2]) for i in range(6)]
    tight = cluster_with(pods, quota("a", "3"), quota("b", "2"))
    nodes, told = ask(tight, pods[0])
    assert nodes == []
    assert "pod default/g-5 does not: ElasticQuota: Insufficient quotas, quotaName: b" in told
    assert on_nodes(tight, pods) == 0
    tight.close("end")
    enough = cluster_with(pods, quota("a", "3"), quota("b", "3"))
    assert len(ask(enough, pods[0])[0]) == 1
    assert on_nodes(enough, pods) == 6
    enough.close("end")


async def test_a_gang_goes_ahead_with_the_members_that_its_quota_admits_if_they_suffice() -> None:
    pods = [member(i, "q", needed=4) for i in range(6)]
    made = cluster_with(pods, quota("q", "5"))
    assert len(ask(made, pods[0])[0]) == 1
    assert on_nodes(made, pods) == 5
    made.close("end")
