"""Merging the NUMA hints of a pod on one node: what it costs by NUMA nodes, resources and providers.

Every resource offers all masks that are wide enough for it, with scores; resources differ in the number of
NUMA nodes that they need, so no choice is preferred, which is the longest way through the merge. Rows with
preferred choices are what most pods get.
"""

import random
import time

from bench.report import Result
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.toolkit.topology_manager.policy import (
    NUMATopologyPolicy,
    ProviderHints,
    merge_hints,
)

GOAL = "goal: 10 ms at most"
_CASES = ((2, 4, 1), (4, 4, 1), (8, 4, 1), (8, 6, 2))
"""NUMA nodes, resources, providers."""


def run(rounds: int = 5, nodes: int = 10) -> Result:
    """Measure; `nodes` is on how many nodes hints are merged in each round."""
    result = Result.begin("numa_merge", best="BestEffort, CPU ms a node", strict="Restricted, CPU ms a node")
    rng = random.Random(1)
    for _ in range(rounds):
        for numa_nodes, resources, providers in _CASES:
            for aligned in (False, True):
                needs = [1 if aligned else 1 + i % 2 for i in range(resources)]
                label = (
                    f"{numa_nodes} NUMA nodes, {resources} resources of {_count(providers)}, "
                    f"{'some' if aligned else 'none'} preferred"
                )
                offers = [_offers(rng, numa_nodes, needs, providers) for _ in range(nodes)]
                result.row(label, GOAL).add(
                    best=_milliseconds(NUMATopologyPolicy.BEST_EFFORT, numa_nodes, offers),
                    strict=_milliseconds(NUMATopologyPolicy.RESTRICTED, numa_nodes, offers),
                )
    return result


def _count(providers: int) -> str:
    return "one provider" if providers == 1 else f"{providers} providers"


def _offers(rng: random.Random, numa_nodes: int, needs: list[int], providers: int) -> list[ProviderHints]:
    """Return what providers offer; each resource needs some number of NUMA nodes."""
    offers: list[dict[str, list[NUMATopologyHint]]] = [{} for _ in range(providers)]
    for index, need in enumerate(needs):
        offers[index % providers][f"example.com/{index}"] = [
            NUMATopologyHint(mask, mask.bit_count() == need, False, rng.randrange(101))
            for mask in range(1, 1 << numa_nodes)
            if mask.bit_count() >= need
        ]
    return list(offers)


def _milliseconds(policy: NUMATopologyPolicy, numa_nodes: int, offers: list[list[ProviderHints]]) -> float:
    started = time.thread_time()
    for providers in offers:
        merge_hints(policy, range(numa_nodes), providers)
    return (time.thread_time() - started) / len(offers) * 1e3
