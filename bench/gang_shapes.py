"""Gangs of every shape: how long the filter call takes that plans one, by what its members ask for.

In process, on a cluster in memory, each gang on an empty cluster. Some are planned with all of Koordinator's
plugins, the one in the network with `awareNetworkTopology`.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from bench import objects
from bench.controlplane import NAMESPACE, Document
from bench.report import Result
from koordpy.api.core import Node, Pod, Service
from koordpy.api.koordinator import ElasticQuota, NodeMetric
from koordpy.api.meta import KubeObject, format_time
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.network_topology.manager import TreeManager
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.registry import Place, build

MEMBERS, NODES, RESERVATIONS, QUOTAS = 500, 5_000, 1_000, 20
OFFERED = 500
"""Nodes that kube-scheduler offers."""

CHAIN = Path(__file__).parent / "gang-chain.yaml"
KOORDINATOR = Path(__file__).parent / "koordinator-chain.yaml"

_ANNOTATION = "gang.scheduling.koordinator.sh/"
_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_MINE = {"matchLabels": {"app": "bench"}}

Change = Callable[[int, Document], None]


class Shape(NamedTuple):
    """What the members of a gang ask for, and the cluster that it is planned on."""

    change: Change = lambda i, pod: None
    more: Callable[[], Iterable[KubeObject]] = tuple
    whole_chain: bool = False
    in_network: bool = False


def _spread(key: str, when: str = "DoNotSchedule") -> Change:
    def change(i: int, pod: Document) -> None:
        constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": _MINE}
        pod["spec"].setdefault("topologySpreadConstraints", []).append(constraint)

    return change


def _affinity(kind: str, key: str, *, required: bool = True) -> Change:
    term: Any = {"topologyKey": key, "labelSelector": _MINE}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    if not required:
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        term = {"weight": 100, "podAffinityTerm": term}

    def change(i: int, pod: Document) -> None:
        pod["spec"].setdefault("affinity", {})[kind] = {field: [term]}

    return change


def _all_of(*changes: Change) -> Change:
    def change(i: int, pod: Document) -> None:
        for each in changes:
            each(i, pod)

    return change


def _cpu(pod: Document, amount: str) -> None:
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = amount


def _different(i: int, pod: Document) -> None:
    _cpu(pod, f"{2000 + 7 * i}m")


def _roles(*sizes: int) -> Change:
    def change(i: int, pod: Document) -> None:
        role = next(n for n in range(len(sizes)) if i < sum(sizes[: n + 1]))
        _cpu(pod, f"{8 - 2 * role}")
        pod["metadata"]["labels"]["role"] = f"role-{role}"

    return change


def _quota(i: int, pod: Document) -> None:
    pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = "quota-3"


def _in_quotas(i: int, pod: Document) -> None:
    _quota(i, pod)
    pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = f"quota-{i % 4}"


def _of_network(i: int, pod: Document) -> None:
    rules = [{"layer": "SpineLayer", "strategy": "MustGather"}]
    pod["metadata"]["annotations"][f"{_ANNOTATION}network-topology-spec"] = json.dumps(
        {"gatherStrategy": rules}
    )


def _service() -> Iterable[KubeObject]:
    document = {
        "metadata": {"name": "bench", "namespace": NAMESPACE, "uid": "service"},
        "spec": {"selector": {"app": "bench"}},
    }
    yield decode(Service, document)


def _koordinators() -> Iterable[KubeObject]:
    for i in range(RESERVATIONS):
        document = objects.reservation(i, NODES)
        document["metadata"]["uid"] = f"reservation-{i}"
        yield decode(Reservation, document)
    for i in range(QUOTAS):
        amounts = {"cpu": "100000", "memory": "500Ti"}
        metadata = {"name": f"quota-{i}", "namespace": NAMESPACE, "uid": f"quota-{i}"}
        yield decode(ElasticQuota, {"metadata": metadata, "spec": {"min": amounts, "max": amounts}})


_LAYERS = [
    {"topologyLayer": "SpineLayer", "labelKey": ["example.com/spine"]},
    {"topologyLayer": "BlockLayer", "parentTopologyLayer": "SpineLayer", "labelKey": ["example.com/block"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
]


def _network() -> Iterable[KubeObject]:
    metadata = {"name": "default", "uid": "network"}
    yield decode(ClusterNetworkTopology, {"metadata": metadata, "spec": {"networkTopologySpec": _LAYERS}})


SHAPES: dict[str, Shape] = {
    "nothing more": Shape(),
    "spread over zones": Shape(_spread(_ZONE)),
    "spread over hosts": Shape(_spread(_HOSTNAME)),
    "spread over zones and hosts": Shape(_all_of(_spread(_ZONE), _spread(_HOSTNAME))),
    "spread over zones and hosts, preferred": Shape(
        _all_of(_spread(_ZONE, "ScheduleAnyway"), _spread(_HOSTNAME, "ScheduleAnyway"))
    ),
    "a Service (kube-scheduler's default constraints)": Shape(more=_service),
    "one a host (anti-affinity)": Shape(_affinity("podAntiAffinity", _HOSTNAME)),
    "all in one zone (affinity)": Shape(_affinity("podAffinity", _ZONE)),
    "in one zone, one a host": Shape(
        _all_of(_affinity("podAffinity", _ZONE), _affinity("podAntiAffinity", _HOSTNAME))
    ),
    "one a host, preferred": Shape(_affinity("podAntiAffinity", _HOSTNAME, required=False)),
    "in one zone, preferred": Shape(_affinity("podAffinity", _ZONE, required=False)),
    "all of different sizes": Shape(_different),
    "two roles, 1 and 499": Shape(_roles(1, 499)),
    "three roles, 1, 99 and 400": Shape(_roles(1, 99, 400)),
    "two roles in turn": Shape(lambda i, pod: _cpu(pod, "4" if i % 2 else "2")),
    f"Koordinator's plugins, {QUOTAS} quotas, {RESERVATIONS:,} Reservations": Shape(
        _quota, _koordinators, whole_chain=True
    ),
    "the same, members in four quotas": Shape(_in_quotas, _koordinators, whole_chain=True),
    "a place in the network": Shape(_of_network, _network, in_network=True),
}
"""By what the members have, besides 4 CPUs each."""


def run(rounds: int = 3, only: Iterable[str] = SHAPES) -> Result:
    """Measure."""
    result = Result.begin("gang_shapes", p50="p50, ms", p99="longest, ms")
    for name in only:
        row = result.row(name, "goal: 300 ms at most")
        for _ in range(rounds):
            seconds = sorted(asyncio.run(plan(SHAPES[name])) for _ in range(3))
            row.add(p50=seconds[1] * 1e3, p99=seconds[-1] * 1e3)
    return result


async def plan(shape: Shape) -> float:
    """Plan a gang on an empty cluster; return the seconds that its first filter call takes."""
    extender = in_memory(shape)
    pods = list(members(shape.change))
    store = extender.handle.cluster.store(Pod)
    for pod in pods:
        store.apply(decode(Pod, pod))
    names = [objects.node_name(i) for i in range(NODES)]
    random.Random(1).shuffle(names)
    warm = objects.waiting_pod(0, NAMESPACE)
    warm["metadata"]["uid"] = "warm"
    extender.filter(_question(warm, names[:OFFERED]))  # the columns of the node table are there
    body = _question(pods[0], names[:OFFERED])
    began = time.perf_counter()
    answer, _ = extender.filter(body)
    seconds = time.perf_counter() - began
    assert len(json.loads(answer)["NodeNames"] or ()) == 1 or shape.in_network, answer[:300]
    assert len(extender.jobs.held) == MEMBERS, (len(extender.jobs.held), answer[:300])
    extender.close("measured")
    return seconds


def _question(pod: Document, names: list[str]) -> bytes:
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode()


def members(change: Change, gang: str = "large", count: int = MEMBERS) -> Iterable[Document]:
    """Yield the pods of a gang."""
    for i in range(count):
        pod = objects.waiting_pod(i, NAMESPACE)
        pod["metadata"] |= {"name": f"{gang}-{i:03d}", "uid": f"{gang}-{i:03d}"}
        annotations = {f"{_ANNOTATION}name": gang, f"{_ANNOTATION}min-available": str(count)}
        pod["metadata"]["annotations"] = annotations
        _cpu(pod, "4")
        change(i, pod)
        yield pod


def in_memory(shape: Shape) -> Extender:
    """Return an extender over idle nodes."""
    cluster = Cluster()
    network = TreeManager(cluster, None) if shape.in_network else None
    base = Handle(cluster, network_topology=network)
    chain = config.load(KOORDINATOR if shape.whole_chain else CHAIN)
    if shape.in_network:
        aware = {"name": "Coscheduling", "args": {"awareNetworkTopology": True}}
        document = yaml.safe_load(CHAIN.read_text())
        document["profiles"][0]["pluginConfig"] = [aware]
        chain = config.read(document)
    profiles = build(chain, lambda _: base.sibling(), place=Place.EXTENDER, skip_missing=True)
    extender = Extender(profiles, base)
    now = format_time(datetime.now(UTC))
    for i in range(NODES):
        node = objects.node(i)
        node["metadata"]["labels"] |= {
            "example.com/spine": f"spine-{i // 1000}",
            "example.com/block": f"block-{i // 50}",
        }
        cluster.store(Node).apply(decode(Node, node))
        status = {**objects.node_metric_status(i), "updateTime": now}
        cluster.store(NodeMetric).apply(decode(NodeMetric, {**objects.node_metric(i), "status": status}))
    for each in shape.more():
        cluster.store(type(each)).apply(each)
    if network is not None:
        network.snapshot()
    for store in cluster.stores:
        store.synced = True
    return extender
