"""What a pod requests of GPUs, as plugins that score by them read it."""

from collections.abc import Mapping
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.gpus import GPURequest
from koordpy_plugins.scheduling.deviceshare.requests.gpu_request import gpu_request, models_of
from koordpy_plugins.scheduling.deviceshare.requests.prepare import requests_of

from ..clusters import pod

MODEL = "node.koordinator.sh/gpu-model"
CORE, RATIO, BYTES, SHARED = (
    f"koordinator.sh/gpu{suffix}" for suffix in ("-core", "-memory-ratio", "-memory", ".shared")
)


def read(requests: Mapping[str, str], memory: int | None = None) -> GPURequest | None:
    known = pod("p", requests)
    found = requests_of(known, lambda _: {}, ())
    return gpu_request(known, 1500, None if found is None else found.gpu, memory)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ({}, (0, 0)),
        ({"koordinator.sh/rdma": "100"}, (0, 0)),
        ({"koordinator.sh/gpu": "30"}, (1, 300)),
        ({"koordinator.sh/gpu": "100"}, (1, 1000)),
        ({"nvidia.com/gpu": "4"}, (4, 1000)),
        ({CORE: "20", RATIO: "60"}, (1, 600)),
        ({CORE: "60", RATIO: "20"}, (1, 600)),
        ({RATIO: "45"}, (1, 450)),
        ({SHARED: "2", CORE: "100", RATIO: "100"}, (2, 500)),
    ],
)
def test_the_larger_share_of_each_gpu_counts(requests: Mapping[str, str], expected: tuple[int, int]) -> None:
    assert read(requests) == GPURequest(1500, *expected)


@pytest.mark.parametrize(
    ("requests", "milli"),
    [
        ({BYTES: "4Gi"}, 250),
        ({BYTES: "4100Mi"}, 260),
        ({CORE: "40", BYTES: "4Gi"}, 400),
        ({BYTES: "64Gi"}, 1000),
    ],
)
def test_bytes_are_a_share_where_all_gpus_have_the_same_memory(
    requests: Mapping[str, str], milli: int
) -> None:
    assert read(requests, 16 << 30) == GPURequest(1500, 1, milli)
    assert read(requests) is None


def with_affinity(*terms: list[tuple[str, str, list[str]]], selected: str = "") -> Pod:
    spec: dict[str, Any] = {"nodeSelector": {MODEL: selected} if selected else {}}
    if terms:
        spec["affinity"] = {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in term]}
                        for term in terms
                    ]
                }
            }
        }
    return decode(Pod, {"metadata": {"name": "p", "namespace": "x"}, "spec": spec})


@pytest.mark.parametrize(
    ("known", "models"),
    [
        (with_affinity(), ()),
        (with_affinity(selected="T4"), ("T4",)),
        (with_affinity([(MODEL, "In", ["T4", "A10"])]), ("A10", "T4")),
        (with_affinity([(MODEL, "In", ["T4"])], [(MODEL, "In", ["A10"])]), ("A10", "T4")),
        (with_affinity([(MODEL, "In", ["T4", "A10"]), (MODEL, "In", ["A10", "P100"])]), ("A10",)),
        (with_affinity([(MODEL, "In", ["T4", "A10"])], selected="T4"), ("T4",)),
        (with_affinity([(MODEL, "In", ["T4"])], [("zone", "In", ["a"])]), ()),
        (with_affinity([(MODEL, "NotIn", ["T4"])]), ()),
        (with_affinity([("zone", "In", ["a"])], selected="T4"), ("T4",)),
    ],
)
def test_models_are_those_that_selector_and_affinity_leave(known: Pod, models: tuple[str, ...]) -> None:
    assert models_of(known) == frozenset(models)
