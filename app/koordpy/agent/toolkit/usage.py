"""Usage of a node: the input of suppression and eviction (qosmanager/helpers)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from koordpy.agent.interface.states import PodMeta
from koordpy.api import extension, qos, quantity
from koordpy.api.core import Node, Pod
from koordpy.api.qos import QoSClass
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.lib import cpuset

log = logging.getLogger(__name__)


def is_not_best_effort(pod: Pod) -> bool:
    """Return whether a pod is latency sensitive: neither labelled BE nor of Kubernetes QoS BestEffort."""
    return qos.qos_class_raw(pod) != "BE" and qos.kube_qos(pod) != "BestEffort"


_NEVER_BURST = (QoSClass.LSR, QoSClass.LSE, QoSClass.BE)


def may_burst(pod: Pod) -> bool:
    """Return whether CPU burst may raise the CFS quotas of a pod's containers, by its class."""
    return qos.qos_class_raw(pod) not in _NEVER_BURST


def is_not_best_effort_application(application: HostApplicationSpec) -> bool:
    """Return whether a host application counts as latency sensitive."""
    path = application.cgroup_path
    return application.qos != "BE" or path is None or path.base != "KubepodsBesteffort"


def split(
    node_used: float,
    node_reserved: float,
    pods: Iterable[PodMeta],
    pod_used: Mapping[str, float],
    applications: Iterable[HostApplicationSpec],
    application_used: Mapping[str, float],
    pod_filter: Callable[[Pod], bool],
    application_filter: Callable[[HostApplicationSpec], bool],
) -> tuple[float, float, float]:
    """Return the usage of selected pods, selected host applications and the system, in the unit of the input.

    Pods with usage but without an object are always selected. The system's usage is the rest of the node's
    usage, and never less than what is reserved for it.
    """
    by_uid = {meta.pod.metadata.uid: meta.pod for meta in pods}
    all_pods = chosen_pods = 0.0
    for uid, used in pod_used.items():
        all_pods += used
        pod = by_uid.get(uid)
        if pod is None or pod_filter(pod):
            chosen_pods += used
    all_applications = chosen_applications = 0.0
    for application in applications:
        found = application_used.get(application.name)
        if found is None:
            continue
        all_applications += found
        if application_filter(application):
            chosen_applications += found
    system = max(node_used - all_pods - all_applications, 0.0)
    return chosen_pods, chosen_applications, max(system, node_reserved)


def reserved_milli_cpu(node: Node) -> int:
    """Return the milli-CPU reserved from pods: by kubelet, or by the reservation annotation."""
    capacity = quantity.milli_value(node.status.capacity.get("cpu", 0))
    allocatable = quantity.milli_value(node.status.allocatable.get("cpu", 0))
    annotated = 0
    reservation = node_reservation(node.metadata.annotations)
    if reservation is not None:
        amount = (reservation.get("resources") or {}).get("cpu", 0)
        try:
            annotated = quantity.milli_value(amount)
            if text := reservation.get("reservedCPUs"):
                annotated = len(cpuset.parse(text)) * 1000
        except ValueError as error:
            log.warning("node %s: %s", node.metadata.name, error)
            annotated = 0
    return max(capacity - allocatable, annotated, 0)


def node_reservation(annotations: Mapping[str, str]) -> dict[str, Any] | None:
    """Read the annotation `node.koordinator.sh/reservation`; None if absent or invalid."""
    return json_annotation(annotations, extension.ANNOTATION_NODE_RESERVATION)


def json_annotation(annotations: Mapping[str, str], name: str) -> dict[str, Any] | None:
    """Read an annotation that holds a JSON object; an invalid one is logged and counts as absent."""
    text = annotations.get(name)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        log.warning("annotation %s is not a JSON object: %s", name, error)
        return None
