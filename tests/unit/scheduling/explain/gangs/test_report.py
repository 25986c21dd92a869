"""Gang reports: the state of each member, what the gang waits for, and the causes that follow from it."""

from collections.abc import Mapping
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang.kubernetes_group import as_member
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.explain.gangs.causes import gang_causes, unknown_gang
from koordpy.scheduling.explain.gangs.report import GangReport, GangReporter, PlannedNode
from koordpy.scheduling.explain.history import Histories
from koordpy.scheduling.explain.plugin_services import PluginServices
from koordpy.scheduling.interface import APIService, Plugin
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.waiting_pods import WaitingPods
from koordpy.testing.objects import node, pod

from ..services import profiles_with

GANG = {"gang.scheduling.koordinator.sh/name": "g"}
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def summary(*members: str, least: int = 2, **more: Any) -> dict[str, Any]:
    """Return a gang as Koordinator's REST API has it."""
    return {
        "name": "default/g",
        "waitTime": 600_000_000_000,
        "createTime": "2026-03-01T11:00:00Z",
        "mode": "Strict",
        "gangMatchPolicy": "once-satisfied",
        "minRequiredNumber": least,
        "totalChildrenNum": least,
        "gangGroup": ["default/g"],
        "children": {f"default/{member}": {} for member in members},
        "pendingChildren": {},
        "waitingForBindChildren": {},
        "boundChildren": {},
        "onceResourceSatisfied": False,
        "gangGroupInfo": {"GangGroupId": "default/g", "RepresentativePodKey": "default/a"},
        "gangFrom": "GangFromPodAnnotation",
        "hasGangInit": True,
        **more,
    }


class Reports:
    """A reporter of one profile with a plugin that serves these gangs."""

    def __init__(self, cluster: Cluster, gangs: Mapping[str, Any]) -> None:
        class Coscheduling(Plugin, APIService):
            name = "Coscheduling"

            def endpoints(self) -> Any:
                return {"gang/{namespace}/{name}": one, "gangs": lambda: dict(gangs)}

        def one(namespace: str, name: str) -> Any:
            if f"{namespace}/{name}" not in gangs:
                raise LookupError(f"cannot find gang {namespace}/{name}")
            return gangs[f"{namespace}/{name}"]

        handle = Handle(cluster)
        self.waiting_pods = WaitingPods()
        self.planned: dict[str, PlannedNode] = {}
        self.reporter = GangReporter(
            PluginServices(profiles_with(Coscheduling, cluster)),
            cluster,
            Histories(handle),
            self.waiting_pods,
            lambda: self.planned,
        )


def cluster(*pods: Pod) -> Cluster:
    from koordpy.testing.cluster import cluster as made

    return made(node("n"), *pods)


def member(name: str, **more: Any) -> Pod:
    return pod(name, annotations=GANG, **more)


def report(*pods: Pod, **gang: Any) -> GangReport:
    names = [each.metadata.name for each in pods]
    return Reports(cluster(*pods), {"default/g": summary(*names, **gang)}).reporter.gang("default", "g")


def states(found: GangReport) -> dict[str, str]:
    return {each.pod: each.state for each in found.members}


def test_a_gang_with_too_few_pods_is_incomplete() -> None:
    first = member("a")
    found = report(first, least=3)
    assert found.state == "incomplete"
    [cause] = gang_causes(first, found)
    assert cause.cause == "GangIncomplete"
    assert "has 1 of at least 3 pods" in cause.message
    assert "until 2 more pods exist" in cause.message


def test_bound_members_are_listed_with_their_nodes_and_nothing_is_waited_for() -> None:
    found = report(member("a", on="n"), member("b", on="n"), onceResourceSatisfied=True)
    assert found.state == "scheduled"
    assert [(each.state, each.node) for each in found.members] == [("bound", "n")] * 2
    assert list(gang_causes(member("c"), found)) == []
    assert found.size.needed == 0


async def test_members_in_permit_and_planned_ones_are_told_from_pending_ones() -> None:
    pods = [member("a"), member("b"), member("c")]
    reports = Reports(cluster(*pods), {"default/g": summary("a", "b", "c", least=3)})
    waiting = reports.waiting_pods.add(pods[0], "n", {"Coscheduling": 600.0})
    reports.planned["uid-of-nobody"] = PlannedNode("x", 1)
    reports.planned[pods[1].metadata.uid] = PlannedNode("n", 12.04)
    found = reports.reporter.gang("default", "g")
    assert states(found) == {"default/a": "waiting", "default/b": "planned", "default/c": "pending"}
    assert found.members[0].node == "n"
    assert 0 < (found.members[0].seconds_left or 0) <= 600
    assert found.members[1].seconds_left == 12.0
    assert found.size.needed == 2
    [cause] = gang_causes(pods[0], found)
    assert cause.cause == "GangWaits"
    assert "the pod waits in Permit until 2 more pods of gang default/g have nodes" in cause.message
    assert "without default/b (planned), default/c (pending)" in cause.message
    assert "all are released" in cause.fix
    waiting.reject("", "end of the test")


def test_the_member_that_failed_is_named_to_the_others() -> None:
    why = "0/1 nodes are available: 1 Insufficient cpu."
    told = (
        'GangGroup "default/g" gets rejected due to member Pod "default/b" is unschedulable with reason '
        f'"{why}", alreadyWaitForBound: 0'
    )
    first = member("a", status={"conditions": [{**CONDITION, "message": told}]})
    second = member("b", status={"conditions": [{**CONDITION, "message": why}]})
    found = report(first, second)
    assert (found.failed_member, found.failure) == ("default/b", why)
    [cause] = gang_causes(first, found)
    assert cause.cause == "GangMemberFailed"
    assert f"its pod default/b has no node: {why}" in cause.message
    assert cause.fix == "koordpy why default/b"
    [own] = gang_causes(second, found)
    assert "this pod has no node" in own.message


def test_the_member_for_which_a_plan_had_no_room_is_named() -> None:
    told = (
        "1 of 2 pods of default/g fit; pod default/b does not: 0/1 nodes are available: 1 Insufficient cpu."
    )
    first = member("a", status={"conditions": [{**CONDITION, "message": told}]})
    found = report(first, member("b"))
    assert (found.failed_member, found.failure) == ("default/b", told)


def test_a_gang_group_names_the_gangs_that_are_not_complete() -> None:
    group = ["default/g", "default/h", "default/i"]
    gangs = {
        "default/g": summary("a", "b", gangGroup=group),
        "default/h": summary("x", name="default/h", gangGroup=group),
    }
    pods = (member("a"), member("b"), pod("x"))
    found = Reports(cluster(*pods), gangs).reporter.gang("default", "g")
    assert found.state == "blocked"
    [cause] = gang_causes(pods[0], found)
    assert cause.cause == "GangGroupIncomplete"
    assert "default/h has 1 of 2 pods; default/i does not exist" in cause.message


def test_gates_of_members_are_listed() -> None:
    gated = member("a", spec={"schedulingGates": [{"name": "koordpy.dev/x"}]})
    found = report(gated, least=1)
    assert (found.members[0].state, found.members[0].gates) == ("gated", ["koordpy.dev/x"])


@pytest.mark.parametrize(
    ("subject", "cause"),
    [
        (pod("p", labels={"pod-group.scheduling.sigs.k8s.io": "gone"}), "PodGroupMissing"),
        (pod("p", annotations=GANG), "GangWithoutMinimum"),
    ],
)
def test_a_pod_of_an_unknown_gang_is_told_what_is_missing(subject: Pod, cause: str) -> None:
    reports = Reports(cluster(subject), {})
    with pytest.raises(LookupError):
        reports.reporter.of_pod(subject)
    assert [found.cause for found in unknown_gang(subject)] == [cause]


def test_a_pod_that_names_no_gang_is_found_by_the_gang_that_lists_it() -> None:
    subject = pod("a")
    reports = Reports(cluster(subject), {"default/g": summary("a", least=1)})
    assert reports.reporter.of_pod(subject).gang == "default/g"
    with pytest.raises(LookupError, match="is in no gang"):
        reports.reporter.of_pod(pod("other"))


def test_gangs_are_listed_by_namespace() -> None:
    gangs = {"default/g": summary("a"), "other/g": summary(name="other/g")}
    reporter = Reports(cluster(), gangs).reporter
    assert [found.gang for found in reporter.all()] == ["default/g", "other/g"]
    assert [found.gang for found in reporter.all("other")] == ["other/g"]


def test_without_the_plugin_there_are_no_gangs() -> None:
    made = cluster()
    services = PluginServices(profiles_with(None, made))
    reporter = GangReporter(services, made, Histories(Handle(made)), WaitingPods())
    assert not reporter.is_enabled
    with pytest.raises(LookupError, match="Coscheduling is not enabled"):
        reporter.all()


@pytest.mark.parametrize(
    ("left", "cause"), [(True, "GangOfKubeScheduler"), (False, "KubernetesGroupMissing")]
)
def test_a_pod_of_a_group_of_kubernetes_is_told_who_makes_it_wait(left: bool, cause: str) -> None:
    plain = pod("p", spec={"workloadRef": {"name": "job", "podGroup": "workers"}})
    [found] = unknown_gang(as_member(plain, "job:workers", left_to_kube_scheduler=left))
    assert found.cause == cause
    assert "job:workers" in found.message
