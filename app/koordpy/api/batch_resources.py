"""The cpu limit and the batch resources of pods, as Koordinator's agents sum them on a node."""

from typing import Final, Literal

from .core import Container, Pod, ResourceRequirements
from .quantity import milli_value, resource_value
from .resource_names import CPU
from .resources import is_sidecar

UNLIMITED: Final = -1
"""The value for an unlimited resource."""

_Field = Literal["requests", "limits"]


def container_amount(resources: ResourceRequirements, field: _Field, name: str) -> int:
    """Return one request or limit (cpu in milli, others in base units), or -1 where it is missing."""
    amount = getattr(resources, field).get(name)
    return UNLIMITED if amount is None else resource_value(name, amount)


def pod_milli_cpu_limit(pod: Pod) -> int:
    """Return the milli-cpu that a pod may use, or -1 if it is unlimited.

    A pod-level cpu limit takes precedence. Otherwise limits of containers and sidecars are summed, other init
    containers raise the sum so far, and one container without a limit makes the pod unlimited.
    """
    resources = pod.spec.resources
    if resources is not None and (amount := resources.limits.get(CPU)) is not None:
        return milli_value(amount) or UNLIMITED
    total = 0
    for container in pod.spec.containers:
        limit = container_amount(container.resources, "limits", CPU)
        if limit <= 0:
            return UNLIMITED
        total += limit
    for container in pod.spec.init_containers:
        limit = container_amount(container.resources, "limits", CPU)
        if limit <= 0:
            return UNLIMITED
        total = total + limit if is_sidecar(container) else max(total, limit)
    return total if total > 0 else UNLIMITED


def pod_batch_request(pod: Pod, name: str) -> int:
    """Return the sum of batch-cpu (milli) or batch-memory (bytes) requests of containers and sidecars."""
    return sum(
        max(0, container_amount(container.resources, "requests", name)) for container in _long_running(pod)
    )


def pod_batch_limit(pod: Pod, name: str) -> int:
    """Return the sum of their batch-cpu or batch-memory limits, -1 if one is unlimited."""
    total = 0
    for container in _long_running(pod):
        limit = container_amount(container.resources, "limits", name)
        if limit <= 0:
            return UNLIMITED
        total += limit
    return total if total > 0 else UNLIMITED


def _long_running(pod: Pod) -> list[Container]:
    return [*pod.spec.containers, *filter(is_sidecar, pod.spec.init_containers)]
