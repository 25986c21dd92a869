"""Why a pod waits that kube-scheduler never sent: each cause is found in a matching cluster."""

from collections.abc import Sequence
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.api.scheme import decode
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.explain.cause import Cause, Certainty
from koordpy.scheduling.explain.causes import Causes
from koordpy.scheduling.explain.history import Step, What
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.interface import Plugin, PreEnqueue
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.scheduling.profiles.config import read as read_configuration
from koordpy.scheduling.profiles.registry import installed

from ..worlds import filter_body, node, pod_document, world

CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "koord-scheduler"}],
}
OURS = {"schedulerName": "koord-scheduler"}
OLD = "2026-03-01T11:00:00Z"


def configuration(*plugins: str) -> SchedulerConfiguration:
    enabled = {"multiPoint": {"enabled": [{"name": name} for name in plugins]}}
    return read_configuration(
        {**CONFIGURATION, "profiles": [{"schedulerName": "koord-scheduler", "plugins": enabled}]}
    )


def made(*nodes: Node, plugins: Sequence[type[Plugin]] = ()) -> Extender:
    cluster = world(nodes or [node("a"), node("b")])
    classes = {**installed(), **{each.name: each for each in plugins}}
    it = create(configuration(*(each.name for each in plugins)), cluster, None, classes=classes)
    for store in cluster.stores:
        store.synced = True
    return it


def waiting(name: str = "p", created: str = OLD, **spec: Any) -> Pod:
    document = pod_document(name, **{**OURS, **spec})
    document["metadata"]["creationTimestamp"] = created
    return decode(Pod, document)


def told(reason: str, message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"status": {"conditions": [condition]}}


def causes(it: Extender, subject: Pod) -> list[Cause]:
    it.handle.cluster.store(Pod).apply(subject)
    lives = it.histories.lives(subject.metadata.namespace, subject.metadata.name)
    return Causes(it.profiles, it.histories).of(subject, lives[0] if lives else None)


def names(found: list[Cause]) -> list[tuple[str, str]]:
    return [(cause.cause, cause.certainty.value) for cause in found]


def ask(it: Extender, name: str = "other") -> None:
    it.filter(filter_body(pod_document(name, **OURS), ["a"]))


def test_another_scheduler_is_named_with_our_profiles() -> None:
    [cause] = causes(made(), waiting(schedulerName="volcano"))
    assert (cause.cause, cause.certainty) == ("OtherScheduler", Certainty.CERTAIN)
    assert "'volcano'" in cause.message
    assert "koord-scheduler" in cause.message


def test_what_failed_the_bind_call_is_explained() -> None:
    it = made()
    ask(it, "p")
    subject = waiting()
    it.handle.cluster.store(Pod).apply(subject)
    [life] = it.histories.lives("default", "p")
    assert names(causes(it, subject)) == [("WaitsForRetry", "certain")]
    life.add(Step(it.handle.clock.now(), What.FAILED, "a", 'failed to lock node: node "a" has been locked'))
    assert names(causes(it, subject))[0] == ("DevicePluginNotTold", "certain")
    ask(it, "p")
    assert names(causes(it, subject)) == [("WaitsForRetry", "certain")]


def test_gates_are_named() -> None:
    [cause] = causes(made(), waiting(schedulingGates=[{"name": "a.io/x"}, {"name": "b.io/y"}]))
    assert cause.cause == "Gated"
    assert "a.io/x, b.io/y" in cause.message


class Hesitant(Plugin, PreEnqueue):
    """Keeps pods out of the queue."""

    name = "Hesitant"

    def pre_enqueue(self, pod: Pod) -> Status:
        return Status.unschedulable("not yet")


def test_the_gates_of_plugins_are_explained_one_by_one() -> None:
    gates = [{"name": gate_of("Hesitant")}, {"name": "a.io/x"}, {"name": gate_of("Gone")}]
    found = causes(made(plugins=[Hesitant]), waiting(schedulingGates=gates))
    assert [cause.cause for cause in found] == ["PreEnqueue", "GateWithoutPlugin", "Gated"]
    assert "PreEnqueue plugin Hesitant keeps the pod out of the queue: not yet" in found[0].message
    assert gate_of("Gone") in found[1].message
    assert found[2].message.startswith("spec.schedulingGates: a.io/x:")


def test_a_pod_that_is_being_deleted_is_reported_with_its_finalizers() -> None:
    document = pod_document("p", **OURS)
    document["metadata"] |= {"deletionTimestamp": OLD, "finalizers": ["keep.io/me"]}
    [cause] = causes(made(), decode(Pod, document))
    assert cause.cause == "BeingDeleted"
    assert "keep.io/me" in cause.message


def test_a_pod_bound_by_another_scheduler_is_reported() -> None:
    it = made()
    ask(it)
    it.handle.cluster.store(Pod).apply(waiting())
    [cause] = causes(it, waiting(nodeName="b"))
    assert cause.cause == "AlreadyBound"
    assert "node b" in cause.message


def test_an_unconfigured_extender_is_reported_if_no_pod_of_the_scheduler_is_sent() -> None:
    it = made()
    it.handle.cluster.store(Pod).apply(waiting())
    assert names(causes(it, waiting(nodeName="b"))) == [
        ("AlreadyBound", "certain"),
        ("ExtenderNotConfigured", "likely"),
    ]


def test_a_bound_pod_that_was_filtered_needs_no_cause() -> None:
    it = made()
    it.handle.cluster.store(Pod).apply(waiting())
    ask(it, "p")
    assert causes(it, waiting(nodeName="a")) == []


def test_a_pod_with_a_bind_call_but_no_filter_call_is_not_foreign() -> None:
    it = made()
    it.handle.cluster.store(Pod).apply(waiting())
    it.histories.binding("uid-p", "a")
    assert causes(it, waiting(nodeName="a")) == []


def test_unhealthy_devices_are_named_where_nodes_offer_too_few() -> None:
    it = made()
    document = {
        "metadata": {"name": "a"},
        "spec": {"devices": [{"type": "gpu", "minor": 0, "health": False}]},
    }
    it.handle.cluster.store(Device).apply(decode(Device, document))
    few = told("Unschedulable", "0/2 nodes are available: 2 Insufficient koordinator.sh/gpu-core.")
    expected = [("RefusedInTree", "certain"), ("DevicesUnhealthy", "possible")]
    assert names(causes(it, waiting(**few))) == expected
    other = told("Unschedulable", "0/2 nodes are available: 2 Insufficient koordinator.sh/rdma.")
    assert names(causes(it, waiting(**other))) == expected[:1]


def test_kube_schedulers_own_message_is_the_best_evidence() -> None:
    told_so = told("Unschedulable", "0/2 nodes are available: 2 node(s) had untolerated taint {x: y}.")
    [cause] = causes(made(), waiting(**told_so))
    assert (cause.cause, cause.certainty) == ("RefusedInTree", Certainty.CERTAIN)
    assert "untolerated taint {x: y}" in cause.message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            'Post "http://127.0.0.1:9877/extender/filter": dial tcp 127.0.0.1:9877: connection refused',
            "ExtenderUnreachable",
        ),
        ("running PreFilter plugin VolumeBinding: no such storage class", "SchedulerError"),
    ],
)
def test_a_failed_attempt_is_attributed_to_the_extender_or_not(message: str, expected: str) -> None:
    [cause] = causes(made(), waiting(**told("SchedulerError", message)))
    assert (cause.cause, cause.certainty) == (expected, Certainty.CERTAIN)
    assert message in cause.message


def test_in_tree_rejections_are_found_without_kube_schedulers_message() -> None:
    tainted = node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    it = made(tainted, node("b", cpu="1"))
    ask(it)
    [cause] = causes(it, waiting(cpu="4"))
    assert (cause.cause, cause.certainty) == ("RefusedInTree", Certainty.LIKELY)
    assert "1 Insufficient cpu" in cause.message
    assert "1 node(s) had untolerated taint" in cause.message


def test_a_cluster_without_nodes_rejects_every_pod_in_tree() -> None:
    it = made()
    for name in ("a", "b"):
        it.handle.cluster.store(Node).discard(name)
    it.histories.broke(waiting("other"), "x")
    assert names(causes(it, waiting())) == [("RefusedInTree", "likely")]


def test_pods_bound_without_any_call_mean_that_the_extender_is_not_configured() -> None:
    it = made()
    pods = it.handle.cluster.store(Pod)
    pods.apply(waiting("other"))
    pods.apply(waiting("other", nodeName="a"))
    found = causes(it, waiting())
    assert names(found) == [("ExtenderNotConfigured", "likely")]
    assert "1 pod with schedulerName koord-scheduler" in found[0].message


def test_pods_of_another_scheduler_are_no_evidence() -> None:
    it = made()
    pods = it.handle.cluster.store(Pod)
    pods.apply(waiting("other", schedulerName="volcano"))
    pods.apply(waiting("other", schedulerName="volcano", nodeName="a"))
    assert names(causes(it, waiting())) == [("SchedulerNotRunning", "likely")]


def test_no_calls_for_any_pod_mean_that_no_scheduler_runs() -> None:
    found = causes(made(), waiting())
    assert names(found) == [("SchedulerNotRunning", "likely")]
    assert "a profile koord-scheduler" in found[0].fix


def test_if_other_pods_are_sent_managed_resources_are_the_cause() -> None:
    it = made()
    ask(it)
    [cause] = causes(it, waiting())
    assert (cause.cause, cause.certainty) == ("NotManaged", Certainty.POSSIBLE)
    assert "cpu, memory" in cause.message


def test_volumes_cannot_be_tried_and_are_named() -> None:
    it = made()
    ask(it)
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data-0"}}]
    found = causes(it, waiting(volumes=volumes))
    assert names(found) == [("NotManaged", "possible"), ("RefusedInTree", "possible")]
    assert "data-0" in found[1].message


def test_a_young_pod_may_just_not_have_had_its_turn() -> None:
    it = made()
    ask(it)
    assert isinstance(it.clock, FakeClock)
    subject = waiting(created="2026-03-01T12:00:00Z")
    assert names(causes(it, subject)) == [("JustCreated", "likely")]
    it.clock.advance(60)
    assert names(causes(it, subject)) == [("NotManaged", "possible")]


def test_a_filtered_pod_waits_for_its_next_turn() -> None:
    it = made()
    it.handle.cluster.store(Pod).apply(waiting())
    ask(it, "p")
    [cause] = causes(it, waiting())
    assert (cause.cause, cause.certainty) == ("WaitsForRetry", Certainty.CERTAIN)
    assert "the pod 1 time, last at 2026-03-01T12:00:00Z" in cause.message


def test_nothing_is_tried_before_the_cluster_is_listed() -> None:
    it = made(node("a", cpu="1"))
    it.handle.cluster.store(Node).synced = False
    assert names(causes(it, waiting(cpu="4"))) == [("SchedulerNotRunning", "likely")]
