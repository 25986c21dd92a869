"""The planned external events: nodes, pods, Deployments and objects with their times."""

from dataclasses import dataclass, field
from typing import Any

from koordpy.embedded.kubelet.curves import Curve

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node and its time."""

    name: str
    document: Document
    joins: float
    leaves: float | None
    system: tuple[float, float]
    """What the node itself uses, as `MEASURED`."""
    capacity: tuple[float, float]


@dataclass(slots=True)
class PlannedPod:
    """A pod as it is created, how long it runs, and what it uses."""

    document: Document
    workload: str
    arrival: float
    duration: float | None
    curves: tuple[Curve, Curve]
    base: tuple[float, float]
    """The amounts that scale the curves, as `MEASURED`."""
    returns: bool = True
    """Whether it is created again after an eviction."""
    gang: str = ""
    """The ID of its gang."""
    gang_minimum: int = 0
    """The minimum of its gang, if the pod says one."""
    number: int = 0
    """Its index among all pods, which its noise depends on."""


@dataclass(frozen=True, slots=True)
class PlannedDeployment:
    """A Deployment, its pod, and its replicas over time."""

    document: Document
    pod: PlannedPod
    scale: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True)
class PlannedObject:
    """An object, when it is created, and when it is deleted."""

    document: Document
    at: float
    until: float | None


@dataclass(slots=True)
class Plan:
    """All external events, in the order of time."""

    nodes: list[PlannedNode] = field(default_factory=list)
    pods: list[PlannedPod] = field(default_factory=list)
    deployments: list[PlannedDeployment] = field(default_factory=list)
    objects: list[PlannedObject] = field(default_factory=list)
