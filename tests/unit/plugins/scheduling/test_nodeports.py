"""Ports of pods that are added and removed hypothetically."""

from typing import Any

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy_plugins.scheduling.stock.nodeports.plugin import NodePorts
from tests.unit.scheduling.worlds import framework, node, world


def pod(name: str, *ports: int, node_name: str = "", **annotations: str) -> Pod:
    container: dict[str, Any] = {"name": "c", "ports": [{"hostPort": port} for port in ports]}
    return decode(
        Pod,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
            "spec": {"nodeName": node_name, "containers": [container]},
        },
    )


def wanting_80(*pods: Pod) -> tuple[Framework, CycleState, NodeInfo]:
    """A pod that wants port 80 and two nodes, a with these pods."""
    fw = framework(world([node("a"), node("b")], pods), NodePorts)
    state = fw.new_state()
    fw.run_pre_filter(state, INCOMING, fw.handle.nodes.all())
    return fw, state, NodeInfo(fw.handle.nodes.all(), 0)


INCOMING = pod("p", 80)


def fits(fw: Framework, state: CycleState) -> list[bool]:
    answer: list[bool] = fw.run_filters(state, INCOMING, fw.handle.nodes.all()).feasible.tolist()
    return answer


def test_a_port_is_free_once_its_pod_is_removed_hypothetically() -> None:
    victim = pod("v", 80, 90, node_name="a")
    fw, state, a = wanting_80(victim)
    assert fits(fw, state) == [False, True]
    what_if = state.clone()
    fw.remove_pod(what_if, INCOMING, victim, a)
    assert fits(fw, what_if) == [True, True]
    fw.add_pod(what_if, INCOMING, victim, a)
    assert fits(fw, what_if) == [False, True]
    assert fits(fw, state) == [False, True]


def test_a_port_that_two_pods_have_is_free_when_one_of_them_goes() -> None:
    victim = pod("v", 80, node_name="a")
    fw, state, a = wanting_80(victim, pod("other", 80, node_name="a"))
    fw.remove_pod(state, INCOMING, victim, a)
    assert fits(fw, state) == [True, True]


def test_what_ifs_do_not_see_each_others_moves() -> None:
    victim = pod("v", 80, node_name="a")
    fw, state, a = wanting_80(victim, pod("other", 90, node_name="a"))
    fw.remove_pod(state, INCOMING, victim, a)
    copy = state.clone()
    fw.add_pod(copy, INCOMING, victim, a)
    assert fits(fw, state) == [True, True]
    assert fits(fw, copy) == [False, True]


def test_ports_of_a_reservation_stay_taken_when_pods_move() -> None:
    reserved = pod("r", 80, **{"scheduling.koordinator.sh/reserve-pod": "true"})
    victim = pod("v", 90, node_name="a")
    fw, state, a = wanting_80(victim)
    shown = fw.handle.nodes.all().with_pods({"a": [reserved]})
    fw.remove_pod(state, INCOMING, victim, a)
    assert fw.run_filters(state, INCOMING, shown).feasible.tolist() == [False, True]
