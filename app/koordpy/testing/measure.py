"""Measures the cost of a scheduling plugin: its points are called repeatedly on a cluster of some size.

`koordpy plugin measure NAME` prints it. The figures are those of one otherwise idle process; compare them
with each other, and with the existing plugins, on the same machine.
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Filter, Plugin, PreFilter, PreScore, Score
from koordpy.scheduling.interface.status import Status

from .cluster import cluster
from .objects import NOW, node, node_metric, pod
from .scheduling import Scheduling


@dataclass(frozen=True)
class Cost:
    """Microseconds per call of a point, for all nodes together."""

    point: str
    median: float
    p99: float


def crowd(nodes: int, pods_per_node: int = 5, *, seed: int = 0) -> Cluster:
    """Return a cluster of nodes in three zones with metrics and running pods."""
    rng = random.Random(seed)
    made: list[KubeObject] = []
    for i in range(nodes):
        name = f"node-{i:05d}"
        labels = {"topology.kubernetes.io/zone": f"zone-{i % 3}"}
        made.append(node(name, cpu=96, memory="384Gi", labels=labels))
        made.append(node_metric(name, cpu=rng.randint(5, 50), memory=f"{rng.randint(20, 200)}Gi"))
        made.extend(
            pod(f"running-{i}-{j}", on=name, owner=f"set-{i % 50}", labels={"app": f"app-{i % 50}"})
            for j in range(pods_per_node)
        )
    return cluster(*made, now=NOW)


def costs(
    plugin: type[Plugin] | str,
    known: Cluster,
    *,
    args: Mapping[str, Any] | None = None,
    calls: int = 200,
    pods: Sequence[Pod] | None = None,
) -> list[Cost]:
    """Call PreFilter, Filter, PreScore and Score of a plugin, if implemented, for many pods.

    `pods` are taken in turn; by default they come from ten workloads, as they do in a cluster.
    """
    name = plugin if isinstance(plugin, str) else plugin.name
    scheduling = Scheduling(known, plugin, args={name: dict(args)} if args else None)
    measured = scheduling.plugin(name)
    asked = pods or [pod(f"waiting-{i}", labels={"app": f"app-{i % 10}"}) for i in range(50)]
    times: dict[str, list[float]] = {}
    for i in range(calls + 20):
        for point, call in _points(scheduling, measured, asked[i % len(asked)]):
            began = time.perf_counter()
            call()
            if i >= 20:  # the first calls fill caches
                times.setdefault(point, []).append((time.perf_counter() - began) * 1e6)
    return [
        Cost(point, statistics.median(found), sorted(found)[int(len(found) * 0.99)])
        for point, found in times.items()
    ]


def _points(scheduling: Scheduling, plugin: Plugin, one: Pod) -> Iterator[tuple[str, Callable[[], object]]]:
    nodes = scheduling.cluster.nodes.all()
    state = scheduling.framework.new_state()
    skipped = False
    if isinstance(plugin, PreFilter):
        answers: list[tuple[object, Status]] = []
        before = plugin
        yield "PreFilter", lambda: answers.append(before.pre_filter(state, one, nodes))
        skipped = answers[-1][1].is_skip
    if isinstance(plugin, Filter) and not skipped:
        filtering = plugin
        yield "Filter", lambda: filtering.filter_nodes(state, one, nodes)
    skipped = False
    if isinstance(plugin, PreScore):
        statuses: list[Status] = []
        preparing = plugin
        yield "PreScore", lambda: statuses.append(preparing.pre_score(state, one, nodes))
        skipped = statuses[-1].is_skip
    if isinstance(plugin, Score) and not skipped:
        scoring = plugin
        yield (
            "Score",
            lambda: scoring.normalize_scores(state, one, scoring.score_nodes(state, one, nodes)),
        )
