"""Whose the gangs of Kubernetes' own API are."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.api.scheme import decode
from koordpy.cluster import transformers
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.kubernetes_gangs import SCHEDULING_GROUP, WORKLOAD_REF
from koordpy.lib.feature_gates import FeatureGates

FIELDS: dict[str, dict[str, Any]] = {
    WORKLOAD_REF: {"workloadRef": {"name": "job", "podGroup": "pg"}},
    SCHEDULING_GROUP: {"schedulingGroup": {"podGroupName": "pg"}},
}


def cluster(*on: str) -> Cluster:
    made = Cluster()
    transformers.install(made, FeatureGates(transformers.SPECS, dict.fromkeys(on, True)))
    return made


def pod(name: str = "p", gate: str = WORKLOAD_REF, **labels: str) -> Pod:
    metadata = {"name": name, "namespace": "d", "uid": name, "labels": labels}
    return decode(Pod, {"metadata": metadata, "spec": FIELDS.get(gate, {})})


@pytest.mark.parametrize("gate", FIELDS)
def test_a_field_makes_a_gang_only_behind_its_gate(gate: str) -> None:
    assert gang_name(cluster().transformed(pod(gate=gate))) == ""
    assert gang_name(cluster(gate).transformed(pod(gate=gate)))
    (other,) = FIELDS.keys() - {gate}
    assert gang_name(cluster(other).transformed(pod(gate=gate))) == ""


def test_parts_of_one_process_decide_together() -> None:
    made = cluster(WORKLOAD_REF)
    first = made.kubernetes_gangs
    transformers.install(made, FeatureGates(transformers.SPECS))
    assert made.kubernetes_gangs is first
    assert gang_name(made.transformed(pod())) == "job:pg"


def test_known_pods_change_when_kube_scheduler_begins_or_ends_to_gate_gangs() -> None:
    made = cluster(WORKLOAD_REF)
    pods = made.store(Pod)
    label = "pod-group.scheduling.sigs.k8s.io"
    for each in (pod("member"), pod("labelled", **{label: "own"}), pod("plain", gate="", **{label: "own"})):
        pods.apply(each)
    changes: list[str] = []
    pods.subscribe(None, lambda _, new: changes.append(new.metadata.name))
    gangs = made.kubernetes_gangs
    assert gangs is not None
    before = {each.metadata.name: gang_name(each) for each in pods}
    assert before == {"member": "job:pg", "labelled": "own", "plain": "own"}

    gangs.leave_to_kube_scheduler(True, pods)
    assert {each.metadata.name: gang_name(each) for each in pods} == {**before, "member": "", "labelled": ""}
    assert changes == ["member", "labelled"]
    assert gang_name(made.transformed(pod("new"))) == ""

    gangs.leave_to_kube_scheduler(True, pods)
    assert len(changes) == 2
    gangs.leave_to_kube_scheduler(False, pods)
    assert {each.metadata.name: gang_name(each) for each in pods} == before
