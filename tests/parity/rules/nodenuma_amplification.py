"""NodeNUMAResource alone on one node, from PreFilter to PreBind."""

import asyncio
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.manager import affinity_of
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource

NAME = "NodeNUMAResource"


def plugin_of(handle: Handle, args: dict[str, Any] | None) -> NodeNUMAResource:
    """Return the plugin in a profile that has nothing else."""
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": NAME, "args": args or {}}],
    }
    config = read({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
    profiles = build(config, lambda _: handle, place=Place.EXTENDER, classes={NAME: NodeNUMAResource})
    plugins = profiles.frameworks["default-scheduler"].plugins
    return next(plugin for plugin in plugins if isinstance(plugin, NodeNUMAResource))


def status_of(status: Status) -> dict[str, Any]:
    return {"code": int(status.code), "reasons": sorted(status.reasons)}


def hint_of(state: CycleState) -> dict[str, Any] | None:
    """Return the affinity that is stored for the node."""
    hint = affinity_of(state, "n")
    if hint is None:
        return None
    return {
        "mask": None if hint.affinity is None else list(bitmask.bits(hint.affinity)),
        "preferred": hint.preferred,
        "score": hint.score,
        "unsatisfied": hint.unsatisfied,
    }


def run(case: dict[str, Any], tag: str | None) -> object:
    cluster = Cluster()
    plugin = plugin_of(Handle(cluster), case.get("args"))
    cluster.store(Node).apply(decode(Node, case["node"]))
    if case.get("nrt") is not None:
        cluster.store(NodeResourceTopology).apply(decode(NodeResourceTopology, case["nrt"]))
    pods = cluster.store(Pod)
    gone = [decode(Pod, each) for each in case.get("gone") or ()]
    for pod in (*gone, *(decode(Pod, each) for each in case["pods"])):
        pods.apply(pod)
    for pod in gone:
        pods.discard(pod.metadata.key)
    pod, state = decode(Pod, case["pod"]), CycleState()
    answer: dict[str, Any] = {}
    nodes = cluster.nodes.all()
    _, status = plugin.pre_filter(state, pod, nodes)
    answer["preFilter"] = status_of(status)
    if not status.is_success:
        return answer
    status = plugin.filter(state, pod, NodeInfo(nodes, 0))
    answer["filter"], answer["filterHint"] = status_of(status), hint_of(state)
    if status.is_success:
        answer["score"] = plugin.score(state, pod, NodeInfo(nodes, 0))
        commit(plugin, state, pod, answer)
    return answer


def commit(plugin: NodeNUMAResource, state: CycleState, pod: Pod, answer: dict[str, Any]) -> None:
    """Run Reserve and PreBind."""
    status = plugin.reserve(state, pod, "n")
    answer["reserve"], answer["reserveHint"] = status_of(status), hint_of(state)
    if status.is_success:
        binding = Binding(pod, "n")
        status = asyncio.run(plugin.pre_bind(state, pod, "n", binding))
        answer["annotations"] = binding.annotations if status.is_success else status_of(status)


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return all(
        same_part(ours.get(part), expected.get(part))
        for part in {*ours, *expected}
        if part != "restore" or part in ours
    )


def same_part(ours: Any, expected: Any) -> bool:
    """Compare the results of a step; where Go's JSON error is the reason, the code alone."""
    if isinstance(expected, dict) and "code" in expected:
        theirs = sorted(expected.get("reasons") or [])
        if not isinstance(ours, dict) or ours.get("code") != expected["code"]:
            return False
        is_json_error = expected["code"] == Code.ERROR or any("unmarshal" in reason for reason in theirs)
        return is_json_error or ours["reasons"] == theirs
    return bool(ours == expected)
