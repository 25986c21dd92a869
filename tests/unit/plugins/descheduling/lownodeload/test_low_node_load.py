"""LowNodeLoad by its steps; whole rounds are compared with Koordinator's own in the parity tests."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.node_fit import NodeFit
from koordpy.descheduling.toolkit.pace import Pace
from koordpy.descheduling.toolkit.pods import NodePods
from koordpy.lib.clock import FakeClock
from koordpy_plugins.descheduling.lownodeload import balancing, thresholds
from koordpy_plugins.descheduling.lownodeload.args import Anomaly, NodePool
from koordpy_plugins.descheduling.lownodeload.classification import NodeClass, classify
from koordpy_plugins.descheduling.lownodeload.explanation import PoolReport
from koordpy_plugins.descheduling.lownodeload.thresholds import Thresholds, complete, fraction
from koordpy_plugins.descheduling.lownodeload.totals import UsageTotals
from koordpy_plugins.descheduling.lownodeload.usage import (
    UNIT,
    NodeUsage,
    measure,
    of_counted,
    raw_allocatable,
    read_pods,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def node(name: str = "n1", *, annotations: dict[str, str] | None = None, unschedulable: bool = False) -> Node:
    return decode(
        Node,
        {
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"unschedulable": unschedulable},
            "status": {"allocatable": {"cpu": "4", "memory": "3000", "pods": "10"}},
        },
    )


def metric(pods: dict[str, dict[str, str]], system: dict[str, str] | None = None, age: int = 0) -> NodeMetric:
    return decode(
        NodeMetric,
        {
            "metadata": {"name": "n1"},
            "status": {
                "updateTime": (NOW - timedelta(seconds=age)).isoformat(),
                "nodeMetric": {"systemUsage": {"resources": system or {}}},
                "podsMetric": [
                    {"namespace": "a", "name": name, "podUsage": {"resources": used}}
                    for name, used in pods.items()
                ],
            },
        },
    )


def pod(name: str, **labels: str) -> Pod:
    labels = {f"koordinator.sh/{key}": value for key, value in labels.items()}
    return decode(
        Pod, {"metadata": {"namespace": "a", "name": name, "labels": labels}, "spec": {"nodeName": "n1"}}
    )


def usage(
    used: dict[str, int], name: str = "n1", prod: dict[str, int] | None = None, **metrics: dict[str, int]
) -> NodeUsage:
    """A node by milli-cpu and units, with thresholds of 1000m/2000m for cpu."""
    billions = {key: of_counted(key, value) for key, value in used.items()}
    prod_billions = {key: of_counted(key, value) for key, value in (prod or {"cpu": 0}).items()}
    found = NodeUsage(
        node(name),
        raw_allocatable(node(name)),
        billions,
        prod_billions,
        [pod(item) for item in metrics],
        [],
        {f"a/{key}": {r: of_counted(r, n) for r, n in value.items()} for key, value in metrics.items()},
    )
    found.low, found.high = {"cpu": UNIT}, {"cpu": 2 * UNIT}
    found.prod_low, found.prod_high = {"cpu": UNIT // 2}, {"cpu": UNIT}
    return found


# --- usage ---------------------------------------------------------------------------------------


def measured(pods: list[Pod], report: NodeMetric | None) -> NodeUsage | None:
    """The usage of n1 by these objects of a cluster, with its pods."""
    cluster = Cluster()
    totals = cluster.shared(UsageTotals)
    for item in pods:
        cluster.store(Pod).apply(item)
    if report is not None:
        cluster.store(NodeMetric).apply(report)
    found = measure(node(), totals.of("n1"), ["cpu"], NOW, 180)
    if found is not None:
        read_pods(found, pods)
    return found


def test_usage_is_that_of_the_system_and_of_all_reported_pods() -> None:
    pods = [pod("prod", qosClass="LS"), pod("batch", qosClass="BE")]
    report = metric(
        {"prod": {"cpu": "1"}, "batch": {"cpu": "500m"}, "gone": {"cpu": "100u"}}, {"cpu": "1500m"}
    )
    found = measured(pods, report)
    assert found is not None
    assert found.usage == {"cpu": 3_000_100_000, "pods": 2 * UNIT}
    assert found.prod_usage == {"cpu": UNIT, "pods": UNIT}
    assert [item.metadata.name for item in found.prod_pods] == ["prod"]
    assert set(found.pod_usage) == {"a/prod", "a/batch", "a/gone"}


@pytest.mark.parametrize(("age", "is_measured"), [(179, True), (180, False)])
def test_a_report_expires(age: int, is_measured: bool) -> None:
    assert (measured([], metric({}, age=age)) is not None) is is_measured


@pytest.mark.parametrize("status", [{}, {"updateTime": "2026-01-01T00:00:00Z"}, {"nodeMetric": {}}])
def test_a_node_without_a_full_report_is_not_measured(status: dict[str, Any]) -> None:
    report = decode(NodeMetric, {"metadata": {"name": "n1"}, "status": status})
    assert measured([pod("running")], report) is None
    assert measured([pod("running")], None) is None


def test_a_report_with_an_invalid_amount_is_none_at_all(caplog: pytest.LogCaptureFixture) -> None:
    assert measured([pod("a")], metric({"a": {"cpu": "much"}})) is None
    assert "NodeMetric n1 is ignored: quantity 'much'" in caplog.text


def test_a_pod_with_an_invalid_amount_is_counted_until_it_is_gone() -> None:
    cluster = Cluster()
    totals, pods = cluster.shared(UsageTotals), cluster.store(Pod)
    for amount in ("1", "much"):
        containers = [{"name": "c", "resources": {"requests": {"cpu": amount}}}]
        spec = {"nodeName": "n1", "containers": containers}
        pods.apply(decode(Pod, {"metadata": {"namespace": "a", "name": "p"}, "spec": spec}))
    found = totals.of("n1")
    assert found is not None
    assert (found.pods, found.prod_pods) == (1, 0)
    pods.discard("a/p")
    assert totals.of("n1") is None


def test_totals_follow_pods_and_reports() -> None:
    cluster = Cluster()
    totals = cluster.shared(UsageTotals)
    pods, metrics = cluster.store(Pod), cluster.store(NodeMetric)
    metrics.apply(metric({"prod": {"cpu": "1"}, "batch": {"cpu": "2"}}))
    pods.apply(pod("prod", qosClass="LS"))
    pods.apply(pod("batch", qosClass="BE"))

    def found() -> tuple[int, int, int, int]:
        of = totals.of("n1")
        assert of is not None
        return of.pods, of.prod_pods, of.usage["cpu"] // UNIT, of.prod_usage.get("cpu", 0) // UNIT

    assert found() == (2, 1, 3, 1)
    pods.apply(pod("batch", qosClass="LSR"))
    assert found() == (2, 2, 3, 3)
    metrics.apply(metric({"prod": {"cpu": "4"}}))
    assert found() == (2, 2, 4, 4)
    pods.discard("a/prod")
    assert found() == (1, 1, 4, 0)
    metrics.discard("n1")
    pods.discard("a/batch")
    assert totals.of("n1") is None


@pytest.mark.parametrize(
    ("annotation", "cpu"), [('{"cpu": "2"}', 2), ('{"cpu": "x"}', 4), ("[]", 4), ("null", 4), ("{", 4)]
)
def test_raw_allocatable_wins_where_it_can_be_read(annotation: str, cpu: int) -> None:
    annotated = node(annotations={"node.koordinator.sh/raw-allocatable": annotation})
    assert raw_allocatable(annotated)["cpu"] == cpu * UNIT


# --- thresholds ----------------------------------------------------------------------------------


def pool(deviation: bool = False, **maps: dict[str, float]) -> NodePool:
    return NodePool(
        "p",
        None,
        deviation,
        maps.get("low"),
        maps.get("high"),
        maps.get("prod_low"),
        maps.get("prod_high"),
        {"cpu": 1},
        Anomaly(0, 1, 1),
    )


def test_missing_thresholds_are_completed_in_place() -> None:
    given = pool(low={"cpu": 30.0}, high={"cpu": 50.0, "pods": 1.0})
    done = complete(given)
    assert done.low == {"cpu": 30, "memory": 100, "pods": 100}
    assert done.high == {"cpu": 50, "memory": 100, "pods": 100}
    assert done.prod_low == done.prod_high == {"cpu": 100, "memory": 100, "pods": 100}
    assert given.low is done.low
    assert complete(pool(deviation=True)).low == {"memory": 0}


def test_a_low_threshold_without_a_high_one_makes_any_use_too_much() -> None:
    busy = usage({"cpu": 1, "memory": 0})
    thresholds.apply(complete(pool(low={"cpu": 0.0})), [busy], False)
    assert classify(busy) is NodeClass.SOURCE


def test_deviation_is_relative_to_the_mean() -> None:
    nodes = [usage({"cpu": 1000, "memory": 0}), usage({"cpu": 3000, "memory": 0})]
    done = complete(pool(deviation=True, low={"cpu": 10.0}, high={"cpu": 60.0}))
    thresholds.apply(done, nodes, True)
    assert (nodes[0].low["cpu"], nodes[0].high["cpu"]) == (1600_000_000, 4 * UNIT)
    assert nodes[0].low["memory"] == nodes[0].high["memory"] == 3000 * UNIT


@given(st.integers(0, 1 << 40), st.floats(0, 200))
def test_a_fraction_never_exceeds_its_percentage(offered: int, percent: float) -> None:
    part = fraction("memory", percent, offered * UNIT)
    assert part % UNIT == 0
    assert 0 <= part <= offered * UNIT * (percent * 0.01 + 1e-9)


# --- classes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("used", "prod", "unschedulable", "expected"),
    [
        (1000, 500, False, NodeClass.BOTH_LOW),
        (1000, 501, False, NodeClass.LOW),
        (1000, 1001, False, NodeClass.PROD_HIGH),
        (1001, 500, False, NodeClass.PROD_LOW),
        (1001, 501, False, NodeClass.NONE),
        (2000, 1001, False, NodeClass.PROD_HIGH),
        (2001, 1001, False, NodeClass.SOURCE),
        (1000, 500, True, NodeClass.NONE),
        (2001, 500, True, NodeClass.SOURCE),
    ],
)
def test_a_node_has_one_class(used: int, prod: int, unschedulable: bool, expected: NodeClass) -> None:
    found = usage({"cpu": used}, prod={"cpu": prod})
    found.node.spec.unschedulable = unschedulable
    assert classify(found) is expected


# --- balancing -----------------------------------------------------------------------------------


class Evictions:
    """An evictor that says yes and remembers."""

    def __init__(self, *fails: str) -> None:
        self.calls: list[tuple[str, str]] = []
        self.recovered: list[str] = []
        self.skipped: dict[str, str] = {}
        self._fails = fails

    def policy(self, node_fit: bool = True) -> balancing.Policy:
        return balancing.Policy(
            Thresholds({"cpu": 25}, {"cpu": 50}, {"cpu": 12.5}, {"cpu": 25}),
            {"cpu": 1},
            lambda item: item.metadata.name != "forbidden",
            NodeFit(NodePods(Cluster())) if node_fit else None,
            self._evict,
            lambda found, prod: self.recovered.append(found.name),
            self._skip,
            Pace(FakeClock(NOW)),
        )

    def _skip(self, pods: Sequence[Pod], reason: str | Callable[[], str]) -> None:
        text = reason if isinstance(reason, str) else reason()
        self.skipped.update((item.metadata.name, text) for item in pods)

    async def _evict(self, item: Pod, reason: str, prod: bool) -> bool:
        self.calls.append((item.metadata.name, reason))
        return item.metadata.name not in self._fails

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]


async def moved(evictions: Evictions, source: NodeUsage, target: NodeUsage, node_fit: bool = True) -> None:
    left = balancing.budget(["cpu"], [target], False)
    await balancing.balance(balancing.Sources(False, [source], [target]), left, evictions.policy(node_fit))


async def test_pods_go_until_the_node_has_recovered() -> None:
    evictions = Evictions()
    source = usage({"cpu": 3000}, x={"cpu": 600}, y={"cpu": 500}, z={"cpu": 400})
    await moved(evictions, source, usage({"cpu": 0}, "n2"))
    # 1000m too much: 600 covers the most of it, then 500 is enough.
    assert evictions.names == ["x", "y"]
    assert evictions.recovered == ["n1"]
    assert balancing.outcome([source], []) == "balanced"
    assert evictions.skipped == {"z": "n1 is no longer overutilized without those evicted"}
    assert evictions.calls[0][1] == "node is overutilized, node cpu usage(75.00%)>threshold(50.00%)"


async def test_the_budget_of_the_targets_ends_it() -> None:
    evictions = Evictions()
    source = usage({"cpu": 4000}, x={"cpu": 900}, y={"cpu": 900}, z={"cpu": 900})
    await moved(evictions, source, usage({"cpu": 1000}, "n2"), node_fit=False)
    assert evictions.names == ["x", "y"]
    assert evictions.recovered == []
    assert balancing.outcome([source], []) == (
        "n1 stays overutilized: no more of the pods can be evicted now"
    )
    others = [usage({"cpu": 3000}, f"n{number}") for number in range(2, 8)]
    assert balancing.outcome([source, *others], [usage({"cpu": 0})]).startswith(
        "n1, n2, n3, n4, n5 and 2 more stay overutilized: "
    )
    assert evictions.skipped == {
        "z": "the underutilized nodes have no capacity left below their high thresholds: cpu"
    }


async def test_a_pod_must_fit_a_target_with_those_before_it() -> None:
    evictions = Evictions()
    source = usage({"cpu": 4000}, x={"cpu": 900}, y={"cpu": 200}, z={"cpu": 100})
    await moved(evictions, source, usage({"cpu": 1000}, "n2"))
    assert evictions.names == ["x", "z"]
    assert evictions.skipped == {
        "y": "it fits none of 1 underutilized node: "
        "1 above the high threshold of cpu with it and earlier candidates"
    }


async def test_a_pod_without_usage_is_skipped_with_that_reason() -> None:
    evictions = Evictions()
    source = usage({"cpu": 4000}, x={"cpu": 900})
    source.pods.append(pod("new"))
    await moved(evictions, source, usage({"cpu": 0}, "n2"))
    assert evictions.skipped == {"new": "the NodeMetric of n1 has no usage of it"}


async def test_a_failed_fit_leaves_the_target_as_it_was() -> None:
    target = usage({"cpu": 1900}, "n2")
    await moved(Evictions(), usage({"cpu": 3000}, x={"cpu": 200}), target)
    assert target.usage == {"cpu": 1900_000_000}


@pytest.mark.parametrize(("node_fit", "evicted"), [(True, []), (False, ["x"])])
async def test_without_node_fit_targets_are_not_checked(node_fit: bool, evicted: list[str]) -> None:
    evictions = Evictions()
    target = usage({"cpu": 0}, "n2")
    target.node.spec.unschedulable = True
    await moved(evictions, usage({"cpu": 2100}, x={"cpu": 200}), target, node_fit)
    assert evictions.names == evicted


async def test_refused_and_filtered_pods_change_nothing() -> None:
    evictions = Evictions("x")
    source = usage({"cpu": 2100}, x={"cpu": 150}, y={"cpu": 200}, forbidden={"cpu": 900})
    await moved(evictions, source, usage({"cpu": 0}, "n2"))
    assert evictions.names == ["x", "y"]
    assert source.usage["cpu"] == 1900_000_000


async def test_without_targets_no_pod_is_checked() -> None:
    evictions = Evictions()
    sources = balancing.Sources(False, [usage({"cpu": 3000}, x={"cpu": 600})], [])
    await balancing.balance(sources, {"cpu": UNIT}, evictions.policy())
    assert evictions.calls == []


@given(st.lists(st.integers(1, 2000), max_size=12), st.integers(2001, 8000), st.integers(0, 1999))
async def test_a_target_is_never_pushed_over_its_threshold(pods: list[int], used: int, taken: int) -> None:
    evictions = Evictions()
    metrics: dict[str, Any] = {f"p{i:02}": {"cpu": amount} for i, amount in enumerate(pods)}
    source = usage({"cpu": used}, **metrics)
    target = usage({"cpu": taken}, "n2")
    await moved(evictions, source, target)
    assert target.usage["cpu"] <= target.high["cpu"]
    assert sum(pods[int(name[1:])] for name in evictions.names) <= 2000 - taken


# --- reports -------------------------------------------------------------------------------------


def test_a_report_has_the_figures_of_every_node_as_they_were() -> None:
    hot, idle = usage({"cpu": 3000, "pods": 2}), usage({"cpu": 0}, "n2", prod={"cpu": 0, "pods": 1})
    report = PoolReport(name="p", outcome="balanced", abnormal=["n1"], unmeasured=["n3"])
    report.measured([hot, idle], [NodeClass.SOURCE, NodeClass.BOTH_LOW])
    hot.usage["cpu"] = 0  # evictions change the usage afterwards
    assert report.nodes["n1"].usage == {"cpu": 3000, "pods": 2}
    assert report.nodes["n1"].high == {"cpu": 2000}
    assert report.nodes["n2"].usage == {"cpu": 0}
    assert report.nodes["n2"].prod_usage == {"cpu": 0, "pods": 1}
    shown = report.model_dump(mode="json")
    assert shown["nodes"]["n2"]["nodeClass"] == "bothLow"
    about = report.about_node("n1")
    assert about is not None
    assert (about.pool, about.abnormal, about.measured) == ("p", True, True)
    assert about.figures == report.nodes["n1"]
    unmeasured = report.about_node("n3")
    assert unmeasured is not None
    assert not unmeasured.measured
    assert report.about_node("n4") is None


def test_an_amount_beyond_64_bits_is_reported_as_the_largest() -> None:
    huge = usage({"cpu": 3000})
    huge.usage["memory"] = 10**40
    report = PoolReport(name="p")
    report.measured([huge], [NodeClass.SOURCE])
    assert report.nodes["n1"].usage["memory"] == 2**63 - 1
