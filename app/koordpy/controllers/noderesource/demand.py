"""What a node's pods request and use, and what its system uses.

Everything that batch and mid resources depend on, except for the strategy: it is computed once for a
NodeMetric and a set of pods.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/batchresource/plugin.go` and `midresource`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric, PodMetricInfo
from koordpy.api.meta import ResourceList, Struct
from koordpy.api.qos import PriorityClass, QoSClass, default_priority, priority_class, qos_class_raw
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.resources import pod_request_nanos
from koordpy.api.scheme import DecodeError, decode

from .amounts import NOTHING, Amounts, read

_LOW: Final = (PriorityClass.BATCH, PriorityClass.FREE)
_BELOW_PROD: Final = (PriorityClass.MID, *_LOW)
_ACTIVE: Final = ("Running", "Pending")
_CLASSES: Final = {item.value: item for item in PriorityClass}


class _NUMANodeResource(Struct):
    node: int = 0


class _ResourceStatus(Struct):
    numa_node_resources: list[_NUMANodeResource] = []


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod: what it requests, its classes, and the NUMA nodes it was allocated on."""

    key: str
    is_active: bool
    is_high: bool
    """Whether it is neither a batch nor a free pod."""
    is_prod: bool
    """Whether it is not a mid pod either."""
    is_lse: bool
    request: Amounts
    numa_nodes: tuple[int, ...]

    @classmethod
    def of(cls, pod: Pod) -> "PodFacts":
        """Return the facts of a pod. Raises QuantityError."""
        priority = priority_class(pod)
        is_active = pod.status.phase in _ACTIVE
        requests = pod_request_nanos(pod) if is_active else {}
        return cls(
            pod.metadata.key,
            is_active,
            priority not in _LOW,
            priority not in _BELOW_PROD,
            qos_class_raw(pod) is QoSClass.LSE,  # Kubernetes' own classes never mean LSE
            Amounts(requests.get(CPU, 0), requests.get(MEMORY, 0)),
            _numa_nodes(pod),
        )


@dataclass(slots=True)
class PodUse:
    """An active pod of high priority, and its usage; None if nothing was reported."""

    facts: PodFacts
    used: Amounts | None


@dataclass(slots=True)
class ZoneDemand:
    """What counts in one NUMA zone, as `Demand` for the node."""

    request: Amounts = NOTHING
    used: Amounts = NOTHING
    max_used_request: Amounts = NOTHING


@dataclass(slots=True)
class Demand:
    """Sums over a node's pods and its NodeMetric."""

    high_request: Amounts = NOTHING
    """Requests of the pods that are neither batch nor free."""
    high_used: Amounts = NOTHING
    """Usage of these; the request of one without a report, and the cpu request of LSE pods."""
    high_max_used_request: Amounts = NOTHING
    """The larger of both; a pod without a report counts nothing."""
    prod_request: Amounts = NOTHING
    system_used: Amounts = NOTHING
    host_used_over_batch: Amounts = NOTHING
    """Usage of host applications with a higher priority than batch."""
    host_used_over_mid: Amounts = NOTHING
    node_usage: ResourceList | None = None
    reclaimable: ResourceList | None = None
    dangling: list[Amounts] = field(default_factory=list)
    """Usage of high-priority pods that are reported and not on the node any more."""
    pods: list[PodUse] = field(default_factory=list)
    _zones: dict[int, list[ZoneDemand]] = field(default_factory=dict)

    def zones(self, count: int) -> list[ZoneDemand]:
        """Return what counts in each of a number of NUMA zones. It is kept until the demand changes."""
        known = self._zones.get(count)
        if known is None:
            known = self._zones[count] = _zones(self, count)
        return known


def demand_of(pods: Iterable[PodFacts], node_metric: NodeMetric) -> Demand:
    """Return the demand on a node. Raises QuantityError."""
    status = node_metric.status
    reported = {f"{info.namespace}/{info.name}": info for info in status.pods_metric if info is not None}
    left = dict(reported)
    request_cpu = request_memory = used_cpu = used_memory = max_cpu = max_memory = 0
    prod_cpu = prod_memory = 0
    uses: list[PodUse] = []
    for pod in pods:
        if not pod.is_active:
            continue
        info = reported.get(pod.key)
        if info is not None:
            left.pop(pod.key, None)
        if not pod.is_high:
            continue
        cpu, memory = pod.request
        request_cpu += cpu
        request_memory += memory
        if pod.is_prod:
            prod_cpu += cpu
            prod_memory += memory
        if info is None:
            used_cpu += cpu
            used_memory += memory
            uses.append(PodUse(pod, None))
            continue
        used = read(info.pod_usage.resources)
        used_cpu += cpu if pod.is_lse else used.cpu
        used_memory += used.memory
        max_cpu += max(cpu, used.cpu)
        max_memory += max(memory, used.memory)
        uses.append(PodUse(pod, used))
    dangling = [read(info.pod_usage.resources) for info in left.values() if _is_high(info)]
    for cpu, memory in dangling:
        used_cpu += cpu
        used_memory += memory
        max_cpu += cpu
        max_memory += memory
    node = status.node_metric
    usage = node.node_usage.resources if node is not None else None
    reclaimable = status.prod_reclaimable_metric
    return Demand(
        Amounts(request_cpu, request_memory),
        Amounts(used_cpu, used_memory),
        Amounts(max_cpu, max_memory),
        Amounts(prod_cpu, prod_memory),
        read(node.system_usage.resources) if node is not None else NOTHING,
        _host_used(node_metric, PriorityClass.BATCH),
        _host_used(node_metric, PriorityClass.MID),
        usage or None,
        reclaimable.resource.resources or None if reclaimable is not None else None,
        dangling,
        uses,
    )


def _is_high(info: PodMetricInfo) -> bool:
    return info.priority not in _LOW


def _host_used(node_metric: NodeMetric, above: PriorityClass) -> Amounts:
    total, least = NOTHING, default_priority(above)
    for application in node_metric.status.host_application_metric:
        if application is None:
            continue
        priority = _CLASSES.get(application.priority, PriorityClass.NONE)
        if default_priority(priority) > least:
            total = total.plus(read(application.usage.resources))
    return total


def _numa_nodes(pod: Pod) -> tuple[int, ...]:
    text = pod.metadata.annotations.get(extension.ANNOTATION_RESOURCE_STATUS)
    if text is None:
        return ()
    try:
        status = decode(_ResourceStatus, text.encode())
    except DecodeError:
        return ()
    return tuple(item.node for item in status.numa_node_resources)


def _split(amounts: Amounts, numa_nodes: Sequence[int], count: int) -> list[Amounts]:
    """Return an amount by zone: evenly on the NUMA nodes that exist, on all where there is none.

    A node that is named several times counts as several, as in Koordinator.
    """
    entries = sum(1 for node in numa_nodes if 0 <= node < count)
    if not entries:
        return [amounts.divided(count)] * count
    part = amounts.divided(entries)
    return [part if zone in numa_nodes else NOTHING for zone in range(count)]


def _zones(demand: Demand, count: int) -> list[ZoneDemand]:
    """Split demand by zone. Unlike on a node, a pod without a report counts in the maximum too."""
    zones = [ZoneDemand() for _ in range(count)]
    for use in demand.pods:
        facts = use.facts
        requests = _split(facts.request, facts.numa_nodes, count)
        usages = requests if use.used is None else _split(use.used, facts.numa_nodes, count)
        for zone, request, used in zip(zones, requests, usages, strict=True):
            zone.request = zone.request.plus(request)
            counted = Amounts(request.cpu, used.memory) if facts.is_lse else used
            zone.used = zone.used.plus(counted)
            zone.max_used_request = zone.max_used_request.plus(request.at_least(used))
    for amounts in demand.dangling:
        part = amounts.divided(count)
        for zone in zones:
            zone.used = zone.used.plus(part)
            zone.max_used_request = zone.max_used_request.plus(part)
    return zones
