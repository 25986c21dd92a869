"""The estimated usage of a pod before it is measured, and the unamplified capacity of a node.

Pure functions. A vector is a list of integers in the order of the resource names in the arguments:
milli for cpu, base units for everything else. Source: Koordinator,
`pkg/scheduler/plugins/loadaware/estimator/default_estimator.go`.
"""

from collections.abc import Sequence

from koordpy.api import qos, quantity, resources
from koordpy.api.core import Node, Pod
from koordpy.api.extension import BATCH_CPU, BATCH_MEMORY
from koordpy.api.meta import ResourceList
from koordpy.api.resources import pod_limit_vector, pod_request_vector
from koordpy.lib import int64
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.last_answer import LastAnswer

from . import annotations
from .settings import LoadSettings

Vector = list[int]

OBJECTS_BYTES = 4 << 20

DEFAULT_MILLI_CPU = 250
DEFAULT_MEMORY = 200 * 1024 * 1024

_WITHOUT_REQUEST = {
    "cpu": DEFAULT_MILLI_CPU,
    BATCH_CPU: DEFAULT_MILLI_CPU,
    "memory": DEFAULT_MEMORY,
    BATCH_MEMORY: DEFAULT_MEMORY,
}


class Estimator:
    """Koordinator's `defaultEstimator`, which is also used for unknown names."""

    def __init__(self, settings: LoadSettings) -> None:
        self.names: Sequence[str] = settings.names
        self._factors = settings.scaling_factors
        self._custom = settings.allow_customize_estimation
        self.of_pod = LastAnswer(self._of_pod, surely_same).of
        """Estimate a pod's usage (r,), which must not be changed; cached for the pods of a workload."""
        self._of_objects: BoundedLru[int, tuple[Pod, Vector]]
        self._of_objects = BoundedLru("load_estimates", OBJECTS_BYTES)

    def vector(self, amounts: ResourceList) -> Vector:
        """Convert a resource list to a vector; missing resources are 0. Raises QuantityError."""
        return [quantity.resource_value(name, amounts[name]) if name in amounts else 0 for name in self.names]

    def of_object(self, pod: Pod) -> Vector:
        """Estimate a pod that is passed again and again as the same object, among different ones."""
        known = self._of_objects.get(id(pod))
        if known is None:
            known = pod, self._of_pod(pod)  # the pod is kept, so that its id is not reused
            self._of_objects.put(id(pod), known, 4_000)
        return known[1]

    def _of_pod(self, pod: Pod) -> Vector:
        """Return a percentage of the larger of request and limit, at most the limit."""
        factors = self._factors
        if self._custom:
            own = annotations.scaling_factors(pod)
            if own:
                factors = {**factors, **own}
        priority_class = qos.priority_class(pod)
        requests, limits = pod_request_vector(pod), pod_limit_vector(pod)
        estimates = []
        for name in self.names:
            factor = factors.get(name)
            if factor is None:
                estimates.append(0)
                continue
            real = qos.translate_resource(priority_class, name)
            limit = limits.get(real, 0)
            amount = max(requests.get(real, 0), limit)
            if amount == 0:
                estimates.append(_WITHOUT_REQUEST.get(real, 0))
                continue
            estimate = int64.from_float(_round(float(amount) * float(factor) / 100))
            estimates.append(limit if 0 < limit < estimate else estimate)
        return estimates

    def of_node(self, node: Node) -> Vector:
        """Return the capacity for comparisons: allocatable, before amplification where the node has it."""
        return self.vector({**node.status.allocatable, **annotations.raw_allocatable(node)})


def surely_same(pod: Pod, other: Pod) -> bool:
    """Return whether two versions of a pod certainly have the same estimate and priority class."""
    if pod is other:
        return True
    meta, its_meta = pod.metadata, other.metadata
    return (
        meta.labels == its_meta.labels
        and meta.annotations == its_meta.annotations
        and pod.spec.priority == other.spec.priority
        and pod.spec.priority_class_name == other.spec.priority_class_name
        and pod.status.qos_class == other.status.qos_class
        and resources.surely_same(pod, other)
    )


def _round(number: float) -> float:
    """Round to the nearest whole number, halves away from zero, as Go does."""
    whole = float(int(number)) if abs(number) < 1 << 53 else number
    if abs(number - whole) >= 0.5:
        whole += 1.0 if number > 0 else -1.0
    return whole
