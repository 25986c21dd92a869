"""How busy the CPUs are that pods without CPUs of their own share."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from koordpy.agent.interface import PodMeta
from koordpy.api import qos, resources
from koordpy.api.qos import QoSClass
from koordpy.api.resource_names import CPU

COOLING_SHARE: Final = 0.9
"""From this share of the threshold on, no quota is increased."""

_OWN_CPUS: Final = (QoSClass.LSE, QoSClass.LSR)


class NodeState(StrEnum):
    """The state of the share pool."""

    IDLE = "idle"
    COOLING = "cooling"
    OVERLOAD = "overload"
    UNKNOWN = "unknown"


def state(
    processors: int | None,
    node_used: float | None,
    threshold_percent: int,
    pods: Sequence[PodMeta],
    pod_used: Callable[[Sequence[str]], Mapping[str, float]],
) -> NodeState:
    """Return the state; usage is in cores, None where it is not known.

    The pool is all processors without those that LSE and LSR pods request; its usage that of the node without
    LSE, LSR and BE pods, so that the system's counts. `pod_used` returns the usage of pods by UID.
    """
    if processors is None or node_used is None:
        return NodeState.UNKNOWN
    total = float(processors)
    apart: list[str] = []
    for meta in pods:
        qos_class = qos.qos_class_raw(meta.pod)
        if qos_class in _OWN_CPUS:
            total -= resources.pod_request_vector(meta.pod).get(CPU, 0) / 1000
        if qos_class in _OWN_CPUS or qos_class == QoSClass.BE:
            apart.append(meta.pod.metadata.uid)
    usage = node_used
    found = pod_used(apart)
    for uid in apart:
        usage -= found.get(uid, 0.0)
    share = usage / total if total > 0 else 1.0
    threshold = threshold_percent / 100
    if share >= threshold:
        return NodeState.OVERLOAD
    return NodeState.COOLING if share >= threshold * COOLING_SHARE else NodeState.IDLE
