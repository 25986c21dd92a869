from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from koordpy.api import qos
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import Status
from koordpy_plugins.scheduling.loadaware.args import LoadAwareSchedulingArgs
from koordpy_plugins.scheduling.loadaware.estimator import Estimator
from koordpy_plugins.scheduling.loadaware.node_load import micros
from koordpy_plugins.scheduling.loadaware.plugin import LoadAwareScheduling
from koordpy_plugins.scheduling.loadaware.settings import LoadSettings

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GI = 1 << 30


def made(**args: object) -> LoadAwareScheduling:
    cluster = Cluster(FakeClock(NOW))
    plugin = LoadAwareScheduling.make(Handle(cluster), args)
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "96", "memory": "512Gi"}}}
    cluster.store(Node).apply(decode(Node, node))
    return plugin


def report(plugin: LoadAwareScheduling, cpu: str, memory: str, age: int = 0) -> None:
    usage = {"resources": {"cpu": cpu, "memory": memory}}
    document = {
        "metadata": {"name": "n"},
        "status": {
            "updateTime": format_time(NOW - timedelta(seconds=age)),
            "nodeMetric": {"nodeUsage": usage},
        },
    }
    plugin.handle.cluster.store(NodeMetric).apply(decode(NodeMetric, document))


def pod(cpu: str = "16", memory: str = "32Gi", **meta: object) -> Pod:
    amounts = {"cpu": cpu, "memory": memory}
    return decode(
        Pod,
        {
            "metadata": {"name": "p", "namespace": "d", "uid": "p", **meta},
            "spec": {"containers": [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]},
        },
    )


def filtered(plugin: LoadAwareScheduling, incoming: Pod) -> Status:
    return plugin.filter_nodes(CycleState(), incoming, plugin.handle.nodes.all()).status(0)


def scored(plugin: LoadAwareScheduling, incoming: Pod) -> int:
    return int(plugin.score_nodes(CycleState(), incoming, plugin.handle.nodes.all())[0])


def test_scores_follow_what_would_be_left() -> None:
    plugin = made()
    report(plugin, "0", "0")
    assert scored(plugin, pod()) == 90
    report(plugin, "32", "10Gi")
    assert scored(plugin, pod()) == 72


def test_a_reserved_pod_counts_at_once_and_no_more_after_unreserve() -> None:
    plugin = made()
    report(plugin, "32", "10Gi")
    other = pod(uid="other", name="other")
    plugin.reserve(CycleState(), other, "n")
    assert scored(plugin, pod()) == 63
    plugin.unreserve(CycleState(), other, "n")
    assert scored(plugin, pod()) == 72


def test_a_pod_that_was_bound_all_the_same_counts_after_unreserve() -> None:
    plugin = made()
    report(plugin, "32", "10Gi")
    other = pod(uid="other", name="other")
    plugin.reserve(CycleState(), other, "n")
    bound = replace(other, spec=replace(other.spec, node_name="n"))
    plugin.handle.cluster.store(Pod).apply(bound)
    plugin.unreserve(CycleState(), other, "n")
    plugin.handle.forget_pod(other, "n")
    assert scored(plugin, pod()) == 63


def test_a_forgotten_pod_counts_no_more() -> None:
    plugin = made()
    report(plugin, "32", "10Gi")
    other = pod(uid="other", name="other")
    plugin.reserve(CycleState(), other, "n")
    plugin.handle.forget_pod(other, "n")
    assert scored(plugin, pod()) == 72


def test_usage_over_the_threshold_is_refused_with_the_resource() -> None:
    plugin = made()
    report(plugin, "60", "10Gi")
    assert filtered(plugin, pod()) == Status.unschedulable("node(s) cpu usage exceed threshold")


def test_daemon_set_pods_pass() -> None:
    plugin = made()
    report(plugin, "90", "10Gi")
    assert filtered(plugin, pod(ownerReferences=[{"kind": "DaemonSet", "name": "d"}])).is_success


@pytest.mark.parametrize(
    ("args", "passes"),
    [
        ({}, False),
        ({"enableScheduleWhenNodeMetricsExpired": True}, True),
        ({"filterExpiredNodeMetrics": False}, True),
    ],
)
def test_an_expired_node_metric_passes_unless_filtering_is_on(args: dict[str, object], passes: bool) -> None:
    plugin = made(**args)
    report(plugin, "1", "1Gi", age=180)
    assert filtered(plugin, pod()).is_success is passes
    assert scored(plugin, pod()) == 0


def test_a_node_without_a_metric_passes_and_scores_nothing() -> None:
    assert filtered(made(), pod()).is_success
    assert scored(made(), pod()) == 0


@pytest.mark.parametrize(
    ("cpu", "memory", "factors", "expected"),
    [
        ("4", "8Gi", {}, [3400, 6012954214]),
        ("0", "0", {}, [250, 209715200]),
        ("4", "8Gi", {"cpu": 100, "memory": 80}, [4000, 6871947674]),
    ],
)
def test_pods_are_estimated_by_a_share_of_what_they_ask_for(
    cpu: str, memory: str, factors: dict[str, int], expected: list[int]
) -> None:
    args = LoadAwareSchedulingArgs.model_validate({"estimatedScalingFactors": factors})
    estimator, asking = Estimator(LoadSettings.of(args)), pod(cpu, memory)
    assert estimator.of_pod(asking) == expected
    assert estimator.of_object(asking) == estimator.of_object(asking) == expected


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"resourceWeights": {"cpu": 0}}, "resource Weight of cpu should be a positive value, got 0"),
        ({"usageThresholds": {"cpu": 101}}, "resource Threshold of cpu should be less than 100, got 101"),
        ({"resourceWeights": {"gpu": 1}}, 'estimatedScalingFactors: Not found: "gpu"'),
        ({"aggregated": {"usageAggregationType": "p42"}}, 'Unsupported value: "p42"'),
        ({"aggregated": {"usageAggregatedDuration": "-1s"}}, "duration must be >= 0"),
        ({"nodeMetricExpirationSeconds": 0}, "should be a positive value"),
        ({"usageTresholds": {}}, "args.usageTresholds: unknown field"),
        ({"usageThresholds": {"cpu": "65"}}, "args.usageThresholds.cpu"),
    ],
)
def test_wrong_arguments_are_refused(args: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(**args)
    assert message in str(caught.value)


def test_the_rest_face_shows_pods_and_sums() -> None:
    plugin = made()
    show = plugin.endpoints()["node/{node_name}"]
    assert show(node_name="n") == {}
    report(plugin, "1", "1Gi")
    plugin.reserve(CycleState(), pod("4", "8Gi"), "n")
    answer = show(node_name="n")
    assert isinstance(answer, dict)
    assert answer["nodeDelta"] == {"cpu": "3400m", "memory": "6012954214"}
    assert answer["nodeDeltaPods"] == ["d/p"]
    assert answer["pods"][0]["timestamp"] == "2026-03-01T12:00:00Z"


def test_a_pod_of_the_same_name_stays_when_the_one_that_it_replaces_leaves() -> None:
    plugin = made()
    report(plugin, "1", "1Gi")
    old, new = pod("4", "8Gi"), pod("4", "8Gi")
    new.metadata.uid = "new"
    plugin.reserve(CycleState(), old, "n")
    plugin.reserve(CycleState(), new, "n")
    plugin.unreserve(CycleState(), old, "n")
    answer = plugin.endpoints()["node/{node_name}"](node_name="n")
    assert isinstance(answer, dict)
    assert answer["nodeDeltaPods"] == answer["nodeEstimatedPods"] == ["d/p"]


AMOUNTS = st.sampled_from(
    ["0", "1m", "500m", "1", "7", "63", "64", "65", "96", "97", "200", "9007199254740993", "5E"]
)
THRESHOLDS = st.fixed_dictionaries({}, optional={"cpu": st.integers(0, 100), "memory": st.integers(0, 100)})


@given(data=st.data())
def test_nodes_without_an_exact_check_are_those_that_pass(data: st.DataObject) -> None:
    plugin = made(
        usageThresholds=data.draw(THRESHOLDS),
        prodUsageThresholds=data.draw(THRESHOLDS),
        filterExpiredNodeMetrics=data.draw(st.booleans()),
        enableScheduleWhenNodeMetricsExpired=data.draw(st.booleans()),
    )
    cluster = plugin.handle.cluster
    for i in range(data.draw(st.integers(1, 6))):
        allocatable = {"cpu": data.draw(AMOUNTS), "memory": data.draw(AMOUNTS)}
        node = {"metadata": {"name": f"n{i}"}, "status": {"allocatable": allocatable}}
        cluster.store(Node).apply(decode(Node, node))
        if not data.draw(st.booleans()):
            continue
        usage = {"nodeUsage": {"resources": {"cpu": data.draw(AMOUNTS), "memory": data.draw(AMOUNTS)}}}
        age = timedelta(seconds=data.draw(st.sampled_from([0, 100, 179, 180, 181])))
        status = {
            "updateTime": format_time(NOW - age),
            "nodeMetric": data.draw(st.sampled_from([usage, None])),
        }
        metric = {"metadata": {"name": f"n{i}"}, "status": status}
        cluster.store(NodeMetric).apply(decode(NodeMetric, metric))
    labels = data.draw(st.sampled_from([{}, {"koordinator.sh/priority-class": "koord-prod"}]))
    incoming = pod(data.draw(AMOUNTS), data.draw(AMOUNTS), labels=labels)
    nodes, state = plugin.handle.nodes.all(), CycleState()
    verdict = plugin.filter_nodes(state, incoming, nodes)
    prod = qos.priority_class(incoming) is qos.PriorityClass.PROD
    now = micros(NOW) if plugin.settings.filter_expired_node_metrics else None
    codes, keys = plugin._judge(nodes, plugin._estimate(state, incoming), now, prod=prod)
    found = [verdict.status(i) for i in range(len(nodes))]
    assert [status.code for status in found] == codes.tolist()
    expected = [plugin._reasons[key] if code else () for code, key in zip(codes, keys, strict=True)]
    assert [status.reasons for status in found] == expected


def test_profiles_share_loads_and_columns_where_their_arguments_for_these_agree() -> None:
    first = made(resourceWeights={"cpu": 1})
    handle = Handle(first.handle.cluster)

    def beside(**args: object) -> LoadAwareScheduling:
        return LoadAwareScheduling.make(handle, args)

    same, stricter = beside(resourceWeights={"memory": 1}), beside(usageThresholds={"cpu": 10})
    coarser = beside(estimatedScalingFactors={"cpu": 100})
    assert same.cache is first.cache is stricter.cache is not coarser.cache
    assert same.columns is first.columns is not stricter.columns
    report(first, "8", "10Gi")
    assert not filtered(stricter, pod()).is_success
    assert filtered(same, pod(cpu="50")).is_success
    first.reserve(CycleState(), pod(cpu="30", uid="other", name="other"), "n")
    assert not filtered(same, pod(cpu="50")).is_success
    assert list(same.cache.unconfirmed()) == ["other"]


@pytest.mark.parametrize(
    ("cpu", "memory", "small_passes", "large_passes"),
    [
        ("70", "100Gi", False, False),
        ("50", "100Gi", True, False),
        ("10", "100Gi", True, True),
        ("10", "500Gi", False, False),
    ],
)
def test_a_refused_pod_may_pass_where_a_report_leaves_enough(
    cpu: str, memory: str, small_passes: bool, large_passes: bool
) -> None:
    plugin = made(usageThresholds={"cpu": 65, "memory": 95})
    pods = [pod("8", "16Gi"), pod("40", "16Gi")]
    report(plugin, cpu, memory)
    assert plugin.may_pass(pods, {NodeMetric: ["n"]}) == [small_passes, large_passes]
    assert [filtered(plugin, each).is_success for each in pods] == [small_passes, large_passes]


def test_a_report_of_a_node_that_is_gone_helps_no_pod() -> None:
    plugin = made()
    assert plugin.may_pass([pod()], {NodeMetric: ["gone"]}) == [False]


def test_node_metrics_wake_refused_pods() -> None:
    [(type_, helps)] = made().events_to_register().items()
    assert type_ is NodeMetric
    assert helps(None, NodeMetric())
