"""What the doctor finds wrong with gangs, one thing at a time."""

from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang.settings import GangDefaults
from koordpy.api.koordinator import PodGroup
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.api.scheme import decode
from koordpy.doctor import gangs as doctor
from koordpy.doctor.finding import Finding, State
from koordpy.scheduling.profiles import config
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.testing.objects import pod

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
OLD = "2026-03-01T11:00:00Z"
GATED = {"schedulingGates": [{"name": gate_of("Coscheduling")}]}


def gang_pod(name: str, gang: str = "g", least: int | None = 2, **notes: str) -> Pod:
    annotations = {"gang.scheduling.koordinator.sh/name": gang, **notes}
    if least is not None:
        annotations["gang.scheduling.koordinator.sh/min-available"] = str(least)
    return pod(name, annotations=annotations, spec=GATED)


def pod_group(name: str, least: int, created: str = OLD, **spec: Any) -> PodGroup:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": created}
    return decode(PodGroup, {"metadata": metadata, "spec": {"minMember": least, **spec}})


def of(*objects: Pod | PodGroup) -> dict[str, doctor.Gang]:
    return doctor.gangs_of(
        [each for each in objects if isinstance(each, Pod)],
        [each for each in objects if isinstance(each, PodGroup)],
        GangDefaults(),
    )


def scheduler(**more: Any) -> SchedulerConfiguration:
    bind = {"urlPrefix": "http://127.0.0.1:1/extender", "bindVerb": "bind", "httpTimeout": "600s"}
    return config.read(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}],
            "extenders": [bind],
            **more,
        }
    )


def only(found: list[Finding]) -> Finding:
    [finding] = found
    return finding


def test_a_gang_that_lacks_pods_for_long_is_reported() -> None:
    grouped = pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "g"}, spec=GATED)
    found = only(list(doctor._incomplete(of(grouped, pod_group("g", 3)), NOW)))
    assert (found.subject, found.state) == ("default/g", State.WARNING)
    assert "has 1 of at least 3 pods since 60 minutes" in found.message
    young = pod_group("g", 3, created="2026-03-01T11:59:00Z")
    assert list(doctor._incomplete(of(grouped, young), NOW)) == []
    assert list(doctor._incomplete(of(grouped, pod_group("g", 1)), NOW)) == []


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "gone"}), "its PodGroup does not exist"),
        (gang_pod("p", "gone", None), "no pod of it has a valid minimum"),
    ],
)
def test_a_gang_without_settings_is_reported(subject: Pod, message: str) -> None:
    found = only(list(doctor._incomplete(of(subject), NOW)))
    assert (found.subject, found.state) == ("default/gone", State.PROBLEM)
    assert found.message.startswith(message)


def test_groups_with_gangs_that_do_not_exist_are_reported() -> None:
    group = {"gang.scheduling.koordinator.sh/groups": '["default/g", "default/h"]'}
    first, second = gang_pod("a", "g", 1, **group), gang_pod("b", "h", 1, **group)
    found = only(list(doctor._groups(of(first))))
    assert (found.subject, found.state) == ("default/g", State.PROBLEM)
    assert "names default/h, which does not exist" in found.message
    assert list(doctor._groups(of(first, second))) == []
    found = only(list(doctor._groups(of(first, gang_pod("b", "h", 1)))))
    assert "name different groups" in found.message


def test_pods_of_incomplete_gangs_without_the_gate_are_reported() -> None:
    loose = gang_pod("a")
    bare = pod("a", annotations=loose.metadata.annotations)
    found = only(list(doctor._ungated(of(bare))))
    assert (found.subject, found.state) == ("default/a", State.WARNING)
    assert gate_of("Coscheduling") in found.message
    assert list(doctor._ungated(of(loose))) == []
    assert list(doctor._ungated(of(bare, gang_pod("b")))) == []


def test_gangs_that_wait_longer_than_kube_scheduler_are_reported() -> None:
    short, long = pod_group("a", 1), pod_group("b", 1, scheduleTimeoutSeconds=1800)
    found = only(list(doctor._waits(of(short, long), scheduler())))
    assert (found.subject, found.state) == ("default/b", State.PROBLEM)
    # No Permit plugin makes a pod wait for more than a quarter of an hour.
    assert found.fix.startswith("httpTimeout: 900s")
    assert list(doctor._waits(of(short), scheduler())) == []
