"""The usage of real pods: a share of their requests with some noise, or what their annotations say."""

from dataclasses import dataclass
from typing import Final
from zlib import crc32

from koordpy.api.core import Node, Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.resources import node_allocatable, pod_request_vector
from koordpy.cluster.client import Client

from . import annotations as says
from .curves import Curve
from .runtime import DocumentRuntime
from .usage import MEASURED, Usage

_CPU: Final = Curve(factor=0.5, noise=0.1)
_MEMORY: Final = Curve(factor=0.6, noise=0.02)
_EXACT: Final = Curve(noise=0.02)
_LEAST: Final = (10.0, 32.0 * (1 << 20))
"""What a pod without requests uses."""
_SYSTEM: Final = (150.0, 512.0 * (1 << 20))
"""What a node itself uses."""
_ALSO: Final = (
    ("kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"),
    ("kubernetes.io/batch-memory", "kubernetes.io/mid-memory"),
)
"""Koordinator's resources that are cpu and memory under other names."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one pod uses."""

    curves: tuple[Curve, Curve]
    base: tuple[float, float]
    number: int


def measured(pod: Pod) -> Measured:
    """Return what a pod uses."""
    notes = pod.metadata.annotations
    try:
        requests = pod_request_vector(pod)
    except QuantityError:
        requests = {}
    curves, base = [], []
    for column, (resource, annotation) in enumerate(
        zip(MEASURED, (says.USED_CPU, says.USED_MEMORY), strict=True)
    ):
        told = says.amount(notes, annotation, resource)
        curve = (_CPU, _MEMORY)[column] if told is None else _EXACT
        requested = requests.get(resource, 0) or max(requests.get(name, 0) for name in _ALSO[column])
        share = float(requested) * (curve.factor or 1.0) or _LEAST[column]
        curves.append(curve)
        base.append(share if told is None else told)
    number = crc32(pod.metadata.uid.encode())
    return Measured((curves[0], curves[1]), (base[0], base[1]), number)


class MeasuredRuntime(DocumentRuntime):
    """Pods do what they say, and use resources while they run."""

    def __init__(self, client: Client, usage: Usage) -> None:
        super().__init__(client)
        self.usage = usage
        self._slots: dict[str, int] = {}

    def started(self, pod: Pod) -> None:
        """Add the pod's usage."""
        if pod.spec.node_name in self.usage.row_of:
            key = pod.metadata.namespace, pod.metadata.name
            self._slots[pod.metadata.uid] = self.usage.begin(measured(pod), key, pod.spec.node_name, 0.0)

    def stopped(self, pod: Pod) -> None:
        """Remove the pod's usage."""
        slot = self._slots.pop(pod.metadata.uid, None)
        if slot is not None:
            self.usage.end(slot)

    def node_changed(self, node: Node) -> None:
        """Set what a node has, and what it uses itself."""
        notes = node.metadata.annotations
        try:
            amounts = node_allocatable(node)
        except QuantityError:
            amounts = {}
        capacity = [float(amounts.get(resource, 0)) for resource in MEASURED]
        system = [
            default if (told := says.amount(notes, annotation, resource)) is None else told
            for resource, annotation, default in zip(
                MEASURED, (says.USED_CPU, says.USED_MEMORY), _SYSTEM, strict=True
            )
        ]
        name = node.metadata.name
        self.usage.add(name, (capacity[0], capacity[1]), (system[0], system[1]))
        self.usage.join(name)
