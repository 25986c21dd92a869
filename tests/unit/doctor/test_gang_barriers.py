"""One scheduler alone makes the pods of a gang wait."""

from typing import Any

import pytest

from koordpy.cluster.kube_scheduler_gates import GangGates
from koordpy.cluster.kubernetes_gangs import SCHEDULING_GROUP, WORKLOAD_REF
from koordpy.doctor import gang_barriers
from koordpy.doctor.finding import Finding, State
from koordpy.scheduling.profiles import config
from koordpy.settings import KubeSchedulerGangScheduling

GATES = GangGates("kube-system/kube-scheduler-a", gates_gangs=True)
PLAIN = GangGates("kube-system/kube-scheduler-b", gates_gangs=False)


def judged(
    *schedulers: GangGates, setting: KubeSchedulerGangScheduling = "auto", enabled: tuple[str, ...] = ()
) -> list[Finding]:
    return list(gang_barriers.barriers(schedulers, setting, enabled))


def test_gangs_of_kube_scheduler_are_left_to_it() -> None:
    [found] = judged(PLAIN, GATES, enabled=(WORKLOAD_REF,))
    assert (found.state, found.subject) == (State.NOTE, GATES.pod)
    assert "koordpy leaves pods with spec.workloadRef" in found.message
    assert "WorkloadRef have no effect" in found.fix


def test_a_setting_that_the_pods_contradict_is_told() -> None:
    [twice] = judged(GATES, setting="disabled", enabled=(SCHEDULING_GROUP,))
    assert twice.state is State.PROBLEM
    assert "spec.schedulingGroup" in twice.message
    [never] = judged(PLAIN, setting="enabled")
    assert never.state is State.WARNING
    assert "nothing makes pods" in never.message


def test_a_kube_scheduler_out_of_sight_matters_where_koordpy_gates_gangs_of_kubernetes() -> None:
    [found] = judged(enabled=(WORKLOAD_REF,))
    assert found.state is State.UNKNOWN
    assert "extender.kubeSchedulerGangScheduling" in found.fix
    assert list(gang_barriers.barriers(None, "auto", [WORKLOAD_REF])) == [found]
    assert not judged()
    assert not judged(setting="disabled", enabled=(WORKLOAD_REF,))


def test_a_kube_scheduler_that_leaves_gangs_alone_is_no_finding() -> None:
    assert not judged(PLAIN, enabled=(WORKLOAD_REF,))


@pytest.mark.parametrize("point", ["permit", "multiPoint", "queueSort"])
def test_the_plugin_of_scheduler_plugins_beside_koordpys_is_a_problem(point: str) -> None:
    plugins = {point: {"enabled": [{"name": "Coscheduling"}]}}
    found = list(gang_barriers.other_plugins(scheduler("a", plugins=plugins), ["a"]))
    assert [each.state for each in found] == [State.PROBLEM]
    assert "scheduler-plugins" in found[0].message
    assert not list(gang_barriers.other_plugins(scheduler("a", plugins=plugins), ["b"]))
    assert not list(gang_barriers.other_plugins(scheduler("a"), ["a"]))


def scheduler(name: str, **more: Any) -> config.SchedulerConfiguration:
    return config.read(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": name, **more}],
        }
    )
