"""The metrics of a node, as plugins see them (koordlet's metric cache)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

COLLECT_INTERVAL: Final = "collect-res-used-interval"
"""The flag with the interval at which the usage of pods and the node is measured; its default is 1s."""

F = TypeVar("F")

PROPERTIES: dict[str, tuple[str, ...]] = {
    "node_cpu_usage": (),
    "node_memory_usage": (),
    "sys_cpu_usage": (),
    "sys_memory_usage": (),
    "node_be": ("be_resource", "be_allocation"),
    "pod_cpu_usage": ("pod_uid",),
    "pod_memory_usage": ("pod_uid",),
    "pod_cpu_throttled": ("pod_uid",),
    "container_cpu_usage": ("container_id",),
    "container_memory_usage": ("container_id",),
    "container_cpu_throttled": ("container_id",),
    "host_application_cpu_usage": ("host_app_name",),
    "host_application_memory_usage": ("host_app_name",),
}
"""The properties of each kind. CPU is in cores (node_be: milli-cores), memory in bytes."""


class MetricError(ValueError):
    """A sample or a query does not fit its kind, or a query found nothing."""


class Aggregation(StrEnum):
    """How the points of a query are aggregated."""

    AVG = "avg"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    LAST = "last"
    COUNT = "count"


@dataclass(frozen=True)
class Sample:
    """One measured value."""

    kind: str
    value: float
    time: datetime
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Fact(Generic[F]):
    """A fact about the node that is not a series; its key holds a value of type F."""

    key: str


@dataclass(frozen=True)
class Processor:
    """One logical CPU and its place in the topology."""

    cpu: int
    core: int
    socket: int
    node: int


@dataclass(frozen=True)
class NodeCPUInfo:
    """All online processors, ordered by NUMA node, socket, core and CPU."""

    processors: tuple[Processor, ...]


NODE_CPU_INFO: Final[Fact[NodeCPUInfo]] = Fact("node_cpu_info")
"""The processors of the node."""


class Metrics(Protocol):
    """Series by kind and properties, and facts. All of it is in memory and empty after a restart."""

    def query(
        self,
        kind: str,
        aggregation: Aggregation,
        start: datetime,
        end: datetime,
        properties: Mapping[str, str] | None = None,
    ) -> float:
        """Aggregate all points in [start, end] of the series with these properties (a subset may be given).

        Kinds and their properties are in `PROPERTIES`. Raises MetricError if there is no point, except for
        COUNT.
        """
        ...

    def append(self, samples: Iterable[Sample]) -> None:
        """Add samples, all or none. Raises MetricError if one has the wrong properties for its kind."""
        ...

    def fact(self, fact: Fact[F]) -> F | None:
        """Return a fact; None if it is not known yet."""
        ...
