"""LoadAwareScheduling on one node: Filter, Score and the sums of its assign cache."""

from datetime import datetime
from typing import Any

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import Status
from koordpy_plugins.scheduling.loadaware.plugin import LoadAwareScheduling


def plugin_of(case: dict[str, Any]) -> LoadAwareScheduling | None:
    """Return the plugin over an empty cluster, None when its arguments are refused."""
    cluster = Cluster(FakeClock(datetime.fromisoformat(case["now"])))
    try:
        return LoadAwareScheduling.make(Handle(cluster), case["args"])
    except ConfigError:
        return None


def run(case: dict[str, Any], tag: str | None) -> object:
    plugin = plugin_of(case)
    if plugin is None:
        return {"invalidArgs": True}
    cluster, clock = plugin.handle.cluster, plugin.handle.clock
    assert isinstance(clock, FakeClock)
    cluster.store(Node).apply(decode(Node, case["node"]))
    if case["nodeMetric"] is not None:
        cluster.store(NodeMetric).apply(decode(NodeMetric, case["nodeMetric"]))
    for entry in case["pods"]:
        clock.set(datetime.fromisoformat(entry["at"]))
        cluster.store(Pod).apply(decode(Pod, entry["pod"]))
    clock.set(datetime.fromisoformat(case["now"]))
    return answer(plugin, decode(Pod, case["pod"]), case["node"]["metadata"]["name"])


def answer(plugin: LoadAwareScheduling, pod: Pod, node_name: str) -> dict[str, Any]:
    """Ask Filter and Score, and read the sums."""
    nodes, missing = plugin.handle.nodes.select([node_name])
    assert not missing
    state = CycleState()
    plugin.pre_filter(state, pod, nodes)
    status: Status = plugin.filter_nodes(state, pod, nodes).status(0)
    detail: dict[str, Any] = {"names": list(plugin.estimator.names)}
    load = plugin.cache.get(node_name)
    if load is not None and load.metric is not None:
        detail["prodUsage"] = load.prod_usage
        detail["nodeDelta"] = load.node_delta
        detail["prodDelta"] = load.prod_delta
        detail["nodeEstimated"] = load.node_estimated
    detail["pod"] = plugin.estimator.of_pod(pod)
    detail["cached"] = sorted(load.pods) if load is not None else []
    return {
        "filter": {"code": int(status.code), "reasons": list(status.reasons)},
        "score": int(plugin.score_nodes(state, pod, nodes)[0]),
        "detail": detail,
    }


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    if "invalidArgs" in expected or "invalidArgs" in ours:
        return bool(ours == expected)
    detail = expected.get("detail") or {}
    return (
        ours["filter"]["code"] == expected["filter"]["code"]
        and ours["filter"]["reasons"] == (expected["filter"].get("reasons") or [])
        and ours["score"] == expected["score"]
        and all(detail[key] == value for key, value in ours["detail"].items() if key in detail)
    )
