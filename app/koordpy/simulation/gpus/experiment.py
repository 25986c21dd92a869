"""One run: pods arrive one by one, a policy picks a node for each that fits anywhere, none ever leaves.

This is the cycle of the scheduling framework without what the experiment does not have (queues, binding,
other plugins): the filter is that of `Fleet`, and a framework with the policy's plugin alone scores the nodes
that are left. Of equally good nodes the first is taken, in an order that is drawn at the beginning. Random
numbers are Go's, drawn in the order in which the simulator of the paper's authors draws them, so that a seed
means the same pods and the same order of nodes there and here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from koordpy.api import core
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Int64
from koordpy.cluster.node_set import NodeSet
from koordpy.lib.go_random import GoRandom
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import GPU_REQUEST, GPUS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import Plugin
from koordpy.scheduling.toolkit.gpu_fragments import TYPICAL_PODS, TypicalPods

from .fleet import Fleet
from .workload import Node, Request

Progress = Callable[[float], None]
"""Called with the share of pods that have arrived."""

_WATCHES: Final = 10
"""Informers of the authors' simulator: each draws the timeout of its watch, before nodes are ordered."""


@dataclass
class Curves:
    """What happened, by arrived load: requests so far in whole percent of all GPUs, rounded half to even.

    Each value is the mean over the moments after the arrivals at that load; where no pod arrived at it, the
    last one before. Every load from 0 to the last one has a value.
    """

    allocated: dict[int, float] = field(default_factory=dict)
    """Percent of all GPUs that pods have."""
    fragment_rate: dict[int, float] = field(default_factory=dict)
    """Fragments in percent of the free GPUs."""
    fragments: dict[int, float] = field(default_factory=dict)
    """Fragments in percent of all GPUs."""

    def unallocated(self, load: int) -> float:
        """Return the percentage of GPUs that no pod has at a load."""
        return 100 - self.allocated[load]


@dataclass
class Run:
    """The result of one run."""

    policy: str
    seed: int
    pods: int
    """How many arrived."""
    unplaced: int
    """How many of them fitted on no node."""
    curves: Curves


class Experiment:
    """A cluster and a policy."""

    def __init__(
        self, nodes: Sequence[Node], policy: type[Plugin], args: dict[str, Any] | None = None, seed: int = 0
    ) -> None:
        if not issubclass(policy, Score):
            raise TypeError(f"{policy.name} is not a plugin with Score")
        self.rng = GoRandom(seed)
        self.fleet = Fleet(nodes)
        cluster = Cluster()
        table = cluster.nodes
        for node in nodes:
            table.set_node(decode(core.Node, {"metadata": {"name": node.name}}))
        # The policy sees rows of the node table; those of the fleet are made to be the same.
        rows = [table.row_of(node.name) for node in nodes]
        if rows != list(range(len(nodes))):
            raise ValueError("nodes: expected names that differ")
        self._table = table
        handle = Handle(cluster, rng=self.rng)
        self.plugin = policy.make(handle, args)
        points = {"pre_score": [self.plugin], "score": [self.plugin]}
        self._framework = Framework(policy.name, [self.plugin], points, {}, handle)
        self._pods: dict[Request, core.Pod] = {}
        self._order = np.arange(len(nodes))

    def run(
        self, pods: Sequence[Request], typical: TypicalPods, seed: int = 0, progress: Progress | None = None
    ) -> Run:
        """Let pods arrive."""
        for _ in range(_WATCHES):
            self.rng.int63()
        self._order = np.array(self.rng.permutation(len(self._order)), np.int64)
        fleet, columns, record = self.fleet, self.fleet.columns, _Record(self.fleet, typical)
        unplaced = 0
        for number, pod in enumerate(pods):
            row = self._place(pod, typical)
            if row is None:
                unplaced += 1
            record.after(pod, row)
            if progress is not None and number % 256 == 0:
                progress(number / len(pods))
        assert fleet.columns is columns
        return Run(self.plugin.name, seed, len(pods), unplaced, record.curves())

    def candidates(self, request: Request, typical: TypicalPods) -> tuple[CycleState, Int64]:
        """Return the state of an attempt, and the rows (n,) of the best nodes, which are equally good.

        There are none if the pod fits nowhere.
        """
        state, rows = CycleState(), self.fleet.fits(request)
        state.write(GPUS, self.fleet.columns)
        state.write(GPU_REQUEST, request.gpu)
        state.write(TYPICAL_PODS, typical)
        if len(rows) > 1:
            nodes = NodeSet.of_rows(self._table, rows)
            scores, status = self._framework.run_score(state, self._pod(request), nodes)
            if scores is None:
                raise RuntimeError(f"{self.plugin.name}: {status.message}")
            rows = rows[scores.total == scores.total.max()]
        return state, rows

    def gpu(self, state: CycleState, request: Request, row: int) -> int | None:
        """Return the GPU of a node that the pod of an attempt gets; None if it does not share one."""
        if not request.gpu.is_shared:
            return None
        for _, chooser in self._framework.gpu_choosers:
            chosen = chooser.choose_gpu(state, self._pod(request), row)
            if chosen is not None:
                return chosen
        return self.fleet.tightest(request.gpu, row)

    def _place(self, request: Request, typical: TypicalPods) -> int | None:
        state, best = self.candidates(request, typical)
        if not len(best):
            return None
        row = int(best[self._order[best].argmin()])
        self.fleet.place(request, row, self.gpu(state, request, row))
        return row

    def _pod(self, request: Request) -> core.Pod:
        known = self._pods.get(request)
        if known is None:
            gpu = request.gpu
            amounts = {"cpu": f"{gpu.cpu}m", "memory": f"{request.memory}Mi"}
            if gpu.count:
                amounts["koordinator.sh/gpu-core"] = str(gpu.total // 10)
                amounts["koordinator.sh/gpu-memory-ratio"] = str(gpu.total // 10)
            container = {"name": "main", "resources": {"requests": amounts}}
            known = self._pods[request] = decode(
                core.Pod,
                {
                    "metadata": {"name": f"pod-{len(self._pods)}", "namespace": "default"},
                    "spec": {"containers": [container]},
                },
            )
        return known


class _Record:
    """Measures after every arrival; only the node that got the pod is measured anew."""

    def __init__(self, fleet: Fleet, typical: TypicalPods) -> None:
        self._fleet, self._typical = fleet, typical
        self._fragments = self._measure(np.arange(len(fleet.memory_free)))
        self._sum = float(self._fragments.sum())
        self._arrived = 0
        self._before = self._now()
        self._at: dict[int, list[tuple[float, float, float]]] = {}
        self._load = 0

    def after(self, pod: Request, row: int | None) -> None:
        """Take the measures after a pod."""
        fleet = self._fleet
        self._arrived += pod.gpu.total
        if row is not None:
            new = float(self._measure(np.array([row]))[0])
            self._sum += new - self._fragments[row]
            self._fragments[row] = new
        self._load = round(100 * self._arrived / fleet.capacity)
        self._at.setdefault(self._load, []).append(self._now())

    def curves(self) -> Curves:
        """Return the means by load."""
        found = Curves()
        last = self._before
        for load in range(self._load + 1):
            values = self._at.get(load, [last])
            last = values[-1]
            allocated, rate, fragments = np.mean(values, axis=0).tolist()
            found.allocated[load], found.fragment_rate[load] = allocated, rate
            found.fragments[load] = fragments
        return found

    def _now(self) -> tuple[float, float, float]:
        capacity, used = self._fleet.capacity, self._fleet.used
        rate = 100 * self._sum / (capacity - used) if used < capacity else 0.0
        return 100 * used / capacity, rate, 100 * self._sum / capacity

    def _measure(self, rows: Int64) -> np.ndarray:
        columns = self._fleet.columns
        return self._typical.fragments(
            columns.cpu_free[rows], columns.free[rows], columns.model[rows], columns.models
        )
