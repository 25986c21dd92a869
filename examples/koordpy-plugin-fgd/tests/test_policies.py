import random

import numpy as np
import pytest
from koordpy_fgd.policies import BestFit, DotProd, GpuClustering, GpuPacking, GPUPolicy, Random

from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import GPU_REQUEST, GPUS, GPUColumns, GPURequest
from koordpy.scheduling.interface.handle import Handle
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import node, pod

HALF = GPURequest(8000, 1, 500)


def columns(
    free: list[list[int]], cpu: list[int] | None = None, pods: list[list[int]] | None = None
) -> GPUColumns:
    n, width = len(free), len(free[0])
    return GPUColumns(
        np.array(cpu or [64000] * n),
        np.array(free),
        np.zeros(n, np.int64),
        ["T4"],
        np.array(pods or [[0] * (width + 1)] * n),
        np.zeros(n, np.int64),
    )


def scores(policy: type[GPUPolicy], gpus: GPUColumns, request: GPURequest, seed: int = 0) -> list[int]:
    known = cluster(*(node(f"n{i}") for i in range(len(gpus.free))))
    plugin, state = policy.make(Handle(known, rng=random.Random(seed))), CycleState()
    state.write(GPUS, gpus)
    state.write(GPU_REQUEST, request)
    raw = plugin.score_nodes(state, pod("p"), known.nodes.all())
    found: list[int] = plugin.normalize_scores(state, pod("p"), raw).tolist()
    return found


def test_dot_product_prefers_nodes_with_less_left() -> None:
    # (cpu left * cpu + GPU left * GPU) / 2, each as a share of 128 cores and of 8 GPUs
    gpus = columns([[1000] * 8, [1000] + [0] * 7], cpu=[128000, 64000])
    assert scores(DotProd, gpus, GPURequest(64000, 4, 1000)) == [50, 84]


def test_clustering_prefers_nodes_with_pods_of_the_kind_alone() -> None:
    free = [[1000, 1000], [1000, 500], [1000, 500], [500, 0], [0, 0]]
    kinds = [[0, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [0, 2, 0]]
    gpus = columns(free, pods=kinds)
    assert scores(GpuClustering, gpus, HALF) == [43, 95, 20, 73, 25]
    assert scores(GpuClustering, gpus, GPURequest(1, 1, 1000)) == [43, 20, 95, 73, 100]
    assert scores(GpuClustering, gpus, GPURequest(1)) == [0] * 5


def test_packing_prefers_used_gpus_then_used_nodes_then_idle_ones() -> None:
    gpus = columns([[1000, 1000], [1000, -1], [600, 1000], [400, 1000], [500, 700]])
    assert scores(GpuPacking, gpus, HALF) == [31, 32, 94, 49, 95]
    assert scores(GpuPacking, gpus, GPURequest(1, 1, 1000))[:4] == [31, 32, 49, 49]
    assert scores(GpuPacking, gpus, GPURequest(1)) == [0] * 5


def test_best_fit_prefers_the_node_with_the_least_left_of_all() -> None:
    gpus = columns([[1000, 1000], [1000, 500], [1000, 1000]], cpu=[64000, 8000, 8000])
    assert scores(BestFit, gpus, HALF) == [0, 100, 88]


def test_best_fit_of_equal_nodes_is_nothing() -> None:
    assert scores(BestFit, columns([[1000], [1000]]), HALF) == [0, 0]


def test_random_picks_one_node_and_a_gpu_that_suffices() -> None:
    gpus = columns([[1000, 400, 600]] * 4)
    found = [scores(Random, gpus, HALF, seed) for seed in range(40)]
    assert {one.index(100) for one in found} == {0, 1, 2, 3}
    assert all(sorted(one) == [0, 0, 0, 100] for one in found)
    plugin, state = Random.make(Handle(cluster(), rng=random.Random(0))), CycleState()
    state.write(GPUS, gpus)
    state.write(GPU_REQUEST, HALF)
    assert {plugin.choose_gpu(state, pod("p"), 0) for _ in range(40)} == {0, 2}


@pytest.mark.parametrize("policy", [BestFit, DotProd, GpuClustering, GpuPacking, Random])
def test_without_gpus_nodes_are_equal(policy: type[GPUPolicy]) -> None:
    known = cluster(node("a"), node("b"))
    plugin = policy.make(Handle(known))
    assert plugin.score_nodes(CycleState(), pod("p"), known.nodes.all()).tolist() == [0, 0]
