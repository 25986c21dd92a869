"""Whole simulations of small clusters, in simulated time."""

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from koordpy.api.config_model import ConfigError
from koordpy.simulation import simulation
from koordpy.simulation.result import Result

from .scenarios import ALONE, load

LOW_NODE_LOAD = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "deschedulingInterval": "120s",
    "leaderElection": {"leaderElect": False},
    "profiles": [
        {
            "name": "koord-descheduler",
            "plugins": {
                "deschedule": {"disabled": [{"name": "*"}]},
                "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                "evict": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]},
                "filter": {"disabled": [{"name": "*"}], "enabled": [{"name": "DefaultEvictor"}]},
            },
            "pluginConfig": [
                {
                    "name": "LowNodeLoad",
                    "args": {
                        "apiVersion": "descheduler/v1alpha2",
                        "kind": "LowNodeLoadArgs",
                        "lowThresholds": {"cpu": 30, "memory": 50},
                        "highThresholds": {"cpu": 60, "memory": 80},
                    },
                }
            ],
        }
    ],
}


def api(replicas: int = 4, **more: Any) -> dict[str, Any]:
    """A workload of a Deployment."""
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "api"}},
        "template": {"metadata": {"labels": {"app": "api"}}, "spec": {"containers": [container]}},
    }
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": spec}
    return {"name": "api", "deployment": {"source": {"manifest": manifest}, **more}}


def run(folder: Path, **changes: Any) -> Result:
    told = load(folder, **changes)
    return simulation.simulate(told, told.schedulers[0], folder)


def test_pods_arrive_run_and_end_at_their_times(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.pods.created == result.pods.bound == result.pods.finished == 10
    for number, pod in enumerate(sorted(result.placements, key=lambda pod: pod.created)):
        assert pod.created == pytest.approx(number * 10, abs=0.1)
        assert pod.bound is not None
        assert pod.ended == pytest.approx(pod.bound + 600, abs=0.1)
    assert 690 <= result.simulated_seconds < 1200
    assert result.pods.pending_at_end == result.pods.running_at_end == 0


def test_the_same_seed_gives_the_same_result(tmp_path: Path) -> None:
    first, second = run(tmp_path, seed=4), run(tmp_path, seed=4)
    first.wall_seconds = second.wall_seconds = 0
    assert msgspec.json.encode(first) == msgspec.json.encode(second)


def test_pods_wait_for_free_resources(tmp_path: Path) -> None:
    pods = {"count": 4, "duration": "10m", "requests": {"cpu": 3}}
    result = run(tmp_path, workloads=[{"name": "big", "pods": pods}])
    waits = sorted(round((pod.bound or 0) - pod.created) for pod in result.placements)
    assert waits[:3] == [0, 0, 0]
    assert 600 <= waits[3] <= 700
    assert max(result.series.pending) == 1
    assert result.pending_seconds.max == pytest.approx(waits[3], abs=1)


def test_a_pod_that_never_fits_is_pending_at_the_end(tmp_path: Path) -> None:
    pods = {"count": 1, "duration": "1m", "requests": {"cpu": 64}}
    result = run(tmp_path, workloads=[{"name": "huge", "pods": pods}])
    assert (result.pods.bound, result.pods.pending_at_end) == (0, 1)
    assert result.pending_seconds.max >= 600


def test_use_is_what_the_curves_say(tmp_path: Path) -> None:
    pods = {"count": 3, "duration": "1h", "requests": {"cpu": 2, "memory": "4Gi"}}
    usage = {"cpu": {"factor": 0.5}, "memory": {"factor": 1}}
    result = run(tmp_path, duration="30m", workloads=[{"name": "w", "pods": pods, "usage": usage}])
    assert result.series.used["cpu"][-1] == pytest.approx(25)
    assert result.series.used["memory"][-1] == pytest.approx(50)
    assert result.series.requested["cpu"][-1] == pytest.approx(50)
    assert result.hot.share == 0


def test_nodes_above_a_threshold_are_hot(tmp_path: Path) -> None:
    pods = {"count": 1, "duration": "1h", "requests": {"cpu": 1}}
    usage = {
        "cpu": {
            "amount": "3",
            "shape": "steps",
            "steps": [{"at": "0s", "value": 0}, {"at": "15m", "value": 1}],
        }
    }
    result = run(tmp_path, duration="30m", workloads=[{"name": "w", "pods": pods, "usage": usage}])
    assert (result.hot.at_most, result.hot.nodes) == (1, 1)
    assert result.hot.share == pytest.approx(100 / 6, abs=0.5)


def test_nodes_join_and_leave_and_pods_come_back_elsewhere(tmp_path: Path) -> None:
    amounts = {"cpu": 4, "memory": "8Gi"}
    nodes = [
        {"name": "first", "allocatable": amounts, "leaves": "20m"},
        {"name": "second", "allocatable": amounts, "joins": "10m"},
    ]
    pods = {"count": 2, "duration": "1h", "requests": {"cpu": 1}}
    result = run(tmp_path, nodes=nodes, workloads=[{"name": "w", "pods": pods}])
    outcomes = sorted((pod.node, pod.outcome) for pod in result.placements)
    assert outcomes == [
        ("first", "node-left"),
        ("first", "node-left"),
        ("second", "finished"),
        ("second", "finished"),
    ]
    assert set(result.series.nodes) == {1, 2}


def test_pods_that_are_lost_when_evicted_do_not_come_back(tmp_path: Path) -> None:
    nodes = [
        {"name": "first", "allocatable": {"cpu": 4}, "leaves": "20m"},
        {"name": "second", "allocatable": {"cpu": 4}, "joins": "10m"},
    ]
    pods = {"count": 2, "duration": "1h", "requests": {"cpu": 1}}
    result = run(tmp_path, nodes=nodes, workloads=[{"name": "w", "pods": pods, "whenEvicted": "lost"}])
    assert result.pods.created == result.pods.evicted == 2


def test_a_deployment_keeps_its_replicas_and_scales(tmp_path: Path) -> None:
    workload = api(4, scale=[{"at": "10m", "replicas": 6}, {"at": "20m", "replicas": 1}])
    result = run(tmp_path, duration="30m", workloads=[workload])
    assert result.pods.created == 6
    assert result.pods.running_at_end == 1
    assert max(result.series.running) == 6


def test_the_descheduler_moves_pods_away_from_hot_nodes(tmp_path: Path) -> None:
    amounts = {"cpu": 8, "memory": "16Gi"}
    nodes = [
        {"name": "old", "count": 2, "allocatable": amounts},
        {"name": "new", "count": 3, "joins": "20m", "allocatable": amounts},
    ]
    workload = {**api(10), "usage": {"cpu": {"amount": "1200m"}}}
    scheduler = {**ALONE, "descheduler": {"manifest": LOW_NODE_LOAD}}
    result = run(tmp_path, duration="2h", nodes=nodes, workloads=[workload], schedulers=[scheduler])
    assert result.pods.evicted > 0
    assert result.pods.running_at_end == 10
    assert result.series.hot[40] == 2
    assert result.series.hot[-1] == 0
    assert result.series.evicted[-1] == result.pods.evicted


def test_webhooks_change_pods_and_koordpys_extender_is_called(tmp_path: Path) -> None:
    profile = {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "batch"},
        "spec": {
            "selector": {"matchLabels": {"kind": "batch"}},
            "qosClass": "BE",
            "priorityClassName": "koord-batch",
            "schedulerName": "koord-scheduler",
        },
    }
    container = {"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    template = {"metadata": {"labels": {"kind": "batch"}}, "spec": {"containers": [container]}}
    batch = {"kubernetes.io/batch-cpu": 2000, "kubernetes.io/batch-memory": "4Gi"}
    result = run(
        tmp_path,
        nodes=[{"name": "w", "count": 2, "allocatable": {"cpu": 4, "memory": "8Gi", **batch}}],
        objects=[{"manifest": profile}],
        workloads=[{"name": "b", "pods": {"count": 2, "duration": "1h", "template": template}}],
        schedulers=[{"name": "koordpy"}],
    )
    assert result.pods.bound == 2
    assert result.series.requested["kubernetes.io/batch-cpu"][10] == pytest.approx(50)
    assert result.series.requested["cpu"][10] == 0


def test_load_aware_scheduling_keeps_pods_off_hot_nodes(tmp_path: Path) -> None:
    hog = {
        "name": "hog",
        "pods": {"count": 1, "requests": {"cpu": "100m", "memory": "1Gi"}},
        "usage": {"cpu": {"amount": "3500m"}},
    }
    web = {
        "name": "web",
        "pods": {"count": 20, "arrivals": {"at": "10m", "every": "30s"}, "requests": {"cpu": "200m"}},
    }
    nodes = [{"name": "w", "count": 4, "allocatable": {"cpu": 4, "memory": "8Gi"}}]

    def beside_the_hog(setup: dict[str, Any]) -> int:
        result = run(tmp_path, duration="1h", nodes=nodes, workloads=[hog, web], schedulers=[setup])
        [hot] = [pod.node for pod in result.placements if pod.workload == "hog"]
        return sum(pod.node == hot for pod in result.placements if pod.workload == "web")

    assert beside_the_hog(ALONE) > 0
    assert beside_the_hog({"name": "koordpy"}) == 0


def test_rejections_are_reported_and_the_rest_continues(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "Not A Name"}]}}
    bad = {"name": "bad", "pods": {"count": 1, "duration": "1m", "template": template}}
    good = {"name": "good", "pods": {"count": 1, "duration": "1m", "requests": {"cpu": 1}}}
    nonsense = {"manifest": {"apiVersion": "x/v1", "kind": "Nonsense", "metadata": {"name": "n"}}}
    result = run(tmp_path, workloads=[bad, good], objects=[nonsense])
    assert (result.pods.refused, result.pods.finished) == (1, 1)
    assert any("Nonsense n: objects of kind 'Nonsense'" in problem for problem in result.problems)
    assert any("default/bad-0" in problem for problem in result.problems)


def test_an_invalid_configuration_is_reported_with_its_scheduler(tmp_path: Path) -> None:
    manifest = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Nobody"}]}}}],
    }
    with pytest.raises(ConfigError, match=r"scheduler 'odd': profiles.*Nobody"):
        run(tmp_path, schedulers=[{"name": "odd", "profiles": {"manifest": manifest}}])


def test_a_pod_that_returns_to_its_hot_node_is_evicted_again(tmp_path: Path) -> None:
    amounts = {"cpu": 8, "memory": "16Gi"}
    nodes = [
        {"name": "busy", "allocatable": amounts, "systemUsage": {"cpu": "5"}},
        {"name": "idle", "count": 2, "allocatable": amounts},
    ]
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "api"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    workload = {**api(3), "usage": {"cpu": {"amount": "1"}}}
    workload["deployment"]["source"]["manifest"]["spec"]["template"]["spec"]["affinity"] = apart
    descheduler: Any = copy.deepcopy(LOW_NODE_LOAD)
    descheduler["profiles"][0]["pluginConfig"][0]["args"]["anomalyCondition"] = {
        "consecutiveAbnormalities": 1
    }
    result = run(
        tmp_path,
        duration="30m",
        nodes=nodes,
        workloads=[workload],
        schedulers=[{**ALONE, "descheduler": {"manifest": descheduler}}],
        sampling={"repeatedWithin": "10m"},
    )
    assert result.pods.evicted > 2
    assert result.pods.evicted_repeatedly == result.pods.evicted - 1
    assert {pod.node for pod in result.placements if pod.outcome == "evicted"} == {"busy"}


@pytest.mark.parametrize("proof", [False, True])
def test_with_proof_pods_that_would_return_to_their_hot_node_stay(tmp_path: Path, proof: bool) -> None:
    """kube-scheduler does not know how hot a node is: the emptiest one by requests is the hottest here."""
    amounts = {"cpu": 8, "memory": "16Gi"}
    nodes = [
        {"name": "busy", "allocatable": {"cpu": 32, "memory": "64Gi"}, "systemUsage": {"cpu": "25"}},
        {"name": "idle", "count": 2, "allocatable": amounts},
    ]
    workload = {**api(6), "usage": {"cpu": {"amount": "1"}}}
    descheduler: Any = copy.deepcopy(LOW_NODE_LOAD)
    [profile] = descheduler["profiles"]
    profile["pluginConfig"][0]["args"]["anomalyCondition"] = {"consecutiveAbnormalities": 1}
    if proof:
        profile["proof"] = {}
    result = run(
        tmp_path,
        duration="1h",
        nodes=nodes,
        workloads=[workload],
        schedulers=[{**ALONE, "descheduler": {"manifest": descheduler}}],
        sampling={"repeatedWithin": "10m"},
    )
    assert [problem for problem in result.problems if "0 ready nodes" not in problem] == []
    if proof:
        assert result.pods.evicted == 0
    else:
        assert result.pods.evicted_repeatedly > 10


def test_moved_pods_land_where_the_proof_said_and_stay_there(tmp_path: Path) -> None:
    """Both with the embedded scheduler alone, whose profiles the descheduler tries."""

    def landed(node: str) -> float:
        return REGISTRY.get_sample_value("koordpy_descheduler_landings_total", {"node": node}) or 0.0

    amounts = {"cpu": 8, "memory": "16Gi"}
    nodes = [
        {"name": "old", "count": 2, "allocatable": amounts},
        {"name": "new", "count": 3, "joins": "20m", "allocatable": amounts},
    ]
    descheduler: Any = copy.deepcopy(LOW_NODE_LOAD)
    [profile] = descheduler["profiles"]
    profile["proof"] = {"window": "1h"}
    # Of several pods in one round each may take the place of another, where nodes are equally good.
    descheduler["maxNoOfPodsToEvictTotal"] = 1
    labels = ("proved", "acceptable", "other")
    before = [landed(label) for label in labels]
    result = run(
        tmp_path,
        duration="2h",
        nodes=nodes,
        workloads=[{**api(10), "usage": {"cpu": {"amount": "1200m"}}}],
        schedulers=[{**ALONE, "descheduler": {"manifest": descheduler}}],
    )
    assert result.pods.evicted > 0
    assert result.pods.evicted_repeatedly == 0
    assert result.series.hot[-1] == 0
    since = [landed(label) - earlier for label, earlier in zip(labels, before, strict=True)]
    assert since == [result.pods.evicted, 0, 0]
