"""Requests of pods as integers, and integers as text.

Equal requests are computed once: a cluster has far fewer kinds of pods than pods.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from koordpy.api import extension
from koordpy.api.core import Container, Pod
from koordpy.api.quantity import (
    MILLI,
    Format,
    Quantity,
    QuantityError,
    WireQuantity,
    nano_value,
    resource_value,
)
from koordpy.api.resource_names import CPU
from koordpy.api.resources import pod_request_nanos, pod_status_vector

Vector = dict[str, int]
"""Resource name to amount: cpu in milli, everything else in base units."""

_BYTES: Final = frozenset(
    ("memory", "ephemeral-storage", extension.BATCH_MEMORY, extension.MID_MEMORY, extension.GPU_MEMORY)
)
_NANO: Final = -9


class Requests(msgspec.Struct, gc=False, frozen=True, eq=False):
    """What a pod occupies on its node (rounded up), and what its spec requests (exact, in billionths)."""

    occupied: Vector
    nanos: Vector


NOTHING: Final = Requests({}, {})


class RequestReader:
    """Reads requests of pods; equal containers are read once."""

    def __init__(self) -> None:
        self._known: dict[Any, Requests] = {}

    def of(self, pod: Pod) -> Requests:
        """Return the requests of a pod; nothing for amounts that are not quantities."""
        spec = pod.spec
        if spec.init_containers or spec.overhead or spec.resources is not None:
            return _read(pod)
        containers = spec.containers
        if len(containers) == 1:
            # Most pods: a call less for each.
            requests = containers[0].resources.requests
            for status in pod.status.container_statuses:
                told = status.resources
                if told is None:
                    continue
                allocated = status.allocated_resources
                if (
                    told.requests != requests
                    or (allocated and allocated != requests)
                    or status.name != containers[0].name
                ):
                    return _read(pod)
            key: Any = tuple(requests.items())
        elif _resizes(pod):
            return _read(pod)
        else:
            key = [tuple(container.resources.requests.items()) for container in containers]
            key = (len(key), *key)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _read(pod)
        return known


def _resizes(pod: Pod) -> bool:
    """Whether the status of a container says anything else than its spec about its requests."""
    containers: dict[str, Container] = {}
    for status in pod.status.container_statuses:
        if status.resources is None:
            continue
        if not containers:
            containers = {container.name: container for container in pod.spec.containers}
        container = containers.get(status.name)
        if container is None:
            return True
        requests = container.resources.requests
        allocated = status.allocated_resources
        if status.resources.requests != requests or (allocated and allocated != requests):
            return True
    return False


def _read(pod: Pod) -> Requests:
    try:
        return Requests(pod_status_vector(pod), pod_request_nanos(pod))
    except QuantityError:
        return NOTHING


def added(one: Vector, other: Vector) -> Vector:
    """Return the sum of two vectors; neither changes."""
    total = dict(one)
    for name, number in other.items():
        total[name] = total.get(name, 0) + number
    return total


def vector(amounts: Mapping[str, Any]) -> Vector:
    """Return a resource list as integers, without what is not a quantity."""
    found: Vector = {}
    for name, amount in amounts.items():
        try:
            found[name] = resource_value(name, amount)
        except QuantityError:
            continue
    return found


def nanos(amounts: Mapping[str, WireQuantity]) -> Vector:
    """Return a resource list in billionths, without what is not a quantity."""
    found: Vector = {}
    for name, amount in amounts.items():
        try:
            found[name] = nano_value(amount)
        except QuantityError:
            continue
    return found


def text(name: str, number: int) -> str:
    """Write an amount of a resource as in a manifest."""
    scale = MILLI if name == CPU else 0
    return str(Quantity.of_scaled(number, scale, Format.BINARY_SI if name in _BYTES else Format.DECIMAL_SI))


def nano_text(name: str, number: int) -> str:
    """Write an amount in billionths as in a manifest."""
    if name in _BYTES and number % 10**9 == 0:
        return str(Quantity.of(number // 10**9, Format.BINARY_SI))
    return str(Quantity.of_scaled(number, _NANO, Format.DECIMAL_SI))
