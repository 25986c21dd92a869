"""Quota trees: what a full refresh, one event and one check cost with thousands of quotas.

In process, on a cluster in memory. The quotas are six levels deep; their pods are at the leaves, half of them
bound. They request more than there is, so another node changes what every quota may use. In the row with
scaled minimums the parents do not cover the minimums of their children; in the one with guaranteed usage no
quota lends its minimum. The change of a quota is a costly one: the minimum of a quota at the top that does
not lend. What exists before is kept from the garbage collector, as in a process that has read its lists.
"""

import gc
import random
import time
from datetime import UTC, datetime

from bench.report import Result, Row
from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import GUARANTEE_USAGE, SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota as Plugin

QUOTAS, DEPTH, CHILDREN = 5_000, 6, 4
PODS = 20_000
NODES, CORES = 50, 8
EVENTS = 200
CHANGES = 100


def run(rounds: int = 5, quotas: int = QUOTAS, pods: int = PODS) -> Result:
    """Measure, each round on a new cluster."""
    result = Result.begin(
        "quotas",
        rebuild="build, ms",
        first="first refresh, ms",
        refresh="full refresh after a node is added, ms",
        change="change of a quota at the top, µs",
        changed="refresh after it, ms",
        event="pod event, µs",
        check="check of a pod, µs",
    )
    for _ in range(rounds):
        for least, guarantees, what in (
            (1, False, "minimums covered"),
            (20, False, "minimums scaled"),
            (1, True, "usage guaranteed"),
        ):
            row = result.row(f"{quotas:,} quotas, {pods:,} pods, {what}")
            _measure(row, least, quotas, pods, guarantees=guarantees)
    return result


def _measure(row: Row, least: int, quotas: int, pods: int, *, guarantees: bool) -> None:
    cluster = Cluster(FakeClock(datetime(2030, 1, 1, tzinfo=UTC)))
    handle = Handle(cluster)
    handle.gates = FeatureGates(SPECS, {GUARANTEE_USAGE: guarantees})
    plugin, rng = Plugin.make(handle), random.Random(1)
    for number in range(NODES):
        _add_node(cluster, f"n{number}")
    leaves = _add_quotas(cluster, rng, quotas, least)
    for number in range(pods):
        cluster.store(Pod).apply(_pod(f"p{number}", rng.choice(leaves), node="n1" if number % 2 else ""))
    gc.collect()
    gc.freeze()
    began = time.perf_counter()
    plugin.trees.managers  # noqa: B018 - the first reading builds the trees
    rebuilt = time.perf_counter()
    plugin.trees.refresh_all()
    first = time.perf_counter()
    _add_node(cluster, "new")
    added = time.perf_counter()
    plugin.trees.refresh_all()
    refreshed = time.perf_counter()
    changes = [_quota("q0", "", str(least + 1 + number), lends=False) for number in range(CHANGES)]
    began_changes = time.perf_counter()
    for quota in changes:
        cluster.store(ElasticQuota).apply(quota)
    changed = time.perf_counter()
    plugin.trees.refresh_all()
    refreshed_again = time.perf_counter()
    waiting = [_pod(f"w{number}", rng.choice(leaves)) for number in range(EVENTS)]
    began_events = time.perf_counter()
    for pod in waiting:
        cluster.store(Pod).apply(pod)
    ended_events = time.perf_counter()
    nodes = cluster.nodes.all()
    began_checks = time.perf_counter()
    for pod in waiting:
        plugin.pre_filter(CycleState(), pod, nodes)
    ended_checks = time.perf_counter()
    row.add(
        rebuild=(rebuilt - began) * 1e3,
        first=(first - rebuilt) * 1e3,
        refresh=(refreshed - added) * 1e3,
        change=(changed - began_changes) / CHANGES * 1e6,
        changed=(refreshed_again - changed) * 1e3,
        event=(ended_events - began_events) / EVENTS * 1e6,
        check=(ended_checks - began_checks) / EVENTS * 1e6,
    )
    cluster.close()
    gc.unfreeze()


def _add_node(cluster: Cluster, name: str) -> None:
    document = {"metadata": {"name": name, "uid": name}, "status": {"allocatable": {"cpu": str(CORES)}}}
    cluster.store(Node).apply(decode(Node, document))


def _add_quotas(cluster: Cluster, rng: random.Random, wanted: int, least: int) -> list[str]:
    """Add a tree, level by level; return the names of the quotas without children."""
    level, number, leaves = [""], 0, list[str]()
    for depth in range(DEPTH):
        following: list[str] = []
        # The last level takes what is left.
        last = depth == DEPTH - 1
        share = -(-(wanted - number) // len(level)) if last else CHILDREN
        for parent in level:
            for _ in range(min(share, wanted - number)):
                name, number = f"q{number}", number + 1
                following.append(name)
                most = str(rng.randint(20, 60) * (DEPTH - depth))
                quota = _quota(name, parent, str(least), most, is_parent=not last)
                cluster.store(ElasticQuota).apply(quota)
        level = leaves = following
    return leaves


def _quota(
    name: str, parent: str, least: str, most: str = "300", *, is_parent: bool = True, lends: bool = True
) -> ElasticQuota:
    labels = {extension.LABEL_QUOTA_IS_PARENT: "true" if is_parent else "false"}
    if parent:
        labels[extension.LABEL_QUOTA_PARENT] = parent
    if not lends:
        labels[extension.LABEL_QUOTA_ALLOW_LENT_RESOURCE] = "false"
    document = {
        "metadata": {"name": name, "namespace": "quotas", "uid": name, "labels": labels},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
    }
    return decode(ElasticQuota, document)


def _pod(name: str, quota: str, node: str = "") -> Pod:
    return decode(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "labels": {extension.LABEL_QUOTA_NAME: quota},
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        },
    )
