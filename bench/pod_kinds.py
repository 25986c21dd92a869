"""Processor time for pods that are not all the same: kube-scheduler alone, and with koordpy as its extender.

The control plane and the contenders are those of `bench.controlplane`; they take turns within each round.
Processor times of one machine differ by half from one day to another: `share` is koordpy's in units of what
kube-scheduler takes alone for the same pods in the same round.

Light mode, in which kube-scheduler binds, is for profiles whose plugins allocate nothing.
"""

import asyncio
from collections.abc import Sequence

from bench import servers
from bench.controlplane import RESERVATIONS, SIZES, Bench, Who
from bench.report import Result
from bench.waiting_pods import Kind
from tests.e2e.controlplane.plane import ControlPlane

PODS = 1_000

GOAL = "goal: extender CPU 1.5 ms a pod at most"


def run(rounds: int = 2, sizes: Sequence[int] = SIZES, pods: int = PODS) -> Result:
    """Measure; the first run with so many nodes also warms the API server up."""
    result = Result.begin(
        "pod_kinds",
        rate="pods/s",
        ratio="ratio to alone",
        koordpy="extender CPU a pod, ms",
        share="extender CPU / kube-scheduler CPU alone",
        scheduler="kube-scheduler CPU a pod, ms",
        others="cores that others used",
    )
    with servers.folder() as folder, ControlPlane(throughput=True) as plane:
        plane.install_crds()
        bench = Bench(plane, folder, pods)
        for size in sizes:
            asyncio.run(bench.grow_to(size))
            if size == sizes[0]:
                asyncio.run(bench.reserve(RESERVATIONS))
            bench.measure(Who.ALONE)
            for kind in Kind:
                asyncio.run(bench.turn_to(kind))
                for _ in range(rounds):
                    _measure(bench, result, f"{size:,} nodes, {kind.value}")
    result.notes.append(f"{pods:,} waiting pods. The full chain is among 1,000 Reservations.")
    return result


def _measure(bench: Bench, result: Result, what: str) -> None:
    """Measure one round of a kind of pods."""
    alone = bench.measure(Who.ALONE)
    result.row(f"{what}: {Who.ALONE.value}").add(**alone, ratio=1.0)
    for who in (Who.CHOOSING, Who.FULL, Who.LIGHT):
        found = bench.measure(who)
        result.row(f"{what}: {who.value}", GOAL).add(
            **found, ratio=found["rate"] / alone["rate"], share=found["koordpy"] / alone["scheduler"]
        )
