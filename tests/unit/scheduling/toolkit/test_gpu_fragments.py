"""Fragments of GPUs, by hand and against the definition, pod by pod."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.scheduling.interface.gpus import GPURequest
from koordpy.scheduling.toolkit.gpu_fragments import TypicalPods

MODELS = ("A", "B")


def fragments(typical, cpu, gpus, model=0):
    found = typical.fragments(np.array([cpu]), np.array([gpus]), np.array([model]), MODELS)
    return float(found[0])


def one(**request):
    return TypicalPods([(GPURequest(**request), 1)])


@pytest.mark.parametrize(
    ("request_", "cpu", "gpus", "expected"),
    [
        ({"cpu": 1000, "count": 1, "milli": 500}, 4000, [300, 700], 300),  # too little left for it
        ({"cpu": 1000, "count": 1, "milli": 500}, 4000, [500, 700], 0),
        ({"cpu": 5000, "count": 1, "milli": 500}, 4000, [500, 700], 1200),  # too little CPU
        ({"cpu": 1000, "count": 2, "milli": 1000}, 4000, [1000, 700], 1700),  # one is not enough
        ({"cpu": 1000, "count": 2, "milli": 1000}, 4000, [1000, 1000], 0),
        ({"cpu": 1000}, 4000, [300, 700], 1000),  # needs no GPU
        ({"cpu": 1000, "count": 1, "milli": 500, "models": frozenset({"B"})}, 4000, [700, -1], 700),
        ({"cpu": 1000, "count": 1, "milli": 500, "models": frozenset({"A", "B"})}, 4000, [700, -1], 0),
    ],
)
def test_fragments_with_regard_to_one_pod(request_, cpu, gpus, expected):
    assert fragments(one(**request_), cpu, gpus) == expected


def test_a_node_of_unknown_model_is_only_for_pods_without_models():
    assert fragments(one(cpu=1, count=1, milli=500, models=frozenset({"B"})), 9, [700], model=-1) == 700
    assert fragments(one(cpu=1, count=1, milli=500), 9, [700], model=-1) == 0


def test_fragments_are_the_mean_over_typical_pods():
    typical = TypicalPods([(GPURequest(1, 1, 500), 3), (GPURequest(1), 1)])
    assert fragments(typical, 9, [300, 700]) == (3 * 300 + 1000) / 4


def test_the_most_frequent_requests_are_typical_until_the_share_is_reached():
    often, less, rare = GPURequest(1, 1, 100), GPURequest(2, 1, 200), GPURequest(3, 1, 300)
    pods = [often] * 6 + [rare] * 1 + [less] * 3
    assert TypicalPods.of(pods, 0.9).frequencies == [(often, 6), (less, 3)]
    assert TypicalPods.of(pods, 0.91).frequencies == [(often, 6), (less, 3), (rare, 1)]


def test_of_equally_frequent_requests_the_larger_ones_come_first():
    small, large = GPURequest(1, 1, 100), GPURequest(2, 1, 100)
    assert TypicalPods.of([small, large], 0.5).frequencies == [(large, 1)]


REQUESTS = st.one_of(
    st.builds(GPURequest, st.integers(0, 9), st.just(1), st.sampled_from([100, 500, 999])),
    st.builds(
        GPURequest,
        st.integers(0, 9),
        st.integers(1, 3),
        st.just(1000),
        st.sets(st.sampled_from(MODELS)).map(frozenset),
    ),
    st.builds(GPURequest, st.integers(0, 9)),
)
NODES = st.tuples(
    st.integers(0, 9),
    st.lists(st.sampled_from([-1, 0, 100, 400, 500, 999, 1000]), min_size=3, max_size=3),
    st.integers(-1, 1),
)


@given(st.dictionaries(REQUESTS, st.integers(1, 5), min_size=1), st.lists(NODES, min_size=1, max_size=4))
def test_all_nodes_at_once_are_as_the_definition_says(typical, nodes):
    cpu, gpus, model = (np.array(column) for column in zip(*nodes, strict=True))
    found = TypicalPods(typical.items()).fragments(cpu, gpus, model, MODELS)
    total = sum(typical.values())
    assert found.tolist() == pytest.approx(
        [sum(n * of_pod(pod, *node) for pod, n in typical.items()) / total for node in nodes]
    )


def of_pod(pod, cpu, gpus, model):
    free = [left for left in gpus if left > 0]
    model_fits = not pod.models or (model >= 0 and MODELS[model] in pod.models)
    enough = sum(left >= pod.milli for left in free) >= pod.count
    if pod.count and model_fits and enough and cpu >= pod.cpu:
        return sum(left for left in free if left < pod.milli)
    return sum(free)
