"""kube-scheduler's victims, checked against everything that kube-scheduler does not see."""

from collections.abc import Mapping

import pytest

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Filter, Plugin, PreFilter, Victims
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.preemption.recheck import Recheck
from tests.unit.scheduling.worlds import framework, node, pod, world


class Withholds(Plugin, Filter):
    """Withholds CPUs that kube-scheduler does not know of: as many as the node's label says."""

    name = "Withholds"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        held = int(node.node.metadata.labels.get("held", "0")) * 1000
        wanted = int(pod.spec.containers[0].resources.requests["cpu"]) * 1000
        fits = wanted <= node.allocatable("cpu") - node.requested("cpu") - held
        return SUCCESS if fits else Status.unschedulable("held back")


class Entangled(Plugin, PreFilter, Filter):
    """Tracks removed and added pods of all nodes; raises on a node labelled broken."""

    name = "Entangled"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[None, Status]:
        return None, SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        return Status.failed("broken") if "broken" in node.node.metadata.labels else SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS


def cluster(**held: str) -> Cluster:
    """Nodes of 4 CPU with that much held back, each with four pods of 1 CPU of priorities 1 to 4."""
    return world(
        [node(name, cpu="4", labels={"held": amount}) for name, amount in held.items()],
        [
            pod(f"{name}-{priority}", cpu="1", node_name=name, priority=priority)
            for name in held
            for priority in (1, 2, 3, 4)
        ],
    )


def proposed(made: Cluster, **names: list[str]) -> dict[str, Victims]:
    by_name = {each.metadata.name: each for each in made.store(Pod)}
    return {node: Victims([by_name[name] for name in victims], 7) for node, victims in names.items()}


def looked_at(
    made: Cluster, proposal: Mapping[str, Victims], *more: type[Plugin], priority: int = 4
) -> dict[str, tuple[list[str], int]]:
    fw = framework(made, *more, Withholds)
    agreed = Recheck(fw.handle).check(fw, pod("p", cpu="1", priority=priority), proposal)
    return {
        name: ([victim.metadata.name for victim in victims.pods], victims.pdb_violations)
        for name, victims in agreed.items()
    }


@pytest.mark.parametrize("more", [(), (Entangled,)], ids=["at once", "one by one"])
def test_a_sufficient_proposal_stays_unchanged(more: tuple[type[Plugin], ...]) -> None:
    made = cluster(a="0", b="1", c="3")
    proposal = proposed(made, c=["c-2"], b=["b-1"], a=["a-2"])
    assert looked_at(made, proposal, *more) == {
        "b": (["b-2", "b-1"], 0),
        "a": (["a-2"], 7),
    }


def test_more_pods_are_evicted_only_if_they_are_less_important() -> None:
    made = cluster(b="1")
    assert looked_at(made, proposed(made, b=["b-1"]), priority=2) == {}


def test_pods_that_are_not_bound_yet_are_not_evicted_in_addition() -> None:
    made = cluster(b="1")
    assert looked_at(made, proposed(made, b=["b-1"]), priority=4) == {"b": (["b-2", "b-1"], 0)}
    made.store(Pod).discard("default/b-2")
    made.nodes.assume(pod("b-2", cpu="1", priority=2), "b")
    assert looked_at(made, proposed(made, b=["b-1"]), priority=4) == {"b": (["b-3", "b-1"], 0)}


def test_a_pod_rejected_by_prefilter_evicts_no_pod() -> None:
    class Never(Plugin, PreFilter):
        name = "Never"

        def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[None, Status]:
            return None, Status.unresolvable("never")

    made = cluster(a="0")
    assert looked_at(made, proposed(made, a=["a-1"]), Never) == {}


def test_nodes_that_prefilter_leaves_out_are_dropped() -> None:
    class OnlyB(Plugin, PreFilter):
        name = "OnlyB"

        def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str], Status]:
            return frozenset("b"), SUCCESS

    made = cluster(a="0", b="0")
    assert looked_at(made, proposed(made, a=["a-1"], b=["b-1"]), OnlyB).keys() == {"b"}


def test_an_error_on_one_node_drops_only_that_node() -> None:
    made = cluster(a="0", b="0")
    broken = made.nodes.node(made.nodes.all().rows[0])
    assert broken is not None
    broken.metadata.labels["broken"] = ""
    assert looked_at(made, proposed(made, a=["a-1"], b=["b-1"]), Entangled).keys() == {"b"}


def test_a_node_that_is_gone_is_dropped() -> None:
    made = cluster(a="0")
    proposal = proposed(made, a=["a-1"])
    made.nodes.remove_node("a")
    assert looked_at(made, proposal) == {}
