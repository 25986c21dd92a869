import numpy as np
import pytest
from koordpy_fgd.fgd import FGD

from koordpy.api.config_model import ConfigError
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import GPU_REQUEST, GPUS, GPUColumns, GPURequest
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.toolkit.gpu_fragments import TYPICAL_PODS, TypicalPods
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import node, pod

HALVES = TypicalPods([(GPURequest(1000, 1, 500), 1)])
NAMES = ["a", "b", "c"]


@pytest.fixture
def handle() -> Handle:
    return Handle(cluster(*(node(name) for name in NAMES)))


def columns(free: list[list[int]], cpu: int = 8000) -> GPUColumns:
    n = len(free)
    return GPUColumns(
        np.full(n, cpu),
        np.array(free),
        np.zeros(n, np.int64),
        ["T4"],
        np.zeros((n, 3), np.int64),
        np.zeros(n, np.int64),
    )


def attempt(gpus: GPUColumns, request: GPURequest, typical: TypicalPods | None = HALVES) -> CycleState:
    state = CycleState()
    state.write(GPUS, gpus)
    state.write(GPU_REQUEST, request)
    if typical is not None:
        state.write(TYPICAL_PODS, typical)
    return state


def scores(plugin: FGD, state: CycleState) -> list[int]:
    nodes = plugin.handle.nodes.all()
    assert list(nodes.names) == NAMES
    found: list[int] = plugin.score_nodes(state, pod("p"), nodes).tolist()
    return found


def test_a_node_is_better_the_fewer_fragments_a_pod_leaves(handle: Handle) -> None:
    # 300 of 1000: 700 remain usable. 300 of 700: 400 become a fragment. 300 of 300: a fragment less.
    gpus = columns([[1000, 0], [700, 0], [300, 0]])
    assert scores(FGD.make(handle), attempt(gpus, GPURequest(1000, 1, 300))) == [50, 40, 57]


def test_the_gpu_is_the_one_that_the_score_is_of(handle: Handle) -> None:
    gpus = columns([[700, 300], [1000, 300], [1000, 700]])
    plugin, state = FGD.make(handle), attempt(gpus, GPURequest(1000, 1, 300))
    assert scores(plugin, state) == [57, 57, 50]
    assert [plugin.choose_gpu(state, pod("p"), row) for row in range(3)] == [1, 1, 0]


def test_a_gpu_without_enough_left_is_no_candidate(handle: Handle) -> None:
    gpus = columns([[200, 1000], [1000, 200], [600, 200]])
    plugin, state = FGD.make(handle), attempt(gpus, GPURequest(1000, 1, 600))
    scores(plugin, state)
    assert [plugin.choose_gpu(state, pod("p"), row) for row in range(3)] == [1, 0, 0]


def test_cpu_that_a_pod_takes_away_from_gpus_counts(handle: Handle) -> None:
    gpus = columns([[1000, 0], [0, 0], [1000, 1000]], cpu=1500)
    assert scores(FGD.make(handle), attempt(gpus, GPURequest(1000))) == [26, 50, 11]


def test_whole_gpus_are_the_first_idle_ones(handle: Handle) -> None:
    gpus = columns([[1000, 1000], [1000, 1000], [400, 1000]])
    assert scores(FGD.make(handle), attempt(gpus, GPURequest(8000, 1, 1000))) == [26, 26, 50]


def test_scores_follow_the_generation_of_rows(handle: Handle) -> None:
    gpus, plugin = columns([[1000, 0], [1000, 0], [1000, 0]]), FGD.make(handle)
    request = GPURequest(1000, 1, 300)
    assert scores(plugin, attempt(gpus, request)) == [50, 50, 50]
    gpus.free[1, 0] = 700
    assert scores(plugin, attempt(gpus, request)) == [50, 50, 50]
    gpus.generation[1] += 1
    assert scores(plugin, attempt(gpus, request)) == [50, 40, 50]


def test_typical_pods_may_be_arguments(handle: Handle) -> None:
    plugin = FGD.make(handle, {"typicalPods": [{"cpu": 1000, "count": 1, "milli": 500, "pods": 7}]})
    gpus = columns([[1000, 0], [700, 0], [300, 0]])
    assert scores(plugin, attempt(gpus, GPURequest(1000, 1, 300), typical=None)) == [50, 40, 57]


@pytest.mark.parametrize("wrong", [{"milli": -1}, {"count": "two"}, {"models": [1]}, {"cores": 3}])
def test_wrong_typical_pods_are_refused(handle: Handle, wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="typicalPods"):
        FGD.make(handle, {"typicalPods": [{"cpu": 1, "pods": 1} | wrong]})


def test_without_gpus_or_typical_pods_nodes_are_equal(handle: Handle) -> None:
    gpus = columns([[1000, 0], [700, 0], [300, 0]])
    assert scores(FGD.make(handle), CycleState()) == [0, 0, 0]
    assert scores(FGD.make(handle), attempt(gpus, GPURequest(1000, 1, 300), typical=None)) == [0, 0, 0]
