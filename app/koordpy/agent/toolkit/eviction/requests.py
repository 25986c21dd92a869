"""Eviction when pods of low priority request more of a node than they are offered (`*AllocatableEvict`)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from koordpy.agent.interface.states import PodMeta
from koordpy.api import batch_resources, extension, qos, quantity, resources
from koordpy.api.core import Node, Pod
from koordpy.api.qos import PriorityClass
from koordpy.api.resource_names import CPU
from koordpy.lib import int64

from .tasks import Amounts, Candidate
from .thresholds import InvalidThresholdError

HIGHEST_MID_PRIORITY: Final = 7999

_TRANSLATED: Final = (PriorityClass.BATCH, PriorityClass.MID)
_CLASS_OF: Final = {
    extension.BATCH_CPU: PriorityClass.BATCH,
    extension.BATCH_MEMORY: PriorityClass.BATCH,
    extension.MID_CPU: PriorityClass.MID,
    extension.MID_MEMORY: PriorityClass.MID,
}


@dataclass(frozen=True)
class Thresholds:
    """Above `threshold` percent of what is allocatable, requests are reduced to `lower` percent."""

    threshold: int
    lower: int
    highest_priority: int


def thresholds_of(
    resource: str, threshold: int | None, lower: int | None, highest_priority: int | None
) -> Thresholds:
    """Return valid thresholds of NodeSLO; `resource` is `CPU` or `Memory`. Raises InvalidThresholdError.

    Prod pods are never evicted, so the priority is that of mid pods at most.
    """
    if threshold is None:
        raise InvalidThresholdError(f"{resource}AllocatableEvictThresholdPercent not config")
    if threshold < 0:
        raise InvalidThresholdError(f"threshold percent({threshold}) should equal or greater than 0")
    if lower is None:
        raise InvalidThresholdError(f"{resource}AllocatableEvictLowerPercent not config")
    if lower >= threshold:
        raise InvalidThresholdError(f"lower percent({lower}) should less than threshold percent({threshold})")
    if highest_priority is None:
        raise InvalidThresholdError("AllocatableEvictPriorityThreshold not config")
    if highest_priority > HIGHEST_MID_PRIORITY:
        raise InvalidThresholdError(
            f"priorityThresholdPercent({highest_priority}) should less than {HIGHEST_MID_PRIORITY}, "
            "koord-prod pods should not be killed"
        )
    return Thresholds(threshold, lower, highest_priority)


Excess = Callable[[float, float, float], float]
"""What to release, from the requested and the allocatable amount and the lower percentage."""


def request_of(pod: Pod, resource: str) -> tuple[str, int]:
    """Return the resource that a pod requests instead of cpu or memory, and how much (milli-CPU or bytes).

    Pods of the classes batch and mid have their own resources; all others use the native ones.
    """
    priority = qos.priority_class(pod)
    if priority in _TRANSLATED:
        name = qos.translate_resource(priority, resource)
        return name, batch_resources.pod_batch_request(pod, name)
    return resource, resources.pod_request_vector(pod).get(resource, 0)


def amount_requested(pod: Pod, resource: str) -> Amounts:
    """Return a pod's request for cpu or memory in thousandths, under the name of its priority class."""
    name, value = request_of(pod, resource)
    return {name: _thousandths(name, value)}


def release_by_requests(
    node: Node, pods: Iterable[PodMeta], resource: str, thresholds: Thresholds, excess: Excess
) -> Amounts:
    """Return what must be released of each resource, in thousandths; nothing if requests are low enough.

    A resource that the node does not offer is released altogether.
    """
    requested: dict[str, int] = {}
    for meta in pods:
        if qos.priority_value(meta.pod) <= thresholds.highest_priority:
            name, value = request_of(meta.pod, resource)
            requested[name] = requested.get(name, 0) + value
    release: Amounts = {}
    for name, value in requested.items():
        offered = node.status.allocatable.get(name)
        available = None if offered is None else quantity.nano_value(offered)
        if offered is None or not available:
            release[name] = _thousandths(name, value)
            continue
        allocatable = float(quantity.resource_value(name, offered))
        if value / allocatable > thresholds.threshold / 100:
            # Native CPU is counted in thousandths here and released in cores, as Koordinator does.
            release[name] = (
                int64.from_float(excess(float(value), allocatable, float(thresholds.lower))) * 1000
            )
    return release


def released_request(release: Mapping[str, int], resource: str) -> Callable[[Candidate], Amounts]:
    """Return what a pod counts for: its request, if its class's resource is among those to be released."""
    classes = {_CLASS_OF[name] for name in release if name in _CLASS_OF}

    def released_by(candidate: Candidate) -> Amounts:
        if qos.priority_class(candidate.pod) not in classes:
            return {}
        return amount_requested(candidate.pod, resource)

    return released_by


def _thousandths(name: str, value: int) -> int:
    return value if name == CPU else value * 1000
