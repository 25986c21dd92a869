"""Memory QoS of cgroups: `koordpy_plugins.qos.cgreconcile`."""

from pathlib import Path
from typing import Any

from koordpy.agent.interface import PodMeta
from koordpy.api.core import Node, Pod
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import SystemClock
from koordpy.testing.node import set_up
from koordpy_plugins.qos.cgreconcile import CgroupReconcile


def run(case: dict[str, Any], tag: str | None) -> Any:
    handle = set_up(CgroupReconcile, Cluster(SystemClock()), "n", Path("/cgroup")).handle
    layout = handle.layout
    owners = {layout.qos(kube_qos): kube_qos for kube_qos in ("Burstable", "BestEffort", "Guaranteed")}
    pods = []
    for document in case.get("pods") or []:
        pod = decode(Pod, document)
        meta = PodMeta(pod, layout.pod(pod))
        pods.append(meta)
        owners[meta.cgroup_dir] = pod.metadata.name
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            if status.container_id:
                directory = layout.container(meta.cgroup_dir, status.container_id)
                owners[directory] = f"{pod.metadata.name}/{status.name}"
    strategy = decode(NodeSLOSpec, case["nodeSLOSpec"]).resource_qos_strategy
    assert strategy is not None
    plugin = CgroupReconcile(NoArgs(), handle, page_size=case["pageSize"])
    levels = plugin.levels(strategy, decode(Node, case["node"]), pods)
    rows = [[[owners[each.directory], each.resource, each.value] for each in level] for level in levels]
    return dict(zip(("qos", "pods", "containers"), rows, strict=True))
