"""When pods of gangs that were refused are retried beside kube-scheduler."""

from koordpy.api.core import Pod
from koordpy.api.koordinator import PodGroup
from koordpy_plugins.scheduling.coscheduling.waking import pod_group_helps, pod_helps

from .gang_world import GangWorld, member, pod_group


def test_refused_members_are_retried_once_their_group_is_complete() -> None:
    world = GangWorld()
    refused, other = member("a", minimum=None), member("x", "h", minimum=None)
    world.put(refused, other, pod_group(), pod_group("h", 5))
    assert world.plugin.may_pass([refused, other], {PodGroup: {"ns/g", "ns/h"}}) == [False, False]
    world.put(member("b", minimum=None))
    assert world.plugin.may_pass([refused, other], {Pod: {"ns/b"}}) == [True, False]


def test_members_of_other_gangs_of_the_group_are_retried_too() -> None:
    world = GangWorld()
    refused = member("a", "g", 1, group=["g", "h"])
    world.put(refused, member("b", "h", 1, group=["g", "h"]))
    assert world.plugin.may_pass([refused], {Pod: {"ns/b"}}) == [True]
    assert world.plugin.may_pass([refused], {Pod: {"ns/unknown"}}) == [False]


def test_a_process_that_begins_to_lead_retries_pods_whose_group_was_completed_before() -> None:
    world = GangWorld()
    told = "0/1 nodes are available: 1 gangGroup [ns/g] basic check: memberGangs [ns/g] child pod not collect"
    no_room = "0/1 nodes are available: 1 2 of 3 pods of ns/g fit; pod ns/c does not: 1 Insufficient cpu."
    pods = []
    for name, gang, message in (("a", "g", told), ("b", "g", no_room), ("x", "h", told)):
        condition = {"type": "PodScheduled", "status": "False", "message": message}
        pods.append(member(name, gang, status={"conditions": [condition]}))
        assert any(reason in message for reason in world.plugin.known_reasons)
    world.put(*pods)
    assert world.plugin.may_pass(pods, {}) == [True, False, False]


def test_a_change_helps_only_if_it_may_complete_or_satisfy_a_gang() -> None:
    pod = member("a")
    assert pod_helps(None, pod)
    assert pod_helps(pod, member("a", node="n1"))
    assert pod_helps(pod, member("a", minimum=1))
    assert not pod_helps(pod, member("a", status={"phase": "Running"}))
    assert not pod_helps(pod, member("a", notes={"koordpy.dev/woken-at": "now"}))
    assert not pod_helps(pod, None)
    assert not pod_helps(None, member("a", ""))
    group = pod_group()
    assert pod_group_helps(None, group)
    assert pod_group_helps(group, pod_group(minimum=3))
    assert not pod_group_helps(group, pod_group(status={"phase": "Pending"}))
    assert not pod_group_helps(group, None)
