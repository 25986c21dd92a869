"""LoadAwareScheduling on one node whose assign cache was built by a sequence of events.

The plugin's own subscriptions are called, as the stores would call them, with exactly the objects of the
line: a watch may deliver an old object that is not the one last seen.
"""

from datetime import datetime
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import decode
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface.cycle_state import CycleState

from .loadaware import answer, plugin_of, same

__all__ = ["run", "same"]


def run(case: dict[str, Any], tag: str | None) -> object:
    plugin = plugin_of(case)
    if plugin is None:
        return {"invalidArgs": True}
    cluster, clock = plugin.handle.cluster, plugin.handle.clock
    assert isinstance(clock, FakeClock)
    cluster.store(Node).apply(decode(Node, case["node"]))
    metric: NodeMetric | None = None
    cache = plugin.cache
    for event in case["events"]:
        clock.set(datetime.fromisoformat(event["at"]))
        pod = decode(Pod, event["pod"]) if "pod" in event else Pod()
        match event["op"]:
            case "podAdd":
                cache.add_pod(pod)
            case "podUpdate":
                cache.update_pod(decode(Pod, event["old"]), pod)
            case "podDelete":
                cache.delete_pod(pod)
            case "reserve":
                plugin.reserve(CycleState(), pod, event["node"])
            case "unreserve":
                plugin.unreserve(CycleState(), pod, event["node"])
            case "metricSet":
                metric = decode(NodeMetric, event["metric"])
                cluster.store(NodeMetric).apply(metric)
            case "metricDelete" if metric is not None:
                cluster.store(NodeMetric).discard(metric.metadata.name)
                metric = None
    clock.set(datetime.fromisoformat(case["now"]))
    return answer(plugin, decode(Pod, case["pod"]), case["node"]["metadata"]["name"])
