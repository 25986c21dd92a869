"""Runs of the experiment: who gets which node and GPU, and what is measured after every arrival."""

import pytest

from koordpy.scheduling.interface.gpus import GPURequest
from koordpy.scheduling.toolkit.gpu_fragments import TypicalPods
from koordpy.simulation.gpus.experiment import Experiment
from koordpy.simulation.gpus.workload import Node, Request

from .policies import Emptiest, Equal, NoScore

NODES = [Node("a", 8000, 100, 2, "T4"), Node("b", 8000, 100, 3, "T4")]
HALF = Request(GPURequest(1000, 1, 500), 1)
WHOLE = Request(GPURequest(1000, 1, 1000), 1)
TYPICAL = TypicalPods([(WHOLE.gpu, 1)])


def test_a_policy_picks_the_node():
    made = Experiment(NODES, Emptiest)
    made.run([WHOLE], TYPICAL)
    assert made.fleet.columns.free.tolist() == [[1000, 1000, -1], [0, 1000, 1000]]


def test_pods_share_the_tightest_gpu_unless_the_policy_chooses():
    made = Experiment(NODES, Emptiest)
    made.run([HALF, HALF], TYPICAL)
    assert made.fleet.columns.free.tolist() == [[1000, 1000, -1], [0, 1000, 1000]]
    other = Experiment(NODES, Equal)
    other.run([HALF], TYPICAL)
    assert sorted(other.fleet.columns.free.tolist()) in (
        [[1000, 1000, -1], [1000, 1000, 500]],
        [[1000, 500, -1], [1000, 1000, 1000]],
    )


def test_equal_nodes_are_taken_in_one_order_for_the_whole_run():
    found = set()
    for seed in range(20):
        made = Experiment([Node(name, 8000, 100, 2, "T4") for name in "abc"], Equal, seed=seed)
        made.run([WHOLE] * 2, TYPICAL)
        assert sorted(made.fleet.columns.cpu_free.tolist()) == [6000, 8000, 8000]
        found.add(made.fleet.columns.cpu_free.argmin().item())
    assert found == {0, 1, 2}


def test_pods_that_fit_nowhere_arrive_but_get_nothing():
    run = Experiment(NODES, Emptiest).run([WHOLE] * 7, TYPICAL)
    assert (run.pods, run.unplaced) == (7, 2)
    assert list(run.curves.allocated) == list(range(141))
    every_20 = [run.curves.allocated[load] for load in range(0, 141, 20)]
    assert every_20 == pytest.approx([0, 20, 40, 60, 80, 100, 100, 100])
    assert run.curves.allocated[39] == pytest.approx(20)
    assert run.curves.unallocated(80) == pytest.approx(20)


def test_loads_are_rounded_and_values_at_one_load_averaged():
    tiny = Request(GPURequest(0, 1, 10), 0)  # 0.2 % of the five GPUs
    run = Experiment(NODES, Emptiest).run([tiny] * 4, TYPICAL)
    assert run.curves.allocated == pytest.approx({0: (0.2 + 0.4) / 2, 1: (0.6 + 0.8) / 2})


def test_fragments_are_measured_after_every_arrival():
    run = Experiment(NODES, Equal).run([HALF, HALF], TYPICAL)
    # Half a GPU is of no use for pods that request a whole one.
    assert [run.curves.fragments[load] for load in (9, 10, 20)] == pytest.approx([0, 10, 0])
    assert [run.curves.fragment_rate[load] for load in (9, 10, 20)] == pytest.approx([0, 100 / 9, 0])


def test_the_same_seed_gives_the_same_run():
    once, again = (Experiment(NODES, Equal, seed=3).run([HALF] * 4, TYPICAL) for _ in range(2))
    assert once == again


def test_only_plugins_with_score_are_policies():
    with pytest.raises(TypeError, match="NoScore is not a plugin with Score"):
        Experiment(NODES, NoScore)


def test_node_names_have_to_differ():
    with pytest.raises(ValueError, match="names that differ"):
        Experiment([NODES[0], NODES[0]], Equal)
