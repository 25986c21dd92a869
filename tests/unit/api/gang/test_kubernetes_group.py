"""Gangs that are written as groups of Kubernetes' own API."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang import kubernetes_group as groups
from koordpy.api.gang.membership import gang_id, gang_name
from koordpy.api.gang.settings import NON_STRICT, STRICT, WAITING_AND_RUNNING, GangSource
from koordpy.api.pod_groups import KubernetesPodGroup, KubernetesPodGroupV1Alpha2, Workload
from koordpy.api.scheme import decode, resource_of

REFERENCE = {"workloadRef": {"name": "training", "podGroup": "workers"}}
GROUP = {"schedulingGroup": {"podGroupName": "training-workers"}}


def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> Pod:
    document = {"metadata": {"name": "p", "namespace": "ml", **metadata}, "spec": spec or {}}
    return decode(Pod, document)


def workload(policy: dict[str, Any], **annotations: str) -> Workload:
    notes = {f"gang.scheduling.koordinator.sh/{name}": value for name, value in annotations.items()}
    metadata = {"name": "training", "namespace": "ml", "annotations": notes}
    spec = {"podGroups": [{"name": "driver", "policy": {"basic": {}}}, {"name": "workers", "policy": policy}]}
    return decode(Workload, {"metadata": metadata, "spec": spec})


def test_every_replica_of_a_group_is_a_gang_of_its_own() -> None:
    assert groups.group_name(pod(REFERENCE)) == "training:workers"
    keyed = {"workloadRef": {"name": "training", "podGroup": "workers", "podGroupReplicaKey": "1"}}
    assert groups.group_name(pod(keyed)) == "training:workers:1"
    assert groups.group_name(pod(GROUP)) == "PodGroup:training-workers"
    assert groups.group_name(pod()) == groups.group_name(pod({"schedulingGroup": {}})) == ""


def test_only_the_chosen_fields_are_read() -> None:
    assert groups.group_name(pod(REFERENCE), workload_ref=False) == ""
    assert groups.group_name(pod(GROUP), scheduling_group=False) == ""


def test_a_member_names_its_gang_as_every_other_pod_does() -> None:
    member = groups.as_member(pod(REFERENCE), "training:workers", left_to_kube_scheduler=False)
    assert gang_id(member) == "ml/training:workers"
    assert groups.as_member(member, "training:workers", left_to_kube_scheduler=False) is member


def test_labels_of_the_pod_come_first() -> None:
    own = pod(REFERENCE, labels={"pod-group.scheduling.sigs.k8s.io": "mine"})
    assert groups.as_member(own, "training:workers", left_to_kube_scheduler=False) is own


@pytest.mark.parametrize("labels", [{}, {"pod-group.scheduling.sigs.k8s.io": "mine"}])
def test_a_pod_that_is_left_to_kube_scheduler_has_no_gang_until_it_is_not_left(
    labels: dict[str, str],
) -> None:
    before = groups.as_member(pod(REFERENCE, labels=labels), "training:workers", left_to_kube_scheduler=False)
    left = groups.as_member(before, "training:workers", left_to_kube_scheduler=True)
    assert gang_name(before) == labels.get("pod-group.scheduling.sigs.k8s.io", "training:workers")
    assert gang_name(left) == ""
    assert groups.as_member(left, "training:workers", left_to_kube_scheduler=False) == before


def test_a_gang_counts_members_that_wait_or_run_as_kube_scheduler_does() -> None:
    told = groups.settings_of_group(pod(REFERENCE), workload({"gang": {"minCount": 4}}), "ml/g")
    assert told is not None
    assert (told.min_member, told.total, told.wait_seconds) == (4, 4, 300.0)
    assert (told.mode, told.match_policy, told.group) == (STRICT, WAITING_AND_RUNNING, ("ml/g",))
    assert told.source is GangSource.KUBERNETES


def test_annotations_of_the_workload_say_the_rest() -> None:
    noted = workload({"gang": {"minCount": 2}}, mode="NonStrict", groups='["ml/g", "ml/a"]')
    told = groups.settings_of_group(pod(REFERENCE), noted, "ml/g")
    assert told is not None
    assert told.mode == NON_STRICT
    assert told.group == ("ml/a", "ml/g")


def test_no_pod_of_a_basic_group_waits_for_another() -> None:
    noted = workload({"basic": {}}, groups='["ml/g", "ml/a"]')
    told = groups.settings_of_group(pod(REFERENCE), noted, "ml/g")
    assert told is not None
    assert (told.min_member, told.total, told.mode, told.group) == (1, 1, NON_STRICT, ("ml/g",))


def test_a_group_that_the_workload_does_not_have_says_nothing() -> None:
    other = pod({"workloadRef": {"name": "training", "podGroup": "readers"}})
    assert groups.settings_of_group(other, workload({"basic": {}}), "ml/g") is None


@pytest.mark.parametrize(
    ("type_", "version"), [(KubernetesPodGroupV1Alpha2, "v1alpha2"), (KubernetesPodGroup, "v1beta1")]
)
def test_pod_groups_of_later_releases_are_read_in_both_versions(
    type_: type[KubernetesPodGroup], version: str
) -> None:
    assert resource_of(type_).api_version == f"scheduling.k8s.io/{version}"
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
    }
    group = decode(type_, {"metadata": {"name": "training-workers"}, "spec": spec})
    told = groups.settings_of_group(pod(GROUP), group, "ml/PodGroup:training-workers")
    assert told is not None
    assert told.min_member == 3
