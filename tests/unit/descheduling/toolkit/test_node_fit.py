from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.node_fit import NodeFit
from koordpy.descheduling.toolkit.pods import (
    Namespaces,
    NodePods,
    PodSelector,
    every,
    in_namespaces,
    selected,
)
from koordpy.descheduling.toolkit.upstream_node_fit import UpstreamNodeFit

GPU = "example.com/gpu"
ALLOCATABLE = {"cpu": "4", "memory": "4Gi", "pods": "2"}


def node(name: str = "n1", spec: dict[str, Any] | None = None, gpus: str = "", **allocatable: str) -> Node:
    listed = {GPU: gpus} if gpus else {}
    return decode(
        Node,
        {
            "metadata": {"name": name, "labels": {"zone": name}},
            "spec": spec or {},
            "status": {"allocatable": {**ALLOCATABLE, **allocatable, **listed}},
        },
    )


def pod(
    name: str = "p", node_name: str = "", phase: str = "", labels: dict[str, str] | None = None, **spec: Any
) -> Pod:
    requests = spec.pop("requests", {"cpu": "1"})
    return decode(
        Pod,
        {
            "metadata": {"namespace": "a", "name": name, "labels": labels or {}},
            "spec": {
                "nodeName": node_name,
                "containers": [{"name": "c", "resources": {"requests": requests}}],
                **spec,
            },
            "status": {"phase": phase},
        },
    )


def pods_of(*placed: Pod) -> NodePods:
    cluster = Cluster()
    for item in placed:
        cluster.store(Pod).apply(item)
    return NodePods(cluster)


TAINT = {"taints": [{"key": "k", "value": "5", "effect": "NoSchedule"}]}


def test_every_reason_is_given() -> None:
    hostile = node(spec={**TAINT, "unschedulable": True}, cpu="500m")
    asking = pod(nodeSelector={"zone": "other"}, requests={"cpu": "1", "example.com/gpu": "1"})
    assert NodeFit(pods_of()).reasons_against(asking, hostile) == [
        "pod node selector does not match the node label",
        "pod does not tolerate taints on the node",
        "insufficient cpu",
        "insufficient example.com/gpu",
        "node is not schedulable",
    ]
    assert not NodeFit(pods_of()).fits(asking, hostile)


@pytest.mark.parametrize(
    ("requests", "fits"),
    [
        ({"cpu": "2"}, True),
        ({"cpu": "2001m"}, False),
        ({"memory": "3Gi"}, True),
        ({"memory": "3221225473"}, False),
        ({"ephemeral-storage": "1"}, False),
        ({}, True),
    ],
)
def test_requests_must_fit_beside_the_pods_that_have_not_ended(requests: dict[str, str], fits: bool) -> None:
    placed = pods_of(
        pod("running", "n1", requests={"cpu": "2", "memory": "1Gi"}),
        pod("done", "n1", "Succeeded", requests={"cpu": "4"}),
        pod("elsewhere", "n2", requests={"cpu": "4"}),
    )
    assert NodeFit(placed).fits(pod(requests=requests), node()) is fits


def test_listed_resources_of_any_name_can_be_requested() -> None:
    fit = NodeFit(pods_of(pod("1", "n1", requests={GPU: "1"}), pod("2", "n1", requests={GPU: "1"})))
    assert fit.fits(pod(requests={GPU: "1"}), node(gpus="3"))
    assert not fit.fits(pod(requests={GPU: "2"}), node(gpus="3"))


def test_what_is_left_is_counted_in_billionths_and_rounded_up_by_milli_cpu_and_whole_others() -> None:
    asking = [
        pod("1", "n1", requests={"cpu": "1u", "memory": "1500m"}),
        pod("2", "n1", requests={"cpu": "1", "memory": "9007199254740993"}),
    ]
    fit = NodeFit(pods_of(*asking))
    large = node(memory="9007199254740999", gpus="2")
    assert fit.left(large, "cpu") == (4000 - 1001) * 10**6
    assert fit.left(large, "memory") == (9007199254740999 - 9007199254740995) * 10**9
    assert fit.left(large, "example.com/gpu") == 2 * 10**9
    assert fit.left(large, "example.com/other") == 0
    bare = decode(Node, {"metadata": {"name": "n1"}})
    assert fit.left(bare, "cpu") == -1001 * 10**6
    assert fit.left(bare, "pods") == 0


def test_a_request_of_zero_does_not_fit_an_overcommitted_node() -> None:
    placed = pods_of(pod("big", "n1", requests={"cpu": "5"}))
    assert not NodeFit(placed).fits(pod(requests={"cpu": "0"}), node())
    assert NodeFit(placed).fits(pod(requests={}), node())


def test_a_request_of_zero_fits_where_nothing_of_the_resource_is_listed() -> None:
    placed = pods_of(pod("odd", "n1", requests={"example.com/gpu": "1"}))
    assert NodeFit(placed).fits(pod(requests={"example.com/gpu": "0"}), node())
    assert not NodeFit(placed).fits(pod(requests={"example.com/gpu": "1"}), node())
    upstream = UpstreamNodeFit(placed)
    assert upstream.reason_against(pod(requests={"example.com/gpu": "0"}), node()) is None
    assert upstream.reason_against(pod(requests={"example.com/gpu": "1"}), node())


def test_another_node_is_one_that_the_pod_does_not_run_on() -> None:
    fit = NodeFit(pods_of())
    placed = pod(node_name="n1")
    assert fit.fits_any(placed, [node("n1")])
    assert not fit.fits_any_other(placed, [node("n1")])
    assert fit.fits_any_other(placed, [node("n1"), node("n2")])


def test_the_number_of_pods_counts_upstream_only() -> None:
    placed = pods_of(pod("1", "n1", requests={}), pod("2", "n1", requests={}))
    assert NodeFit(placed).fits(pod(), node())
    assert UpstreamNodeFit(placed).reason_against(pod(), node()) == "insufficient pods"


def test_upstream_a_node_that_the_pod_runs_on_needs_no_room() -> None:
    running = pod(node_name="n1", requests={"cpu": "9"})
    fit = UpstreamNodeFit(pods_of(running))
    assert fit.reason_against(running, node()) is None
    assert fit.reason_against(running, node("n2")) == "insufficient cpu"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"unschedulable": True}, "node is not schedulable"),
        (TAINT, "pod does not tolerate taints on the node"),
        ({}, None),
    ],
)
def test_upstream_gives_the_first_reason(spec: dict[str, Any], reason: str | None) -> None:
    assert UpstreamNodeFit(pods_of()).reason_against(pod(), node(spec=spec)) == reason


def test_comparing_tolerations_work_upstream_only() -> None:
    tolerating = pod(tolerations=[{"key": "k", "operator": "Lt", "value": "6"}])
    assert UpstreamNodeFit(pods_of()).reason_against(tolerating, node(spec=TAINT)) is None
    assert not NodeFit(pods_of()).fits(tolerating, node(spec=TAINT))


def test_upstream_required_anti_affinity_keeps_a_pod_away() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    shy = pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    fit = UpstreamNodeFit(pods_of(pod("other", "n1", labels={"app": "x"}), pod("plain", "n2")))
    assert fit.reason_against(shy, node("n1")) == "pod violates its required anti-affinity on the node"
    assert fit.reason_against(shy, node("n2")) is None
    assert fit.fits_any_other(shy, [node("n1"), node("n2")])


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ({"cpu": "1", "memory": "4Gi"}, None),
        ({"cpu": "1001m"}, "insufficient cpu"),
        ({"memory": "4294967297"}, "insufficient memory"),
        ({"ephemeral-storage": "1"}, "insufficient ephemeral-storage"),
        ({"example.com/gpu": "3"}, None),
        ({"example.com/gpu": "4"}, "insufficient example.com/gpu"),
        ({}, None),
    ],
)
def test_upstream_requests_must_fit_beside_the_pods_that_have_not_ended(
    requests: dict[str, str], reason: str | None
) -> None:
    placed = pods_of(
        pod("running", "n1", requests={"cpu": "2", GPU: "1"}),
        pod("second", "n1", requests={"cpu": "1", GPU: "1"}),
        pod("done", "n1", "Failed", requests={"cpu": "4"}),
        pod("elsewhere", "n2", requests={"cpu": "4"}),
    )
    gpus: dict[str, Any] = {GPU: "5"}
    wide = node(pods="3", **gpus)
    assert UpstreamNodeFit(placed).reason_against(pod(requests=requests), wide) == reason
    full = node(pods="2", **gpus)
    assert UpstreamNodeFit(placed).reason_against(pod(requests=requests), full) == "insufficient pods"


def test_upstream_a_request_of_zero_does_not_fit_an_overcommitted_node() -> None:
    fit = UpstreamNodeFit(pods_of(pod("big", "n1", requests={"cpu": "5"})))
    assert fit.reason_against(pod(requests={"cpu": "0"}), node()) == "insufficient cpu"
    assert fit.reason_against(pod(requests={}), node()) is None


def test_upstream_a_node_that_lists_no_pods_takes_none() -> None:
    bare = decode(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}})
    assert UpstreamNodeFit(pods_of()).reason_against(pod(), bare) == "insufficient pods"
    unlisted = decode(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "4"}}})
    assert UpstreamNodeFit(pods_of()).reason_against(pod(), unlisted) == "insufficient cpu"
    assert UpstreamNodeFit(pods_of()).reason_against(pod(requests={"cpu": "0"}), unlisted) is None
    assert (
        UpstreamNodeFit(pods_of()).reason_against(pod(requests={"cpu": "1m"}), unlisted) == "insufficient cpu"
    )


def test_upstream_a_node_must_have_the_labels_that_a_pod_selects() -> None:
    fit = UpstreamNodeFit(pods_of())
    choosy = pod(nodeSelector={"zone": "n2"})
    assert fit.reason_against(choosy, node("n1")) == "pod node selector does not match the node label"
    assert fit.reason_against(choosy, node("n2")) is None
    assert fit.fits_any(choosy, [node("n1"), node("n2")])
    assert not fit.fits_any(choosy, [node("n1")])


OTHER = {"name": "other", "node_name": "n1", "labels": {"app": "x"}}
REPELLED = "pod violates its required anti-affinity on the node"


@pytest.mark.parametrize(
    ("term", "other", "reason"),
    [
        ({}, {}, REPELLED),
        ({"topologyKey": "rack"}, {}, None),
        ({"namespaces": ["a", "b"]}, {}, REPELLED),
        ({"namespaces": ["b"]}, {}, None),
        ({"labelSelector": {"matchLabels": {"app": "y"}}}, {}, None),
        # An error in reading a term is one in the whole check, as in the descheduler.
        ({"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Is"}]}}, {}, REPELLED),
        ({}, {"name": "p"}, None),
        ({}, {"phase": "Succeeded"}, None),
        ({}, {"node_name": "n2"}, None),
    ],
)
def test_upstream_anti_affinity_is_to_other_pods_of_the_node_that_a_term_matches(
    term: dict[str, Any], other: dict[str, Any], reason: str | None
) -> None:
    usual = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone", **term}
    harmless = {"labelSelector": {"matchLabels": {"app": "z"}}, "topologyKey": "zone"}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [harmless, usual]}
    shy = pod(affinity={"podAntiAffinity": terms})
    fit = UpstreamNodeFit(pods_of(pod(**{**OTHER, **other})))
    assert fit.reason_against(shy, node("n1")) == reason


# --- pods ----------------------------------------------------------------------------------------


def test_pods_of_a_node_come_by_namespace_and_name() -> None:
    listed = pods_of(pod("b", "n1"), pod("a", "n1", "Failed"), pod("c", "n2"), pod("d"))
    assert [item.metadata.name for item in listed.all_on("n1")] == ["a", "b"]
    assert [item.metadata.name for item in listed.active_on("n1")] == ["b"]
    assert listed.all_on("") == []


@pytest.mark.parametrize(
    ("namespaces", "passes"),
    [
        (None, True),
        (Namespaces(), True),
        (Namespaces(include=["a"]), True),
        (Namespaces(include=["b"]), False),
        (Namespaces(exclude=["a"]), False),
        (Namespaces(exclude=["b"]), True),
    ],
)
def test_pods_pass_by_namespace(namespaces: Namespaces | None, passes: bool) -> None:
    assert in_namespaces(namespaces)(pod()) is passes


def test_pods_pass_if_one_selector_matches_and_selectors_without_one_are_ignored() -> None:
    empty, app = (
        PodSelector(name="e"),
        PodSelector.model_validate({"selector": {"matchLabels": {"app": "x"}}}),
    )
    everything = PodSelector.model_validate({"selector": {}})
    assert selected([])(pod())
    assert selected([empty])(pod())
    assert not selected([empty, app])(pod())
    assert selected([empty, app])(pod(labels={"app": "x"}))
    assert selected([app, everything])(pod())
    assert not every([selected([]), selected([app])])(pod())


def test_a_bad_selector_is_named() -> None:
    bad = PodSelector.model_validate(
        {"name": "s", "selector": {"matchExpressions": [{"key": "k", "operator": "Is"}]}}
    )
    with pytest.raises(ValueError, match="invalid labelSelector s, "):
        selected([bad])
