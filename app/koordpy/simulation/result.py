"""The results of a simulation: numbers for tables, series for plots, and the placement of every pod."""

from typing import Any

import msgspec


class Spread(msgspec.Struct, rename="camel", frozen=True):
    """The distribution of values."""

    mean: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, values: Any) -> "Spread":
        """Return the spread of some numbers; zeros where there are none."""
        import numpy as np

        array = np.asarray(values, np.float64)
        if not array.size:
            return cls()
        p50, p95 = np.percentile(array, (50, 95), method="higher")
        return cls(float(array.mean()), float(p50), float(p95), float(array.max()))


class ResourceUse(msgspec.Struct, rename="camel"):
    """One resource over time, in percent of the nodes' total allocatable."""

    requested: Spread
    used: Spread | None = None
    """None for resources without simulated usage."""
    hottest: Spread | None = None
    """The 95th percentile of the nodes' usage, over time, as a measure of imbalance."""


class Series(msgspec.Struct, rename="camel"):
    """Measurements by their times, in seconds since the start. Shares are percent."""

    times: list[float] = []
    nodes: list[int] = []
    pending: list[int] = []
    running: list[int] = []
    hot: list[int] = []
    evicted: list[int] = []
    """So far."""
    requested: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    used_p95: dict[str, list[float]] = {}
    batch_cores: list[float] = []
    """Batch resources that all nodes offer."""
    best_effort_cores: list[float] = []
    """Used by best-effort pods."""
    gangs_whole: list[int] = []
    gangs_partly_bound: list[int] = []
    gangs_waiting: list[int] = []
    """Without a bound member."""
    quota_used: dict[str, dict[str, list[float]]] = {}
    """By quota and resource; zero before the quota exists."""
    quota_runtime: dict[str, dict[str, list[float]]] = {}


class Colocation(msgspec.Struct, rename="camel"):
    """What sharing nodes with best-effort pods gave, and what it cost, in cores and hours of one core."""

    offered: Spread
    """Cores of batch resources of all nodes, over time."""
    offered_core_hours: float
    wanted_core_hours: float
    """By best-effort pods on nodes."""
    used_core_hours: float
    suppressed_core_hours: float
    """What best-effort pods wanted and did not get."""
    evicted: int
    """Best-effort pods that node agents evicted."""
    evicted_core_hours: float
    """What these had used."""
    throttled_core_hours: float
    """What the other pods wanted and their nodes did not have."""


class Gangs(msgspec.Struct, rename="camel"):
    """What became of gangs. One is whole while its minimum of members is bound or has finished."""

    created: int
    whole: int
    """How many were whole at any time."""
    seconds_to_whole: Spread
    """From the creation of the first member; gangs that never were whole count with the time they waited."""
    partly_bound_hours: float
    """Hours of one gang during which some members, but less than the minimum, held resources."""
    longest_partly_bound: float
    """Of these times the longest of one gang, in seconds."""
    whole_at_end: int
    partly_bound_at_end: int
    """Deadlocked, if nothing that runs will end."""
    waiting_at_end: int


class QuotaUse(msgspec.Struct, rename="camel"):
    """One resource of an ElasticQuota over time: cores, bytes, or plain numbers."""

    used: Spread
    runtime: Spread
    """What the quota might have used, by its status."""
    min: float | None = None
    max: float | None = None
    """At the end; None if not set."""


class PodOutcome(msgspec.Struct, rename="camel", omit_defaults=True):
    """One pod; times in seconds since the start."""

    name: str
    workload: str
    created: float
    bound: float | None = None
    node: str = ""
    ended: float | None = None
    outcome: str = ""
    """`finished`, `evicted`, `scaled-down`, `node-left`; empty for a pod that is there at the end."""
    gang: str = ""


class Pods(msgspec.Struct, rename="camel"):
    """The outcomes of the pods."""

    created: int = 0
    bound: int = 0
    finished: int = 0
    evicted: int = 0
    """Evictions, and pods whose node left."""
    evicted_repeatedly: int = 0
    """Evictions of pods that had taken the place of an evicted one shortly before."""
    refused: int = 0
    """Rejected by the API server or a webhook."""
    pending_at_end: int = 0
    running_at_end: int = 0


class Hot(msgspec.Struct, rename="camel"):
    """Nodes at or above a threshold."""

    thresholds: dict[str, float]
    share: float
    """Of the node-time, in percent."""
    node_hours: float
    """The same in hours of one node."""
    at_most: int
    """At one time."""
    nodes: int
    """The number of nodes that were hot at any time."""


class Result(msgspec.Struct, rename="camel"):
    """One scenario under one scheduler."""

    scenario: str
    scheduler: str
    seed: int
    simulated_seconds: float
    wall_seconds: float
    nodes: int
    pods: Pods
    pending_seconds: Spread
    """From creation to binding; pods that are still pending count with the time they have waited."""
    pending_seconds_of: dict[str, Spread]
    """The same by workload."""
    pods_per_node: Spread
    """Bound pods of each node over the whole time."""
    nodes_used: int
    resources: dict[str, ResourceUse]
    hot: Hot
    reports: int
    """NodeMetrics that were written."""
    series: Series
    colocation: Colocation | None = None
    """None where nothing is offered to best-effort pods, and none runs."""
    gangs: Gangs | None = None
    """None where no pod is in a gang."""
    quotas: dict[str, dict[str, QuotaUse]] = {}
    """By ElasticQuota and resource, without the root quotas."""
    placements: list[PodOutcome] = []
    notes: list[str] = []
    """What the numbers depend on and the scenario does not say."""
    problems: list[str] = []
    """Rejected objects and pods with reasons, and logged errors; the first of many."""

    @property
    def speed_up(self) -> float:
        """How many times faster than real time it ran."""
        return self.simulated_seconds / self.wall_seconds if self.wall_seconds else 0.0
