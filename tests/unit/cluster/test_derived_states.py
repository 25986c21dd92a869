"""Every derived state in the source tree equals a rebuild after any events; none is left out."""

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import msgspec
import pytest

import koordpy
import koordpy_plugins
from koordpy.api.core import Pod
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.label_selector import parse
from koordpy.api.quantity import Quantity
from koordpy.api.quota.info import QuotaInfo, bound_namespaces
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.cluster.node_set import NodeSet
from koordpy.cluster.nodes import NodeTable
from koordpy.cluster.pod_counts import PodCounts, PodMatch
from koordpy.cluster.quota.topology import QuotaTopology
from koordpy.descheduling.toolkit.node_requests import NodeRequests
from koordpy.descheduling.toolkit.pods_by_node import PodsByNode
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.nominator import Nominator
from koordpy.scheduling.toolkit.topology import Topology
from koordpy.testing.random_objects import NODES, Kind, elastic_quota
from koordpy.testing.rebuild import Assume, Read, check_nothing_is_kept, check_rebuild
from koordpy_plugins.descheduling.lownodeload.totals import UsageTotals
from koordpy_plugins.scheduling.coscheduling.topology.selector_counts import SelectorCounts
from koordpy_plugins.scheduling.deviceshare.adapters.node_locks import NodeLocks
from koordpy_plugins.scheduling.deviceshare.state.columns import DeviceColumns
from koordpy_plugins.scheduling.deviceshare.state.free_gpus import FreeGPUs
from koordpy_plugins.scheduling.deviceshare.state.ledger import DeviceLedger
from koordpy_plugins.scheduling.deviceshare.templates import GPUSharedResourceTemplates
from koordpy_plugins.scheduling.elasticquota.state.settings import QuotaSettings
from koordpy_plugins.scheduling.elasticquota.state.trees import QuotaTrees
from koordpy_plugins.scheduling.loadaware.args import LoadAwareSchedulingArgs
from koordpy_plugins.scheduling.loadaware.assign_cache import AssignCache
from koordpy_plugins.scheduling.loadaware.columns import LoadColumns
from koordpy_plugins.scheduling.loadaware.settings import LoadSettings, ThresholdSettings
from koordpy_plugins.scheduling.nodenumaresource.state.columns import CPUColumns
from koordpy_plugins.scheduling.nodenumaresource.state.ledger import CPULedger
from koordpy_plugins.scheduling.nodenumaresource.state.pod_allocation import PodAllocation
from koordpy_plugins.scheduling.reservation.commit.pods import PodCommit
from koordpy_plugins.scheduling.reservation.commit.users import ReservationUsers
from koordpy_plugins.scheduling.reservation.state.cache import ReservationCache, UnknownReservation
from koordpy_plugins.scheduling.reservation.state.withheld import Withheld

SEEDS = int(os.environ.get("KOORDPY_REBUILD_SEEDS", "40"))

Undo = Callable[[], None] | None


def waiting(cluster: Cluster, rng: Random) -> Pod | None:
    """A pod that waits and occupies no node."""
    pods = [
        pod
        for pod in cluster.store(Pod)
        if not pod.spec.node_name
        and not pod.is_terminal
        and cluster.nodes.placed_on(pod.metadata.uid) is None
    ]
    return rng.choice(pods) if pods else None


def assume_on_node(table: NodeTable, rng: Random) -> Undo:
    pod = waiting(table.cluster, rng)
    if pod is None:
        return None
    table.assume(pod, rng.choice(NODES))
    return lambda: void(table.forget(pod.metadata.uid))


def assume_load(cache: AssignCache, rng: Random) -> Undo:
    pod, name = waiting(cache.cluster, rng), rng.choice(NODES)
    if pod is None or pod.metadata.uid in cache.unconfirmed():
        return None
    cache.assign(name, pod)
    return lambda: cache.forget(name, pod.metadata.uid)


def assume_reservation(cache: ReservationCache, rng: Random) -> Undo:
    """Place a Reservation, or allocate one to a pod."""
    pod, infos = waiting(cache.cluster, rng), list(cache.infos.values())
    placed = [each for each in cache.reservations if each.status.phase == "Pending"]
    if placed and rng.random() < 0.5:
        chosen = rng.choice(placed)
        if chosen.metadata.uid in cache.infos:
            return None
        document = {"nodeName": rng.choice(NODES), "phase": "Pending", "allocatable": {"cpu": "4"}}
        cache.assume(decode_with_status(chosen, document))
        return partial(cache.forget, chosen.metadata.uid)
    if pod is None or not infos or cache.reservation_of(pod.metadata.uid):
        return None
    info = rng.choice(infos)
    try:
        cache.assume_pod(info.uid, pod)
    except UnknownReservation:
        return None
    handle = Handle(cache.cluster)
    return partial(PodCommit(handle, cache, ReservationUsers(handle)).forget, pod)


def decode_with_status(obj: Reservation, status: dict[str, Any]) -> Reservation:
    return decode(Reservation, msgspec.to_builtins(obj) | {"status": status})


def accept_quota(tree: QuotaTopology, rng: Random) -> Undo:
    """Validate a change of a quota that nothing else changes; the watch shows it, or another one, later."""
    name = rng.choice("ef")
    if name in tree.unconfirmed():
        return None
    store = tree.cluster.store(ElasticQuota)
    known = store.get("q", name)
    if known is not None and rng.random() < 0.3:
        tree.remove(name, QuotaInfo.of(known).parent_name, bound_namespaces(known))
        if rng.random() < 0.3:
            return lambda: store.apply(touched(known, rng))
        return lambda: store.discard(f"q/{name}")
    uid = f"uid-{name}" if known is None else known.metadata.uid
    quota = Kind(ElasticQuota, (), elastic_quota).random(rng, f"q/{name}", uid, rng.randint(0, 1 << 40))
    assert isinstance(quota, ElasticQuota)
    if known is None:
        tree.add(QuotaInfo.of(quota))
    else:
        tree.replace(QuotaInfo.of(quota), bound_namespaces(known))
        if rng.random() < 0.3:
            return lambda: store.apply(touched(known, rng))
    return lambda: store.apply(quota)


def touched(quota: ElasticQuota, rng: Random) -> ElasticQuota:
    """Return a quota of which nothing but its version has changed."""
    document = msgspec.to_builtins(quota)
    document["metadata"]["resourceVersion"] = str(rng.randint(0, 1 << 40))
    return decode(ElasticQuota, document)


def reserve_in_quota(trees: QuotaTrees, rng: Random) -> Undo:
    """Count a pod between filter and Reserve, or one that has passed Reserve."""
    pod = waiting(trees.cluster, rng)
    if pod is None or pod.metadata.uid in trees.unconfirmed():
        return None
    if rng.random() < 0.5:
        trees.charge(pod)
        return lambda: trees.discharge(pod.metadata.uid)
    trees.reserve(pod)
    return lambda: trees.unreserve(pod)


def reserve_devices(ledger: DeviceLedger, rng: Random) -> Undo:
    """Give devices to a pod that waits; the reserved pod may be observed on any node afterwards."""
    pod, node = waiting(ledger.cluster, rng), rng.choice(NODES)
    if pod is None or pod.metadata.key in ledger.unconfirmed():
        return None
    key = pod.metadata.key
    ledger.reserve(node, key, {"gpu": (DeviceAllocation(rng.randint(0, 3), {"x.io/y": Quantity.of(1)}),)})
    return lambda: ledger.release(node, key)


def count_pods(counts: PodCounts, nodes: NodeSet) -> dict[str, list[int]]:
    """How many pods some selectors find on each node."""
    matches = [
        PodMatch(((namespaces, parse(text)),), terminating)
        for namespaces in (None, frozenset({"x"}))
        for text in ("", "app=a", "app!=a")
        for terminating in (True, False)
    ]
    found = [counts.by_row(match, nodes)[nodes.rows].tolist() for match in matches]
    return {name: [each[index] for each in found] for index, name in enumerate(nodes.names)}


def count_selected(counts: SelectorCounts, nodes: NodeSet) -> dict[str, list[int]]:
    """How many pods of some selectors are on each node."""
    found = [counts.by_row(selector, nodes)[nodes.rows].tolist() for selector in ("x", "y")]
    return {name: [each[index] for each in found] for index, name in enumerate(nodes.names)}


def requested(table: NodeTable, nodes: NodeSet) -> dict[str, dict[str, int]]:
    """What pods request on each node."""
    names = table.resources.names
    by_resource = {name: nodes.requested(column).tolist() for column, name in enumerate(names)}
    return {
        node: {name: amounts[index] for name, amounts in by_resource.items() if amounts[index]}
        for index, node in enumerate(nodes.names)
    }


def reserve_cpus(ledger: CPULedger, rng: Random) -> Undo:
    """Reserve CPUs and NUMA resources for a pod that waits, on a node that may have others."""
    pod, name = waiting(ledger.cluster, rng), rng.choice(NODES)
    if pod is None or pod.metadata.uid in ledger.unconfirmed():
        return None
    meta = pod.metadata
    cpus = frozenset(rng.sample(range(8), rng.randint(0, 3)))
    amounts = {rng.randint(0, 2): {"cpu": Quantity.of(len(cpus))}}
    ledger.reserve(name, PodAllocation(meta.uid, meta.namespace, meta.name, cpus, "PCPULevel", amounts))
    return lambda: ledger.release(name, meta.uid)


def nominate(nominator: Nominator, rng: Random) -> Undo:
    pod, name = waiting(nominator.cluster, rng), rng.choice(NODES)
    if pod is None or nominator.node_of(pod.metadata.uid):
        return None
    uid = pod.metadata.uid
    nominator.add(pod, name)
    return lambda: nominator.delete(uid) if uid in nominator.unconfirmed() else None


def zones(topology: Topology, nodes: NodeSet) -> dict[str, list[str]]:
    """The nodes that are in one domain with each node."""
    numbers = topology.domains("zone").of(nodes).tolist()
    pairs = list(zip(nodes.names, numbers, strict=True))
    return {name: sorted(other for other, its in pairs if number and its == number) for name, number in pairs}


def void(_: object) -> None:
    """Ignore a result."""


@dataclass(frozen=True)
class Case:
    """How a state is created, made to assume something, and read."""

    make: Callable[[Cluster], DerivedState]
    assume: Assume[Any] | None = None
    read: Read[Any] | None = None


ARGS = LoadAwareSchedulingArgs.model_validate(
    {
        "usageThresholds": {"cpu": 50, "memory": 60},
        "prodUsageThresholds": {"cpu": 40},
        "aggregated": {
            "usageThresholds": {"cpu": 45},
            "usageAggregationType": "p95",
            "scoreAggregationType": "p50",
        },
        "estimatedSecondsAfterPodScheduled": 60,
    }
)
LOADS = LoadSettings.of(ARGS)

CASES: dict[type[DerivedState], Case] = {
    NodeTable: Case(lambda cluster: cluster.nodes, assume_on_node, requested),
    PodCounts: Case(lambda cluster: cluster.shared(PodCounts), read=count_pods),
    Nominator: Case(lambda cluster: cluster.shared(Nominator), nominate),
    Topology: Case(lambda cluster: cluster.shared(Topology), read=zones),
    QuotaTopology: Case(lambda cluster: cluster.shared(QuotaTopology), accept_quota),
    QuotaTrees: Case(lambda cluster: cluster.shared(QuotaTrees, QuotaSettings()), reserve_in_quota),
    AssignCache: Case(lambda cluster: cluster.shared(AssignCache, LOADS), assume_load),
    LoadColumns: Case(lambda cluster: cluster.shared(LoadColumns, LOADS, ThresholdSettings.of(ARGS))),
    ReservationCache: Case(lambda cluster: cluster.shared(ReservationCache), assume_reservation),
    PodsByNode: Case(lambda cluster: cluster.shared(PodsByNode)),
    NodeRequests: Case(lambda cluster: cluster.shared(NodeRequests)),
    UsageTotals: Case(lambda cluster: cluster.shared(UsageTotals)),
    CPUColumns: Case(lambda cluster: cluster.shared(CPUColumns)),
    CPULedger: Case(lambda cluster: cluster.shared(CPULedger), reserve_cpus),
    SelectorCounts: Case(lambda cluster: cluster.shared(SelectorCounts), read=count_selected),
    DeviceClasses: Case(lambda cluster: cluster.shared(DeviceClasses)),
    Withheld: Case(lambda cluster: cluster.shared(Withheld)),
    NodeLocks: Case(lambda cluster: cluster.shared(NodeLocks)),
    DeviceLedger: Case(lambda cluster: cluster.shared(DeviceLedger), reserve_devices),
    DeviceColumns: Case(lambda cluster: cluster.shared(DeviceColumns)),
    FreeGPUs: Case(lambda cluster: cluster.shared(FreeGPUs)),
    GPUSharedResourceTemplates: Case(lambda cluster: cluster.shared(GPUSharedResourceTemplates, "x", "c0")),
}


def all_states() -> Iterator[type[DerivedState]]:
    """Every concrete subclass in the tree."""
    for package in (koordpy, koordpy_plugins):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    waiting = [DerivedState]
    while waiting:
        found = waiting.pop()
        waiting.extend(found.__subclasses__())
        if found.__module__.split(".")[0] in ("koordpy", "koordpy_plugins") and not inspect.isabstract(found):
            yield found


STATES = sorted(all_states(), key=lambda state: (state.__module__, state.__name__))


def test_every_derived_state_is_compared_with_a_rebuild() -> None:
    assert set(STATES) == set(CASES)
    for state, case in CASES.items():
        can_assume = state.unconfirmed is not DerivedState.unconfirmed
        assert can_assume == (case.assume is not None), state


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_derived_state_equals_a_rebuild(state: type[DerivedState]) -> None:
    case = CASES[state]
    check_rebuild(case.make, assume=case.assume, read=case.read, seeds=range(SEEDS))


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_derived_state_keeps_nothing_of_objects_that_are_gone(state: type[DerivedState]) -> None:
    check_nothing_is_kept(CASES[state].make)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_a_closed_state_follows_nothing(state: type[DerivedState]) -> None:
    cluster = Cluster()
    CASES[state].make(cluster)
    assert any(store._subscriptions for store in cluster.stores)
    cluster.close()
    assert not any(store._subscriptions for store in cluster.stores)
