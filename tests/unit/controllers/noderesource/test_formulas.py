"""The formulas of batch and mid resources, with the figures that Koordinator's own tests fix."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.quantity import parse
from koordpy.api.scheme import decode
from koordpy.api.slo.colocation import DEFAULT
from koordpy.controllers.noderesource import batch, mid
from koordpy.controllers.noderesource.amounts import Amounts, differs, divided, milli, nanos, read, whole
from koordpy.controllers.noderesource.demand import Demand, PodFacts, demand_of

CAPACITY = {"cpu": "100", "memory": "120G"}


def pod(name: str, phase: str, request: tuple[str, str], **labels: str) -> Pod:
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "d", "labels": labels},
        "spec": {
            "containers": [
                {"name": "c", "resources": {"requests": dict(zip(CAPACITY, request, strict=True))}}
            ]
        },
        "status": {"phase": phase},
    }
    return decode(Pod, document)


def usage(cpu: str, memory: str) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def demand() -> Demand:
    """A pod of each kind, as in Koordinator's test of the batch plugin."""
    qos = "koordinator.sh/qosClass"
    pods = [
        pod("ls", "Running", ("20", "20G"), **{qos: "LS"}),
        pod("plain", "Pending", ("20", "40G")),
        pod("be", "Running", ("10", "10G"), **{qos: "BE"}),
        pod("done", "Succeeded", ("50", "50G")),
    ]
    used = {"ls": ("11", "11G"), "plain": ("22", "22G"), "be": ("10", "10G")}
    metric = {
        "metadata": {"name": "n"},
        "status": {
            "nodeMetric": {"nodeUsage": usage("50", "55G"), "systemUsage": usage("7", "12G")},
            "podsMetric": [
                {"namespace": "d", "name": name, "podUsage": usage(*amounts)}
                for name, amounts in used.items()
            ],
        },
    }
    return demand_of(map(PodFacts.of, pods), decode(NodeMetric, metric))


@pytest.mark.parametrize(
    ("fields", "cpu", "memory"),
    [
        ({"cpu_reclaim_threshold_percent": 65, "memory_reclaim_threshold_percent": 65}, 25_000, 33),
        (
            {
                "cpu_reclaim_threshold_percent": 70,
                "memory_reclaim_threshold_percent": 80,
                "memory_calculate_policy": "request",
            },
            30_000,
            36,
        ),
        (
            {
                "cpu_calculate_policy": "maxUsageRequest",
                "cpu_reclaim_threshold_percent": 70,
                "memory_reclaim_threshold_percent": 80,
                "memory_calculate_policy": "request",
            },
            21_000,
            36,
        ),
        (
            {
                "cpu_calculate_policy": "maxUsageRequest",
                "cpu_reclaim_threshold_percent": 150,
                "memory_reclaim_threshold_percent": 120,
                "memory_calculate_policy": "request",
            },
            101_000,
            84,
        ),
        (
            {
                "cpu_calculate_policy": "maxUsageRequest",
                "cpu_reclaim_threshold_percent": 150,
                "memory_reclaim_threshold_percent": 120,
                "memory_calculate_policy": "request",
                "batch_cpu_threshold_percent": 100,
                "batch_memory_threshold_percent": 100,
            },
            100_000,
            84,
        ),
        (
            {
                "cpu_reclaim_threshold_percent": 150,
                "memory_reclaim_threshold_percent": 120,
                "memory_calculate_policy": "maxUsageRequest",
            },
            110_000,
            72,
        ),
    ],
)
def test_batch_resources_by_policy(fields: dict[str, Any], cpu: int, memory: int) -> None:
    strategy = msgspec.structs.replace(DEFAULT, **fields)
    found = batch.for_node(strategy, read(CAPACITY), Amounts(), demand())
    assert (milli(found.amounts.cpu), whole(found.amounts.memory)) == (cpu, memory * 10**9)


def test_what_a_node_reserves_counts_where_it_is_more_than_the_system_uses() -> None:
    strategy = msgspec.structs.replace(DEFAULT, cpu_reclaim_threshold_percent=65)
    reserved = read({"cpu": "10", "memory": "1G"})
    found = batch.for_node(strategy, read(CAPACITY), reserved, demand())
    assert milli(found.amounts.cpu) == 22_000
    assert milli(found.terms.system.cpu) == 10_000


def test_the_message_of_a_formula_names_its_terms() -> None:
    strategy = msgspec.structs.replace(
        DEFAULT, cpu_reclaim_threshold_percent=65, batch_cpu_threshold_percent=10
    )
    found = batch.for_node(strategy, read(CAPACITY), Amounts(), demand())
    assert found.cpu_message() == (
        "batchAllocatable[CPU(Milli-Core)]:10000 = min(nodeCapacity:100000 * thresholdRatio:0.1, "
        "nodeCapacity:100000 - nodeSafetyMargin:35000 - systemUsageOrNodeReserved:7000 - podHPUsed:33000)"
    )


def test_a_pod_without_a_report_uses_what_it_requests() -> None:
    pods = [PodFacts.of(pod("new", "Running", ("5", "1G")))]
    found = demand_of(pods, NodeMetric())
    assert milli(found.high_used.cpu) == 5_000
    assert milli(found.high_max_used_request.cpu) == 0
    assert milli(found.zones(2)[0].max_used_request.cpu) == 2_500


def test_pods_that_are_reported_and_gone_count_by_their_priority() -> None:
    gone = [
        {"namespace": "d", "name": name, "priority": priority, "podUsage": usage("2", "1G")}
        for name, priority in (("a", "koord-prod"), ("b", "koord-batch"))
    ]
    found = demand_of([], decode(NodeMetric, {"metadata": {"name": "n"}, "status": {"podsMetric": gone}}))
    assert milli(found.high_used.cpu) == 2_000


CAPACITY_OF_MID = {"cpu": "100", "memory": "210G"}


@pytest.mark.parametrize(
    ("fields", "reclaimable", "used", "cpu", "memory"),
    [
        ({}, ("10", "15G"), ("20", "45G"), 10_000, 15),
        (
            {
                "mid_unallocated_percent": 10,
                "mid_cpu_threshold_percent": 10,
                "mid_memory_threshold_percent": 20,
            },
            ("15", "30G"),
            ("20", "45G"),
            10_000,
            42,
        ),
        (
            {
                "mid_reclaim_mode": "static",
                "mid_static_cpu_reserved_percent": 10,
                "mid_static_memory_reserved_percent": 10,
                "mid_cpu_threshold_percent": 10,
                "mid_memory_threshold_percent": 20,
            },
            ("0", "0"),
            ("0", "0"),
            10_000,
            21,
        ),
    ],
)
def test_mid_resources(
    fields: dict[str, Any], reclaimable: tuple[str, str], used: tuple[str, str], cpu: int, memory: int
) -> None:
    metric = {
        "metadata": {"name": "n"},
        "status": {
            "nodeMetric": {"nodeUsage": usage(*used), "systemUsage": usage("1", "1G")},
            "prodReclaimableMetric": {"resource": usage(*reclaimable)},
        },
    }
    strategy = msgspec.structs.replace(DEFAULT, **fields)
    known = demand_of([], decode(NodeMetric, metric))
    found = mid.for_node(strategy, read(CAPACITY_OF_MID), dict(CAPACITY_OF_MID), Amounts(), known)
    assert (found.milli_cpu, found.memory) == (cpu, memory * 10**9)


@pytest.mark.parametrize(
    ("old", "new", "threshold", "expected"),
    [
        ("10", "11", 0.1, False),
        ("10", "11001m", 0.1, True),
        ("10", "8999m", 0.1, True),
        ("0", "1m", 0.1, True),
        ("0", "0", 0.1, False),
        ("10", "10", -1.0, True),
        ("1Gi", "1073741824", 0.1, False),
        ("1500u", "2m", 0.5, False),
    ],
)
def test_an_amount_differs_by_more_than_a_share_of_the_old_one(
    old: str, new: str, threshold: float, *, expected: bool
) -> None:
    assert differs(old, new, threshold) is expected


@given(st.integers(0, 1 << 70), st.integers(1, 70))
def test_dividing_gives_what_dividing_doubles_gives(amount: int, parts: int) -> None:
    assert divided(amount, parts) == math.ceil(float(milli(amount)) / float(parts)) * 10**6


@given(st.sampled_from(["", "m", "u", "n", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"]), st.integers(0, 10**17))
def test_amounts_are_read_as_quantities_are(suffix: str, number: int) -> None:
    assert nanos(f"{number}{suffix}") == parse(f"{number}{suffix}").nano_value()
