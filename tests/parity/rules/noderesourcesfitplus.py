"""NodeResourcesFitPlus on one node: PreScore, then Score."""

from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.noderesourcesfitplus.plugin import NodeResourcesFitPlus


def run(case: dict[str, Any], tag: str | None) -> object:
    cluster = Cluster()
    node = case["node"]["metadata"]["name"]
    table = cluster.nodes
    cluster.store(Node).apply(decode(Node, case["node"]))
    for document in case["pods"]:
        table.observe_pod(decode(Pod, {**document, "spec": {**document["spec"], "nodeName": node}}))
    plugin = NodeResourcesFitPlus.make(Handle(cluster), case["args"])
    pod, state, nodes = decode(Pod, case["pod"]), CycleState(), table.all()
    assert plugin.pre_score(state, pod, nodes).is_success
    return {"score": int(plugin.score_nodes(state, pod, nodes)[0])}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(ours == expected)
