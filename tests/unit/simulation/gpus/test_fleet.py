"""GPUs one by one: what fits, and which GPU is given."""

import pytest

from koordpy.scheduling.interface.gpus import NO_GPU, GPURequest
from koordpy.simulation.gpus.fleet import Fleet
from koordpy.simulation.gpus.workload import Node, Request


def fleet():
    return Fleet(
        [Node("a", 8000, 100, 2, "T4"), Node("b", 8000, 100, 1, "P100"), Node("c", 8000, 100, 1, "")]
    )


def shared(milli, *models, cpu=1000, memory=10):
    return Request(GPURequest(cpu, 1, milli, frozenset(models)), memory)


def whole(count, cpu=1000):
    return Request(GPURequest(cpu, count, 1000), 10)


def test_half_a_gpu_comes_from_one_gpu():
    known = fleet()
    known.place(shared(600), 0, 0)
    known.place(shared(600), 0, 1)
    assert known.columns.free[0].tolist() == [400, 400]
    assert known.fits(shared(500)).tolist() == [1, 2]
    assert known.fits(shared(400)).tolist() == [0, 1, 2]


def test_whole_gpus_are_idle_ones():
    known = fleet()
    assert known.fits(whole(2)).tolist() == [0]
    known.place(shared(1), 0, 0)
    assert known.fits(whole(2)).tolist() == []
    known.place(whole(1), 0)
    assert known.columns.free.tolist()[0] == [999, 0]


@pytest.mark.parametrize(
    ("request_", "rows"),
    [
        (shared(500, "P100"), [1]),
        (shared(500, "T4", "P100"), [0, 1]),
        (shared(500, cpu=8001), []),
        (shared(500, memory=101), []),
        (Request(GPURequest(8000), 1), [0, 1, 2]),
    ],
)
def test_models_cpu_and_memory_count(request_, rows):
    assert fleet().fits(request_).tolist() == rows


def test_a_pod_takes_cpu_memory_and_gpu_and_is_counted_by_kind():
    known = fleet()
    known.place(shared(300), 0, 1)
    known.place(whole(1), 1)
    columns = known.columns
    assert columns.cpu_free.tolist() == [7000, 7000, 8000]
    assert known.memory_free.tolist() == [90, 90, 100]
    assert columns.free.tolist() == [[1000, 700], [0, NO_GPU], [1000, NO_GPU]]
    assert columns.pods.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert columns.generation.tolist() == [1, 1, 0]
    assert (known.used, known.capacity) == (1300, 4000)


def test_the_tightest_gpu_that_suffices():
    known = fleet()
    known.place(shared(500), 0, 1)
    assert known.tightest(shared(500).gpu, 0) == 1
    assert known.tightest(shared(501).gpu, 0) == 0


def test_what_does_not_fit_is_never_placed():
    known = fleet()
    with pytest.raises(ValueError, match="does not fit"):
        known.place(whole(2), 1)
    known.place(shared(600), 1, 0)
    with pytest.raises(ValueError, match="does not fit"):
        known.place(shared(600), 1, 0)
