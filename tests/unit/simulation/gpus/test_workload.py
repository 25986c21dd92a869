"""Tables of nodes and pods, and the pods that arrive."""

from collections import Counter

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.lib.go_random import GoRandom
from koordpy.scheduling.interface.gpus import GPURequest
from koordpy.simulation.gpus.workload import Node, Request, arrivals, read_nodes, read_pods

PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def pods(path, *lines, heading=PODS):
    return read_pods(write(path / "pods.csv", heading, *lines))


def test_nodes_without_gpus_are_left_out(tmp_path):
    file = write(
        tmp_path / "n.csv", "sn,cpu_milli,memory_mib,gpu,model", "a,32000,1024,0,", "b,96000,2048,8,T4"
    )
    assert read_nodes(file) == [Node("b", 96000, 2048, 8, "T4")]


def test_pods_request_cpu_memory_and_gpus_of_models(tmp_path):
    found = pods(tmp_path, "a,4000,512,1,500,T4|P100", "b,1000,64,0,0,", heading=PODS + ",gpu_spec")
    gpu = GPURequest(4000, 1, 500, frozenset({"T4", "P100"}))
    assert found == [Request(gpu, 512), Request(GPURequest(1000), 64)]


def test_a_table_may_have_no_models(tmp_path):
    assert pods(tmp_path, "a,4000,512,2,1000") == [Request(GPURequest(4000, 2, 1000), 512)]
    file = write(tmp_path / "n.csv", "sn,cpu_milli,memory_mib,gpu", "b,96000,2048,8")
    assert read_nodes(file) == [Node("b", 96000, 2048, 8, "")]


@pytest.mark.parametrize("nothing", ["", "nan", "NaN", "None", "|", " | "])
def test_a_pod_without_a_model_may_use_any(tmp_path, nothing):
    found = pods(tmp_path, f"a,4000,512,1,500,{nothing}", heading=PODS + ",gpu_spec")
    assert found == [Request(GPURequest(4000, 1, 500), 512)]


def test_pods_without_gpus_need_no_model(tmp_path):
    found = pods(tmp_path, "a,1,1,0,0,T4", "b,1,1,1,500,T4||P100|", heading=PODS + ",gpu_spec")
    assert [pod.gpu.models for pod in found] == [frozenset(), frozenset({"T4", "P100"})]


def test_columns_that_are_absent_have_the_authors_defaults(tmp_path):
    found = pods(tmp_path, "4000,2", "100,0", heading="cpu_milli,num_gpu")
    assert found == [Request(GPURequest(4000, 2, 1000), 0), Request(GPURequest(100), 0)]


def test_fractions_are_cut_off_and_more_than_a_gpu_is_one(tmp_path):
    found = pods(tmp_path, "a,4000.0,512.9,1.0,333.3", "b,1,1,1,1200")
    assert found == [Request(GPURequest(4000, 1, 333), 512), Request(GPURequest(1, 1, 1000), 1)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,x,512,1,500", "cpu_milli: got 'x', expected a number"),
        ("a,1,512,1,-5", "gpu_milli: got '-5'"),
        ("a,inf,512,1,500", "cpu_milli: got 'inf'"),
        ("a,1,512,nan,500", "num_gpu: got 'nan'"),
        ("a,1,512,2,500", "gpu_milli: got 500, expected 1000 of each of 2 GPUs"),
        ("a,1,512,0,0", "expected pods that request GPUs"),
    ],
)
def test_wrong_pods_are_refused_with_their_place(tmp_path, line, message):
    with pytest.raises(ConfigError, match=message):
        pods(tmp_path, line)


TRACE = [Request(GPURequest(cpu, 1, 500), 1) for cpu in range(10)]  # 5,000 milli-GPU


def test_the_trace_comes_first_shuffled_then_drawn_pods_up_to_the_load():
    found = arrivals(TRACE, 10_000, 1.3, GoRandom(1))
    assert found[:10] != TRACE
    assert Counter(found[:10]) == Counter(TRACE)
    assert len(found) == 26
    assert set(found) <= set(TRACE)


def test_pods_without_gpus_are_drawn_on_at_the_load_itself():
    without = Request(GPURequest(1), 1)
    found = [arrivals([*TRACE, without], 10_000, 1.0, GoRandom(seed)) for seed in range(30)]
    assert {sum(pod.gpu.total for pod in each) for each in found} == {10_000}
    assert {each[-1] == without for each in found} == {False, True}


def test_pods_are_removed_from_a_trace_that_requests_more():
    found = arrivals(TRACE, 10_000, 0.3, GoRandom(1))
    assert len(found) == 6
    assert max(Counter(found).values()) == 1


def test_arrivals_depend_on_the_seed_alone():
    once, again, other = (arrivals(TRACE, 10_000, 1.3, GoRandom(seed)) for seed in (1, 1, 2))
    assert once == again != other


def test_pods_are_in_the_order_of_their_names(tmp_path):
    found = pods(tmp_path, "p-10,1,1,1,100", "p-2,2,1,1,100", "p-1,3,1,1,100")
    assert [request.gpu.cpu for request in found] == [3, 1, 2]
