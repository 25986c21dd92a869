"""Call the filter points of one scheduling plugin on a cluster that a test describes."""

from collections.abc import Iterable, Mapping
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.cycle_state import CycleState
from koordpy.scheduling.interface import Filter, Plugin, PreFilter
from koordpy.scheduling.status import Status


def cluster(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]] = ()) -> Cluster:
    """Return a cluster of nodes and pods, given as the API server has them."""
    known = Cluster()
    _ = known.nodes  # the table follows the stores from its first use on
    for node in nodes:
        known.store(Node).apply(decode(Node, dict(node)))
    for pod in pods:
        known.store(Pod).apply(decode(Pod, dict(pod)))
    return known


def refusals(plugin: Plugin, pod: Mapping[str, Any]) -> dict[str, Status]:
    """Return the plugin's status of each node that it refuses; all of them when PreFilter refuses the pod."""
    nodes = plugin.handle.nodes.all()
    state, candidate = CycleState(), decode(Pod, dict(pod))
    names: frozenset[str] | None = None
    if isinstance(plugin, PreFilter):
        names, status = plugin.pre_filter(state, candidate, nodes)
        if status.is_skip:
            return {}
        if not status.is_success:
            return dict.fromkeys(nodes.names, status)
    refused: dict[str, Status] = {}
    if isinstance(plugin, Filter):
        verdict = plugin.filter_nodes(state, candidate, nodes)
        answers = {name: verdict.status(index) for index, name in enumerate(nodes.names)}
        refused = {name: status for name, status in answers.items() if not status.is_success}
    if names is not None:
        for name in set(nodes.names) - names:
            refused[name] = Status.unresolvable(f"node(s) didn't satisfy plugin {plugin.name}")
    return refused
