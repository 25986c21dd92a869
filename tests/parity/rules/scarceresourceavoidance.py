"""ScarceResourceAvoidance on some nodes: PreScore once, then Score for every node."""

from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.scarceresourceavoidance.plugin import ScarceResourceAvoidance


def run(case: dict[str, Any], tag: str | None) -> object:
    cluster = Cluster()
    table = cluster.nodes
    for node in case["nodes"]:
        cluster.store(Node).apply(decode(Node, node))
    plugin = ScarceResourceAvoidance.make(Handle(cluster), case["args"])
    pod, state, nodes = decode(Pod, case["pod"]), CycleState(), table.all()
    assert plugin.pre_score(state, pod, nodes).is_success
    scores = plugin.score_nodes(state, pod, nodes)
    return {"scores": dict(zip(nodes.names, scores.tolist(), strict=True))}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(ours == expected)
