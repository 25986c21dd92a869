"""Free resources that plugins show do not override what pods on the node have taken."""

import json

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.overlay import MovedPods, Overlay
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface import BeforeFilter, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import PASS, Verdict
from koordpy.scheduling.profiles.registry import Place, build, installed

from ..worlds import Binder, bind_body, configuration, filter_body, node, pod, pod_document, world


class ShowsEmptyNodes(Plugin, BeforeFilter):
    """Shows every node as empty."""

    name = "ShowsEmptyNodes"
    reruns = ("NodeResourcesFit",)

    def before_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Verdict]:
        nothing = np.zeros((len(nodes), len(nodes.table.resources)), np.int64)
        empty = Overlay(nothing, np.zeros((len(nodes), 2), np.int64), MovedPods(nodes.table.pods_on))
        return pod, NodeSet(nodes.table, nodes.names, nodes.rows, empty), PASS


async def test_a_bind_counts_the_pods_that_are_actually_on_the_node() -> None:
    cluster = world([node("full", cpu="2")], [pod("first", cpu="2", node_name="full")])
    classes = dict(installed()) | {"DefaultBinder": Binder, "ShowsEmptyNodes": ShowsEmptyNodes}
    handle = Handle(cluster)
    config = configuration(["ShowsEmptyNodes"])
    profiles = build(config, lambda _: handle, place=Place.EXTENDER, classes=classes)
    extender = Extender(profiles, handle)
    for store in cluster.stores:
        store.synced = True
    second = pod_document("second", cpu="1")
    answer, _ = extender.filter(filter_body(second, ["full"]))
    assert json.loads(answer)["NodeNames"] == ["full"]
    bound = json.loads(await extender.bind(bind_body(second, "full")))
    assert "Insufficient cpu" in bound["Error"]
