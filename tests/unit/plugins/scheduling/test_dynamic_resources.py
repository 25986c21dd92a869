"""NodeResourcesFit leaves extended resources of DeviceClasses to kube-scheduler where nodes offer none."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Node, Pod
from koordpy.api.device_class import DeviceClass
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import Code, Status
from koordpy_plugins.scheduling.stock.noderesourcesfit.args import NodeResourcesFitArgs
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from tests.unit.scheduling.worlds import node, pod

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"
OTHER = "example.com/other"

GPU_CLASS = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": GPU}}


def offering(name: str, offers: Mapping[str, str]) -> Node:
    made = node(name)
    made.status.allocatable = {**made.status.allocatable, **offers}
    return made


def requesting(name: str, requests: Mapping[str, str], node_name: str = "") -> Pod:
    return pod(
        name, node_name=node_name, containers=[{"name": "c", "resources": {"requests": dict(requests)}}]
    )


class World:
    """Nodes that offer n0 nothing, n1 an amount of 0 and n2 one GPU, and the plugin."""

    def __init__(self, *bound: Pod, has_class: bool = True) -> None:
        self.cluster = Cluster()
        self.plugin = NodeResourcesFit(NodeResourcesFitArgs(), Handle(self.cluster))
        for number, offers in enumerate(({}, {GPU: "0", IMPLICIT: "0"}, {GPU: "1"})):
            self.cluster.store(Node).apply(offering(f"n{number}", offers))
        for each in bound:
            self.cluster.store(Pod).apply(each)
        if has_class:
            self.cluster.late_store(DeviceClass).apply(decode(DeviceClass, GPU_CLASS))

    def statuses(self, subject: Pod) -> list[Status]:
        """Return what the plugin says of n0, n1 and n2 together, after comparing it with each alone."""
        nodes, state = self.cluster.nodes.all(), CycleState()
        self.plugin.pre_filter(state, subject, nodes)
        verdict = self.plugin.filter_nodes(state, subject, nodes)
        found = dict(zip(nodes.names, map(verdict.status, range(len(nodes))), strict=True))
        for name, status in found.items():
            alone, _ = self.cluster.nodes.select([name])
            assert self.plugin.filter_nodes(state, subject, alone).status(0) == status
        return [found[name] for name in sorted(found)]

    def passes(self, requests: Mapping[str, str]) -> list[bool]:
        return [status.is_success for status in self.statuses(requesting("p", requests))]


@pytest.mark.parametrize(
    ("requests", "passes"),
    [
        ({GPU: "1"}, [True, True, True]),
        ({GPU: "2"}, [True, True, False]),  # the device plugin of n2 offers one
        ({IMPLICIT: "1"}, [True, True, True]),
        ({IMPLICIT: "1", OTHER: "1"}, [False, False, False]),
        ({GPU: "1", "cpu": "9"}, [False, False, False]),
        ({OTHER: "1"}, [False, False, False]),
    ],
)
def test_a_resource_of_a_class_is_compared_only_where_it_is_offered(
    requests: Mapping[str, str], passes: list[bool]
) -> None:
    assert World().passes(requests) == passes


@pytest.mark.parametrize("requests", [{GPU: "1"}, {IMPLICIT: "1"}])
def test_without_the_class_a_node_that_offers_none_refuses(requests: Mapping[str, str]) -> None:
    assert World(has_class=False).passes(requests)[:2] == [False, False]


def test_a_class_that_goes_takes_the_rule_with_it() -> None:
    world = World()
    assert world.passes({GPU: "1"}) == [True, True, True]
    world.cluster.late_store(DeviceClass).replace([])
    assert world.passes({GPU: "1"}) == [False, False, True]


def test_pods_that_have_devices_of_a_class_do_not_use_up_what_a_node_never_offered() -> None:
    world = World(*(requesting(f"u{number}", {GPU: "3"}, f"n{number}") for number in range(3)))
    assert world.passes({GPU: "1"}) == [True, True, False]


def test_only_what_is_compared_is_named() -> None:
    status = World().statuses(requesting("p", {GPU: "1", OTHER: "1"}))[0]
    assert status.reasons == (f"Insufficient {OTHER}",)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@given(
    st.dictionaries(st.sampled_from([GPU, IMPLICIT, OTHER, "cpu"]), st.integers(0, 3).map(str)), st.booleans()
)
def test_a_node_passes_if_each_resource_is_there_or_left(requests: dict[str, str], has_class: bool) -> None:
    offered = [{}, {}, {GPU: 1}]
    left = {GPU, IMPLICIT} if has_class else set()
    expected = [
        all(
            int(amount) <= offers.get(name, 8 if name == "cpu" else 0)
            or (name in left and name not in offers)
            for name, amount in requests.items()
        )
        for offers in offered
    ]
    assert World(has_class=has_class).passes(requests) == expected
