"""What a node's pods request and use, and what its system uses.

Everything that batch and mid resources depend on, except for the strategy: it is computed once for a
NodeMetric and a set of pods.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/batchresource/plugin.go` and `midresource`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric, PodMetricInfo
from koordpy.api.meta import ResourceList, Struct
from koordpy.api.qos import PriorityClass, QoSClass, default_priority, priority_class, qos_class_raw
from koordpy.api.quantity import QuantityError
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.resources import pod_request_nanos
from koordpy.api.scheme import DecodeError, decode

from .amounts import (
    EXACTLY_DIVIDED,
    MOST_EXACT_PARTS,
    NANOS_PER_MILLI,
    NOTHING,
    Amounts,
    divided,
    nanos,
    read,
)

_LOW: Final = (PriorityClass.BATCH, PriorityClass.FREE)
_BELOW_PROD: Final = (PriorityClass.MID, *_LOW)
_ACTIVE: Final = ("Running", "Pending")
_UNREADABLE: Final = Amounts(-1, -1)
_CLASSES: Final = {item.value: item for item in PriorityClass}


class _NUMANodeResource(Struct):
    node: int = 0


class _ResourceStatus(Struct):
    numa_node_resources: list[_NUMANodeResource] = []


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """One pod: what it requests, its classes, and the NUMA nodes it was allocated on."""

    key: str
    is_active: bool
    is_high: bool
    """Whether it is neither a batch nor a free pod."""
    is_prod: bool
    """Whether it is not a mid pod either."""
    is_lse: bool
    request_cpu: int
    """In billionths, as all amounts."""
    request_memory: int
    numa_nodes: tuple[int, ...]

    @classmethod
    def of(cls, pod: Pod) -> "PodFacts":
        """Return the facts of a pod. Raises QuantityError."""
        priority = priority_class(pod)
        is_active = pod.status.phase in _ACTIVE
        request = _request(pod) if is_active else NOTHING
        return cls(
            pod.metadata.key,
            is_active,
            priority not in _LOW,
            priority not in _BELOW_PROD,
            qos_class_raw(pod) is QoSClass.LSE,  # Kubernetes' own classes never mean LSE
            request.cpu,
            request.memory,
            _numa_nodes(pod),
        )


@dataclass(slots=True)
class ZoneDemand:
    """What counts in one NUMA zone, as `Demand` for the node."""

    request_cpu: int = 0
    request_memory: int = 0
    used_cpu: int = 0
    used_memory: int = 0
    max_cpu: int = 0
    max_memory: int = 0

    @property
    def request(self) -> Amounts:
        """What pods request."""
        return Amounts(self.request_cpu, self.request_memory)

    @property
    def used(self) -> Amounts:
        """What pods use."""
        return Amounts(self.used_cpu, self.used_memory)

    @property
    def max_used_request(self) -> Amounts:
        """The larger of both, by pod."""
        return Amounts(self.max_cpu, self.max_memory)

    def add(self, cpu: int, memory: int, cpu_used: int, memory_used: int, *, is_lse: bool) -> None:
        """Add a pod's request and usage."""
        self.request_cpu += cpu
        self.request_memory += memory
        self.used_cpu += cpu if is_lse else cpu_used
        self.used_memory += memory_used
        self.max_cpu += cpu if cpu > cpu_used else cpu_used
        self.max_memory += memory if memory > memory_used else memory_used

    def merge(self, other: "ZoneDemand") -> None:
        """Add all that counts in another zone."""
        self.request_cpu += other.request_cpu
        self.request_memory += other.request_memory
        self.used_cpu += other.used_cpu
        self.used_memory += other.used_memory
        self.max_cpu += other.max_cpu
        self.max_memory += other.max_memory


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
    usage_amounts: Amounts | None = None
    """`node_usage`, None where it has not both cpu and memory."""
    reclaimable_amounts: Amounts = NOTHING
    dangling: list[Amounts] = field(default_factory=list)
    """Usage of high-priority pods that are reported and not on the node any more."""
    pods: list[PodFacts] = field(default_factory=list)
    """The active pods of high priority."""
    used: list[tuple[int, int] | None] = field(default_factory=list)
    """What each of them uses, None if nothing was reported."""
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
    request_cpu = request_memory = used_cpu = used_memory = max_cpu = max_memory = 0
    prod_cpu = prod_memory = 0
    high: list[PodFacts] = []
    used: list[tuple[int, int] | None] = []
    for pod in pods:
        if not pod.is_active:
            continue
        info = reported.pop(pod.key, None)
        if not pod.is_high:
            continue
        cpu, memory = pod.request_cpu, pod.request_memory
        request_cpu += cpu
        request_memory += memory
        if pod.is_prod:
            prod_cpu += cpu
            prod_memory += memory
        high.append(pod)
        if info is None:
            used_cpu += cpu
            used_memory += memory
            used.append(None)
            continue
        amounts = info.pod_usage.resources
        pod_cpu, pod_memory = nanos(amounts.get(CPU)), nanos(amounts.get(MEMORY))
        used.append((pod_cpu, pod_memory))
        used_cpu += cpu if pod.is_lse else pod_cpu
        used_memory += pod_memory
        max_cpu += cpu if cpu > pod_cpu else pod_cpu
        max_memory += memory if memory > pod_memory else pod_memory
    dangling = [read(info.pod_usage.resources) for info in reported.values() if _is_high(info)]
    for gone in dangling:
        used_cpu += gone.cpu
        used_memory += gone.memory
        max_cpu += gone.cpu
        max_memory += gone.memory
    node = status.node_metric
    usage = node.node_usage.resources if node is not None else None
    reclaimable = status.prod_reclaimable_metric
    reclaimed = reclaimable.resource.resources or None if reclaimable is not None else None
    return Demand(
        Amounts(request_cpu, request_memory),
        Amounts(used_cpu, used_memory),
        Amounts(max_cpu, max_memory),
        Amounts(prod_cpu, prod_memory),
        read(node.system_usage.resources) if node is not None else NOTHING,
        _host_used(node_metric, PriorityClass.BATCH),
        _host_used(node_metric, PriorityClass.MID),
        usage or None,
        reclaimed,
        _readable(usage) if usage is not None and CPU in usage and MEMORY in usage else None,
        _readable(reclaimed or {}),
        dangling,
        high,
        used,
    )


def _readable(amounts: ResourceList) -> Amounts:
    """Return amounts; negative ones, which need the exact formula, if they cannot be read."""
    try:
        return read(amounts)
    except QuantityError:
        return _UNREADABLE


def _is_high(info: PodMetricInfo) -> bool:
    return info.priority not in _LOW


def _host_used(node_metric: NodeMetric, above: PriorityClass) -> Amounts:
    applications = node_metric.status.host_application_metric
    total, least = NOTHING, default_priority(above) if applications else 0
    for application in applications:
        if application is None:
            continue
        priority = _CLASSES.get(application.priority, PriorityClass.NONE)
        if default_priority(priority) > least:
            total = total.plus(read(application.usage.resources))
    return total


def _request(pod: Pod) -> Amounts:
    """Return what a pod requests; most have neither init containers nor requests of their own."""
    spec = pod.spec
    if spec.init_containers or spec.resources is not None:
        requests = pod_request_nanos(pod)
        return Amounts(requests.get(CPU, 0), requests.get(MEMORY, 0))
    total = read(spec.overhead) if spec.overhead else NOTHING
    for container in spec.containers:
        total = total.plus(read(container.resources.requests))
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


def _zones(demand: Demand, count: int) -> list[ZoneDemand]:
    """Split demand by zone: evenly on the NUMA nodes of a pod that exist, on all where there is none.

    A node that is named several times counts as several, as in Koordinator. Unlike on a node, a pod without a
    report counts in the maximum too.
    """
    zones = [ZoneDemand() for _ in range(count)]
    on_all = ZoneDemand()
    divisor = NANOS_PER_MILLI * count
    is_exact = count <= MOST_EXACT_PARTS
    request_cpu = request_memory = used_cpu = used_memory = max_cpu = max_memory = 0
    for facts, used in zip(demand.pods, demand.used, strict=True):
        cpu, memory = facts.request_cpu, facts.request_memory
        pod_cpu, pod_memory = used or (cpu, memory)
        if (
            is_exact
            and not facts.numa_nodes
            and 0 <= memory < EXACTLY_DIVIDED
            and 0 <= pod_memory < EXACTLY_DIVIDED
            and 0 <= cpu < EXACTLY_DIVIDED
            and 0 <= pod_cpu < EXACTLY_DIVIDED
        ):  # nearly all pods: as `divided`, in thousandths
            cpu, memory = -(-cpu // divisor), -(-memory // divisor)
            pod_cpu, pod_memory = -(-pod_cpu // divisor), -(-pod_memory // divisor)
            request_cpu += cpu
            request_memory += memory
            used_cpu += cpu if facts.is_lse else pod_cpu
            used_memory += pod_memory
            max_cpu += cpu if cpu > pod_cpu else pod_cpu
            max_memory += memory if memory > pod_memory else pod_memory
            continue
        entries = sum(1 for node in facts.numa_nodes if 0 <= node < count)
        parts = entries or count
        amounts = [divided(amount, parts) for amount in (cpu, memory, pod_cpu, pod_memory)]
        named = [zones[node] for node in set(facts.numa_nodes) if 0 <= node < count]
        for zone in named or [on_all]:
            zone.add(*amounts, is_lse=facts.is_lse)
    for gone in demand.dangling:
        on_all.add(0, 0, divided(gone.cpu, count), divided(gone.memory, count), is_lse=False)
    sums = (request_cpu, request_memory, used_cpu, used_memory, max_cpu, max_memory)
    plain = ZoneDemand(*(amount * NANOS_PER_MILLI for amount in sums))
    for zone in zones:
        zone.merge(on_all)
        zone.merge(plain)
    return zones
