"""Best-effort pods in a simulation: suppressed by what others use, evicted where memory is short."""

from pathlib import Path
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.simulation import simulation
from koordpy.simulation.result import Colocation, Result

from .scenarios import ALONE, load

BEST_EFFORT: dict[str, Any] = {"metadata": {"labels": {"koordinator.sh/qosClass": "BE"}}}


def best_effort(cpu: str, memory: str, count: int = 2) -> dict[str, Any]:
    """A workload of best-effort pods that use a fixed amount for an hour."""
    container = {"name": "c", "image": "batch", "resources": {}}
    template = {**BEST_EFFORT, "spec": {"containers": [container]}}
    return {
        "name": "batch",
        "pods": {"count": count, "duration": "1h", "template": template},
        "usage": {"cpu": {"amount": cpu}, "memory": {"amount": memory}},
        "whenEvicted": "lost",
    }


def service(cpu: str) -> dict[str, Any]:
    """A workload of one latency-sensitive pod that uses a fixed amount for an hour."""
    return {
        "name": "web",
        "pods": {"count": 1, "duration": "1h", "requests": {"cpu": "3", "memory": "1Gi"}},
        "usage": {"cpu": {"amount": cpu}, "memory": {"amount": "1Gi"}},
    }


def slo(**threshold: Any) -> dict[str, Any]:
    """The policy of the only node."""
    spec = {"resourceUsedThresholdWithBE": {"enable": True, **threshold}}
    document = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "w"}}
    return {"manifest": {**document, "spec": spec}}


def run(folder: Path, *workloads: dict[str, Any], **setup: Any) -> Result:
    told = load(
        folder,
        nodes=[{"name": "w", "allocatable": {"cpu": 4, "memory": "8Gi"}}],
        workloads=list(workloads),
        duration="1h",
        sampling={"interval": "1m"},
        schedulers=[{**ALONE, **setup}],
    )
    return simulation.simulate(told, told.schedulers[0], folder)


def costs(result: Result) -> Colocation:
    assert result.problems == []
    assert result.colocation is not None
    return result.colocation


def test_best_effort_pods_use_what_the_threshold_leaves(tmp_path: Path) -> None:
    found = costs(
        run(tmp_path, service("1"), best_effort("2", "1Gi"), objects=[slo(cpuSuppressThresholdPercent=50)])
    )
    assert found.wanted_core_hours == pytest.approx(4.0, rel=0.05)
    assert found.used_core_hours == pytest.approx(1.0, rel=0.05)  # 50 % of 4 cores less the service's 1
    assert found.suppressed_core_hours == pytest.approx(3.0, rel=0.05)
    assert found.throttled_core_hours == 0


def test_without_a_policy_best_effort_pods_use_what_is_idle(tmp_path: Path) -> None:
    found = costs(run(tmp_path, service("1"), best_effort("2", "1Gi")))
    assert found.used_core_hours == pytest.approx(3.0, rel=0.05)


def test_the_gate_of_suppression_is_that_of_agents(tmp_path: Path) -> None:
    found = costs(
        run(
            tmp_path,
            service("1"),
            best_effort("2", "1Gi"),
            objects=[slo(cpuSuppressThresholdPercent=50)],
            agent={"featureGates": {"BECPUSuppress": False}},
        )
    )
    assert found.used_core_hours == pytest.approx(3.0, rel=0.05)


def test_best_effort_pods_keep_a_minimum(tmp_path: Path) -> None:
    policy = slo(cpuSuppressThresholdPercent=50, cpuSuppressMinPercent=25)
    found = costs(run(tmp_path, service("2"), best_effort("2", "1Gi"), objects=[policy]))
    assert found.used_core_hours == pytest.approx(1.0, rel=0.05)


def test_other_pods_lack_what_their_node_does_not_have(tmp_path: Path) -> None:
    found = costs(run(tmp_path, service("6"), best_effort("2", "1Gi")))
    assert found.throttled_core_hours == pytest.approx(2.0, rel=0.05)
    assert found.used_core_hours == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize(("evicts", "evicted"), [(True, 2), (False, 0)])
def test_agents_evict_best_effort_pods_when_memory_is_short(
    tmp_path: Path, evicts: bool, evicted: int
) -> None:
    result = run(
        tmp_path,
        service("1"),
        best_effort("500m", "2Gi", count=3),
        objects=[slo(memoryEvictThresholdPercent=60, memoryEvictLowerPercent=50)],
        agent={"featureGates": {"BEMemoryEvict": evicts}},
    )
    assert costs(result).evicted == evicted  # 7 of 8 GiB are used, at most 4 may be
    assert result.pods.evicted == evicted
    assert (result.colocation is not None and result.colocation.evicted_core_hours > 0) == bool(evicted)


def test_gates_that_are_not_simulated_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got 'CPUBurst', expected one of BECPUSuppress, BEMemoryEvict"):
        run(tmp_path, service("1"), agent={"featureGates": {"CPUBurst": True}})


BATCH = {"kubernetes.io/batch-cpu": 2000, "kubernetes.io/batch-memory": "2Gi"}
CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
    "data": {"colocation-config": '{"enable": true}'},
}


def given(folder: Path, **changes: Any) -> Result:
    """A node that the scenario gives batch resources."""
    told = load(
        folder,
        nodes=[{"name": "w", "allocatable": {"cpu": 4, "memory": "8Gi", **BATCH}}],
        workloads=[service("1")],
        duration="10m",
        sampling={"interval": "1m"},
        **changes,
    )
    return simulation.simulate(told, told.schedulers[0], folder)


def test_by_default_nodes_keep_the_batch_resources_of_the_scenario_and_the_report_says_so(
    tmp_path: Path,
) -> None:
    found = given(tmp_path, schedulers=[{"name": "koordpy"}])
    assert found.series.batch_cores[-1] == 2.0
    [note] = found.notes
    assert note.startswith("nodes keep the kubernetes.io/batch-cpu, kubernetes.io/batch-memory that the ")


@pytest.mark.parametrize("place", ["scenario", "setup"])
def test_with_a_configuration_batch_resources_are_computed(tmp_path: Path, place: str) -> None:
    objects = {"objects": [{"manifest": CONFIG}]}
    changes = objects if place == "scenario" else {}
    setup = {"name": "koordpy", **(objects if place == "setup" else {})}
    found = given(tmp_path, schedulers=[setup], **changes)
    assert found.notes == []
    assert found.series.batch_cores[-1] == pytest.approx(4 * 0.6 - 1, abs=0.1)


def test_all_controllers_that_a_setup_selects_run_and_the_report_says_what_they_remove(
    tmp_path: Path,
) -> None:
    found = given(tmp_path, schedulers=[{"name": "koordpy", "controllers": ["*"]}])
    assert found.series.batch_cores[-1] == 0.0
    [note] = found.notes
    assert note.startswith("the noderesource controller removes kubernetes.io/batch-cpu, ")
    assert given(tmp_path, schedulers=[{**ALONE, "controllers": ["*", "-noderesource"]}]).notes == []
