"""Which CPUs belong to whom: reserved ones, those of pods, and what best-effort pods may use."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from koordpy.agent.interface import NodeCPUInfo, PodMeta
from koordpy.agent.toolkit import usage
from koordpy.api import extension, qos
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.lib import cpuset

log = logging.getLogger(__name__)


def allocations(pods: Sequence[PodMeta]) -> dict[str, str]:
    """Return the annotations with allocated CPUs, by the UIDs of pods that have one."""
    key = extension.ANNOTATION_RESOURCE_STATUS
    return {
        meta.pod.metadata.uid: f"{qos.qos_class_raw(meta.pod)} {text}"
        for meta in pods
        if (text := meta.pod.metadata.annotations.get(key)) is not None
    }


def share_pool(
    cpus: NodeCPUInfo | None, topology: NodeResourceTopology | None, pods: Sequence[PodMeta]
) -> frozenset[int] | None:
    """Return the CPUs that best-effort pods may use without suppression; None if they are not known."""
    if cpus is None or topology is None:
        return None
    annotations = topology.metadata.annotations
    exclusive = {cpu for cpu, pool in by_cpu(pods, only="LSE").items() if pool == "LSE"}
    taken = reserved(annotations) | exclusive_system(annotations) | exclusive
    return frozenset(p.cpu for p in cpus.processors) - taken


def by_cpu(pods: Sequence[PodMeta], only: str | None = None) -> dict[int, str]:
    """Return the QoS class of the pod of each bound CPU; later pods take precedence."""
    pools: dict[int, str] = {}
    for meta in pods:
        pod_qos = qos.qos_class_raw(meta.pod)
        if only is not None and pod_qos != only:
            continue
        status = usage.json_annotation(meta.pod.metadata.annotations, extension.ANNOTATION_RESOURCE_STATUS)
        for cpu in _cpus(status, "cpuset"):
            pools[cpu] = pod_qos
    return pools


def has_allocated_cpus(meta: PodMeta) -> bool:
    """Return whether the scheduler allocated CPUs or NUMA nodes to a pod."""
    status = usage.json_annotation(meta.pod.metadata.annotations, extension.ANNOTATION_RESOURCE_STATUS)
    return status is not None and bool(status.get("cpuset") or status.get("numaNodeResources"))


def reserved(annotations: Mapping[str, str]) -> frozenset[int]:
    """Return the CPUs that a NodeResourceTopology's annotations keep from pods."""
    return _cpus(usage.node_reservation(annotations), "reservedCPUs")


def exclusive_system(annotations: Mapping[str, str]) -> frozenset[int]:
    """Return the CPUs that only pods of the class SYSTEM may use."""
    system = usage.json_annotation(annotations, extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE)
    if system is None or system.get("cpusetExclusive") is False:
        return frozenset()
    return _cpus(system, "cpuset")


def _cpus(document: Mapping[str, Any] | None, key: str) -> frozenset[int]:
    text = (document or {}).get(key) or ""
    try:
        return cpuset.parse(text)
    except ValueError as error:
        log.warning("CPU suppress: %s: %s", key, error)
        return frozenset()


def kubelet_policy(annotations: Mapping[str, str]) -> str | None:
    """Return kubelet's CPU manager policy, "" when unknown, None when the annotation is invalid."""
    if not annotations.get(extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY):
        return ""
    document = usage.json_annotation(annotations, extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY)
    return None if document is None else str(document.get("policy") or "")
