"""Members of all kinds, with all plugins: they get the nodes that whole cycles, one after the other, find."""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api.core import Namespace, Node, Pod, Service
from koordpy.api.koordinator import ElasticQuota, NodeMetric
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.gangs.evaluations import Evaluations
from koordpy.scheduling.gangs.planner import Planner

from ..worlds import NOW, configuration, filter_body

Document = dict[str, Any]

CHAIN = ("Coscheduling", "LoadAwareScheduling", "Reservation", "ElasticQuota", "NodeResourcesFitPlus")
ARGS: Mapping[str, Any] = {
    "NodeResourcesFitPlus": {"resources": {"cpu": {"type": "LeastAllocated", "weight": 1}}},
}
KEYS = ("zone", "kubernetes.io/hostname", "rack")
TAINTS = ("PreferNoSchedule", "NoSchedule")
LABEL = "quota.scheduling.koordinator.sh/name"

chance = st.integers(0, 99)


def nodes(rng: random.Random, count: int) -> Iterator[Document]:
    for i in range(count):
        labels = {"kubernetes.io/hostname": f"n{i:02d}", "zone": f"z{rng.randrange(3)}"}
        if rng.random() < 0.8:
            labels["rack"] = f"r{rng.randrange(5)}"
        taints = [
            {"key": f"t{rng.randrange(2)}", "effect": rng.choice(TAINTS)}
            for _ in range(rng.choice((0, 0, 0, 1, 2)))
        ]
        amounts = {"cpu": str(rng.choice((4, 8, 16))), "memory": f"{rng.choice((16, 32))}Gi", "pods": "7"}
        yield {
            "metadata": {"name": f"n{i:02d}", "uid": f"n{i:02d}", "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": amounts},
        }


def term(rng: random.Random) -> Document:
    selector = {"matchLabels": {"app": rng.choice("ab")}}
    return {"topologyKey": rng.choice(KEYS), "labelSelector": selector}


def template(rng: random.Random) -> Document:
    """The spec and the labels of some members."""
    labels = {"app": rng.choice("ab"), LABEL: rng.choice(("q0", "q1"))}
    containers: list[Document] = [{"name": "c", "image": rng.choice(("x", "y")), "resources": {}}]
    spec: Document = {"schedulerName": "default-scheduler", "containers": containers}
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "t0", "operator": "Exists"}]
    if rng.random() < 0.2:
        containers[0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    affinity: Document = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if rng.random() < 0.25:
            required = "requiredDuringSchedulingIgnoredDuringExecution"
            affinity.setdefault(kind, {})[required] = [term(rng)]
        if rng.random() < 0.25:
            preferred = "preferredDuringSchedulingIgnoredDuringExecution"
            weighted = [{"weight": rng.choice((1, 50)), "podAffinityTerm": term(rng)}]
            affinity.setdefault(kind, {})[preferred] = weighted
    if rng.random() < 0.25:
        wish = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z0"]}]}
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": wish}]
        }
    if affinity:
        spec["affinity"] = affinity
    if rng.random() < 0.4:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": rng.choice((1, 2)),
                "topologyKey": rng.choice(KEYS),
                "whenUnsatisfiable": rng.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": rng.choice("ab")}},
            }
            for _ in range(rng.choice((1, 2)))
        ]
    return {"labels": labels, "spec": spec}


def members(rng: random.Random, count: int) -> Iterator[Document]:
    templates = [template(rng) for _ in range(rng.choice((1, 2, 3)))]
    sizes = [("1", "1Gi"), ("2", "3Gi"), ("500m", "2Gi")]
    at_random, in_turn = rng.random() < 0.3, rng.random() < 0.5
    for i in range(count):
        chosen = templates[i % len(templates) if in_turn else min(i, len(templates) - 1)]
        cpu, memory = sizes[i % len(sizes)] if at_random else sizes[0]
        spec = json.loads(json.dumps(chosen["spec"]))
        spec["containers"][0]["resources"] = {"requests": {"cpu": cpu, "memory": memory}}
        annotations = {
            "gang.scheduling.koordinator.sh/name": "g",
            "gang.scheduling.koordinator.sh/min-available": "2",
        }
        yield {
            "metadata": {
                "name": f"g-{i:02d}",
                "namespace": "default",
                "uid": f"g-{i:02d}",
                "labels": chosen["labels"],
                "annotations": annotations,
            },
            "spec": spec,
        }


def planned(seed: int, *, nominated: bool) -> tuple[Extender, list[Document]]:
    """A cluster, and a gang of which the first pod was filtered."""
    rng = random.Random(seed)
    cluster = Cluster(FakeClock(NOW))
    extender = create(configuration(CHAIN, ARGS), cluster, None)
    extender.handle.rng.randrange = lambda *_: 0  # type: ignore[method-assign]  # of equal nodes, the first
    documents = list(nodes(rng, rng.choice((6, 12))))
    names = [each["metadata"]["name"] for each in documents]
    for each in documents:
        cluster.store(Node).apply(decode(Node, each))
        usage = {"cpu": f"{rng.randrange(3000)}m", "memory": f"{rng.randrange(8)}Gi"}
        status = {"updateTime": NOW.isoformat(), "nodeMetric": {"nodeUsage": {"resources": usage}}}
        cluster.store(NodeMetric).apply(
            decode(NodeMetric, {"metadata": {"name": each["metadata"]["name"]}, "status": status})
        )
    metadata = {"name": "default", "uid": "default", "labels": {}}
    cluster.store(Namespace).apply(decode(Namespace, {"metadata": metadata}))
    if rng.random() < 0.3:
        metadata = {"name": "s", "namespace": "default", "uid": "s"}
        cluster.store(Service).apply(
            decode(Service, {"metadata": metadata, "spec": {"selector": {"app": "a"}}})
        )
    for i in range(2):
        amounts = {"cpu": rng.choice(("9", "100")), "memory": "100Gi"}
        metadata = {"name": f"q{i}", "namespace": "default", "uid": f"q{i}"}
        spec = {"min": amounts, "max": amounts}
        cluster.store(ElasticQuota).apply(decode(ElasticQuota, {"metadata": metadata, "spec": spec}))
    for i in range(rng.choice((0, 3))):
        containers = [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "2Gi"}}}]
        owners = [{"labelSelector": {"matchLabels": {"app": rng.choice(("b", "nobody"))}}}]
        reservation = {
            "metadata": {"name": f"r{i}", "uid": f"r{i}"},
            "spec": {"template": {"spec": {"containers": containers}}, "owners": owners, "ttl": "0s"},
            "status": {
                "phase": "Available",
                "nodeName": rng.choice(names),
                "allocatable": {"cpu": "2", "memory": "2Gi"},
            },
        }
        cluster.store(Reservation).apply(decode(Reservation, reservation))
    for i in range(rng.choice((0, 4))):
        other = template(rng)
        document = {
            "metadata": {"name": f"o{i}", "namespace": "default", "uid": f"o{i}", "labels": other["labels"]},
            "spec": {**other["spec"], "nodeName": rng.choice(names)},
        }
        cluster.store(Pod).apply(decode(Pod, document))
    gang = list(members(rng, rng.choice((8, 20))))
    for each in gang:
        if nominated and rng.random() < 0.5:
            each["status"] = {"nominatedNodeName": rng.choice(names)}
        cluster.store(Pod).apply(decode(Pod, each))
    for store in cluster.stores:
        store.synced = True
    extender.filter(filter_body(gang[0], names))
    return extender, gang


def where(seed: int, *, nominated: bool) -> tuple[dict[str, str | None], int]:
    extender, gang = planned(seed, nominated=nominated)
    with closing(_Closing(extender)):
        uids = [each["metadata"]["uid"] for each in gang]
        return {uid: extender.nodes.placed_on(uid) for uid in uids}, len(extender.jobs.held)


class _Closing:
    def __init__(self, extender: Extender) -> None:
        self._extender = extender

    def close(self) -> None:
        self._extender.close("end")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30), nominated=st.booleans())
async def test_every_member_gets_the_node_that_a_whole_cycle_finds(seed: int, nominated: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evaluations, "best", lambda *_: None)
        one_by_one = where(seed, nominated=nominated)
    assert where(seed, nominated=nominated) == one_by_one


def gang_member(i: int, cpu: str = "1", labels: Mapping[str, str] | None = None, **spec: Any) -> Document:
    """A pod of a gang that needs two."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    annotations = {
        "gang.scheduling.koordinator.sh/name": "g",
        "gang.scheduling.koordinator.sh/min-available": "2",
    }
    name = f"g-{i:02d}"
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"schedulerName": "default-scheduler", "containers": containers, **spec},
    }


def cycles_for(pods: list[Document], names: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members for which a whole cycle ran, on nodes with room for four pods of 1 CPU each."""
    ran: list[str] = []
    cycle = Planner._whole_cycle

    def counted(self: Planner, framework: Any, whole: Any, pod: Pod, *rest: Any) -> Any:
        ran.append(pod.metadata.name)
        return cycle(self, framework, whole, pod, *rest)

    monkeypatch.setattr(Planner, "_whole_cycle", counted)
    cluster = Cluster(FakeClock(NOW))
    made = create(configuration(("Coscheduling",)), cluster, None)
    for i, name in enumerate(names):
        labels = {"kubernetes.io/hostname": name, "zone": f"z{i % 2}"}
        status = {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}}
        cluster.store(Node).apply(
            decode(Node, {"metadata": {"name": name, "uid": name, "labels": labels}, "status": status})
        )
    for each in pods:
        cluster.store(Pod).apply(decode(Pod, each))
    for store in cluster.stores:
        store.synced = True
    made.filter(filter_body(pods[0], names))
    made.close("end")
    return ran


async def test_one_whole_cycle_tells_why_the_members_beyond_the_room_do_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = [gang_member(i) for i in range(20)]
    assert cycles_for(pods, ["a", "b"], monkeypatch) == ["g-00", "g-08"]


async def test_members_of_different_sizes_need_no_cycle_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [gang_member(i, f"{100 + i}m") for i in range(20)]
    assert cycles_for(pods, ["a", "b"], monkeypatch) == ["g-00"]


async def test_members_with_spread_constraints_need_no_cycle_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    pods = [gang_member(i, "100m", {"app": "a"}, topologySpreadConstraints=[constraint]) for i in range(20)]
    assert cycles_for(pods, ["a", "b"], monkeypatch) == ["g-00"]
