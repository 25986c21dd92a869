"""Requests of pods and allocatable resources of nodes.

A *vector* is a `dict[str, int]`: cpu in milli, everything else in base units. Amounts are summed first and
rounded up once. Scheduling works with the vectors, which are computed from cached integers; the few pods
whose amounts are not whole in these units (`100u` of cpu, `1500m` of memory), negative or huge are computed
with exact quantities, so both ways give the same result. The functions that return `Quantity` are for code
that writes amounts back: a value that was only copied keeps its text.

There are two views of a pod. *Spec*: the requests of its containers; fit and Koordinator's plugins use it.
*Status-aware*: what a node must reserve for it during a resize of a container; accounting of bound pods uses
it.

Sources: Kubernetes, `k8s.io/component-helpers/resource` and `pkg/scheduler/framework` (`Resource`,
`PodInfo`); Koordinator, `pkg/util/pod.go` and `pkg/util/container.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeVar

from koordpy.lib.bounded_cache import cached, text_size

from . import resource_names
from .core import Container, ContainerStatus, Node, Pod
from .meta import ResourceList
from .quantity import MILLI, Format, Quantity, WireQuantity, from_wire, resource_value
from .resource_names import CPU, MEMORY, PODS

Vector = dict[str, int]
"""Resource name to amount: cpu in milli, everything else in base units."""

DEFAULT_MILLI_CPU: Final = 100
"""Milli-cpu that counted for a container without a request where empty requests must not be free."""

DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes that counted for a container without a request where empty requests must not be free."""

_Field = Literal["requests", "limits"]
_Amount = TypeVar("_Amount", int, Quantity)
_Read = Callable[[Mapping[str, WireQuantity]], dict[str, _Amount]]


# --- two ways to read a resource list ------------------------------------------------------------


class _NotWhole(Exception):
    """An amount cannot be represented as a plain integer."""


_LARGEST_PLAIN: Final = 1 << 53


@cached("plain_amounts", 4 << 20, lambda named, _: text_size(named[0], 0) + text_size(named[1], 0))
def _plain(named: tuple[str, WireQuantity]) -> int:
    """The integer of an amount that is whole, not negative, and far from 64 bits in sums. Else -1."""
    name, amount = named
    quantity = from_wire(amount)
    number = resource_value(name, amount)
    exact = Quantity.of_scaled(number, MILLI if name == CPU else 0)
    return number if 0 <= number <= _LARGEST_PLAIN and quantity == exact else -1


def _plain_amounts(amounts: Mapping[str, WireQuantity]) -> Vector:
    vector = {}
    for name, amount in amounts.items():
        number = _plain((name, amount))
        if number < 0:
            raise _NotWhole
        vector[name] = number
    return vector


def quantities(amounts: Mapping[str, WireQuantity]) -> dict[str, Quantity]:
    """Read a resource list. Raises QuantityError."""
    return {name: from_wire(amount) for name, amount in amounts.items()}


def vector(amounts: Mapping[str, Quantity]) -> Vector:
    """Round quantities up to a vector."""
    return {
        name: quantity.milli_value() if name == CPU else quantity.value()
        for name, quantity in amounts.items()
    }


def wire_vector(amounts: Mapping[str, WireQuantity]) -> Vector:
    """Round a resource list as it came over the wire up to a vector. Raises QuantityError."""
    return {name: resource_value(name, amount) for name, amount in amounts.items()}


def counted(amounts: Vector) -> Vector:
    """Return the part of a vector that the scheduler counts; unprefixed unknown names are dropped."""
    return {name: number for name, number in amounts.items() if resource_names.is_counted(name)}


# --- the rule ------------------------------------------------------------------------------------


def _add(total: dict[str, _Amount], amounts: Mapping[str, _Amount]) -> None:
    for name, amount in amounts.items():
        known = total.get(name)
        total[name] = amount if known is None else known + amount


def _raise_to(total: dict[str, _Amount], amounts: Mapping[str, _Amount]) -> None:
    for name, amount in amounts.items():
        known = total.get(name)
        if known is None or amount > known:
            total[name] = amount


def is_sidecar(container: Container) -> bool:
    """Return whether an init container keeps running beside the containers."""
    return container.restart_policy == "Always"


def _resized(pod: Pod) -> dict[str, ContainerStatus]:
    """The statuses that can override a container's requests, by container name; the last of each name."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    if not statuses or all(item.resources is None for item in statuses):
        return {}
    return {item.name: item for item in statuses}


def _is_resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _effective(
    field: _Field,
    own: dict[str, _Amount],
    status: ContainerStatus | None,
    read: _Read[_Amount],
    infeasible: bool,
) -> dict[str, _Amount]:
    """The amounts of a container being resized: the largest of requested, allocated and actual."""
    if status is None or status.resources is None:
        return own
    effective = {} if infeasible else own
    _raise_to(effective, read(getattr(status.resources, field)))
    if field == "requests":
        _raise_to(effective, read(status.allocated_resources))
    return effective


def _of_containers(
    pod: Pod, field: _Field, read: _Read[_Amount], with_status: bool, defaults: Mapping[str, _Amount]
) -> dict[str, _Amount]:
    """Sum over containers and sidecars, raised to what any init container needs beside earlier sidecars."""
    resized = _resized(pod) if with_status else {}
    containers = pod.spec.containers
    if len(containers) == 1 and not pod.spec.init_containers and not resized:  # as most pods
        only = read(getattr(containers[0].resources, field))
        for name, amount in defaults.items():
            only.setdefault(name, amount)
        return only
    infeasible = bool(resized) and _is_resize_infeasible(pod)

    def amounts_of(container: Container, status: ContainerStatus | None) -> dict[str, _Amount]:
        amounts = read(getattr(container.resources, field))
        if status is not None:
            amounts = _effective(field, amounts, status, read, infeasible)
        for name, amount in defaults.items():
            amounts.setdefault(name, amount)
        return amounts

    total: dict[str, _Amount] = {}
    for container in containers:
        _add(total, amounts_of(container, resized.get(container.name)))
    if pod.spec.init_containers:
        sidecars: dict[str, _Amount] = {}
        peak: dict[str, _Amount] = {}
        for container in pod.spec.init_containers:
            if is_sidecar(container):
                amounts = amounts_of(container, resized.get(container.name))
                _add(total, amounts)
                _add(sidecars, amounts)
                _raise_to(peak, sidecars)
            else:
                amounts = amounts_of(container, None)
                _add(amounts, sidecars)
                _raise_to(peak, amounts)
        _raise_to(total, peak)
    return total


def _requests(
    pod: Pod,
    read: _Read[_Amount],
    *,
    overhead: bool = True,
    with_status: bool = False,
    defaults: Mapping[str, _Amount] | None = None,
) -> dict[str, _Amount]:
    """Requests of containers, overridden by pod-level requests, plus the overhead."""
    total = _of_containers(pod, "requests", read, with_status, defaults or {})
    if pod.spec.resources is not None:
        total.update(_pod_level(read, pod.spec.resources.requests))
    if overhead and pod.spec.overhead:
        _add(total, read(pod.spec.overhead))
    return total


def _limits(
    pod: Pod, read: _Read[_Amount], *, overhead: bool = True, with_status: bool = False
) -> dict[str, _Amount]:
    """Limits as requests; overhead is added only if there is a limit other than 0."""
    total = _of_containers(pod, "limits", read, with_status, {})
    if pod.spec.resources is not None:
        total.update(_pod_level(read, pod.spec.resources.limits))
    if overhead and pod.spec.overhead:
        for name, amount in read(pod.spec.overhead).items():
            limit = total.get(name)
            if limit is not None and not _is_zero(limit):
                total[name] = limit + amount
    return total


def _is_zero(amount: int | Quantity) -> bool:
    return amount.is_zero if isinstance(amount, Quantity) else amount == 0


def _pod_level(read: _Read[_Amount], amounts: ResourceList) -> dict[str, _Amount]:
    return read({name: amount for name, amount in amounts.items() if resource_names.is_pod_level(name)})


def _has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(resource_names.is_pod_level, resources.requests))


# --- spec ----------------------------------------------------------------------------------------


def pod_requests(pod: Pod, *, overhead: bool = True) -> dict[str, Quantity]:
    """Return the requests of a pod's spec, as exact quantities. Raises QuantityError."""
    return _requests(pod, quantities, overhead=overhead)


def pod_limits(pod: Pod, *, overhead: bool = True) -> dict[str, Quantity]:
    """Return the limits of a pod's spec, as exact quantities; a container without a limit adds nothing."""
    return _limits(pod, quantities, overhead=overhead)


def pod_request_vector(pod: Pod, *, overhead: bool = True) -> Vector:
    """Return the requests of a pod's spec, under all names it uses. Raises QuantityError."""
    try:
        return _requests(pod, _plain_amounts, overhead=overhead)
    except _NotWhole:
        return vector(pod_requests(pod, overhead=overhead))


def pod_request_nanos(pod: Pod) -> Vector:
    """Return the requests of a pod's spec in billionths, exact, to be summed before they are rounded.

    Raises QuantityError.
    """
    try:
        plain = _requests(pod, _plain_amounts)
    except _NotWhole:
        return {name: quantity.nano_value() for name, quantity in pod_requests(pod).items()}
    return {name: number * (1_000_000 if name == CPU else 1_000_000_000) for name, number in plain.items()}


def pod_limit_vector(pod: Pod, *, overhead: bool = True) -> Vector:
    """Return the limits of a pod's spec, under all names it uses. Raises QuantityError."""
    try:
        return _limits(pod, _plain_amounts, overhead=overhead)
    except _NotWhole:
        return vector(pod_limits(pod, overhead=overhead))


def pod_fit_vector(pod: Pod) -> Vector:
    """Return what must be free on a node for a pod: the counted names except `pods`, never below 0."""
    return {
        name: max(0, number)
        for name, number in pod_request_vector(pod).items()
        if name != PODS and resource_names.is_counted(name)
    }


def surely_same(pod: Pod, other: Pod) -> bool:
    """Return whether two versions of a pod certainly have equal requests. False means unknown."""
    if pod is other:
        return True
    spec, status, its_spec, its_status = pod.spec, pod.status, other.spec, other.status
    return (
        spec.containers == its_spec.containers
        and spec.init_containers == its_spec.init_containers
        and spec.overhead == its_spec.overhead
        and spec.resources == its_spec.resources
        and not (status.container_statuses or status.init_container_statuses)
        and not (its_status.container_statuses or its_status.init_container_statuses)
    )


# --- status-aware --------------------------------------------------------------------------------


def pod_status_requests(pod: Pod) -> dict[str, Quantity]:
    """Return what a node must reserve for a pod, as exact quantities. Raises QuantityError."""
    return _requests(pod, quantities, with_status=True)


def pod_status_limits(pod: Pod) -> dict[str, Quantity]:
    """Return the effective limits of a pod, as exact quantities. Raises QuantityError."""
    return _limits(pod, quantities, with_status=True)


def pod_status_vector(pod: Pod) -> Vector:
    """Return what a node must reserve for a pod, under all names it uses. Raises QuantityError."""
    try:
        return _requests(pod, _plain_amounts, with_status=True)
    except _NotWhole:
        return vector(pod_status_requests(pod))


def pod_node_request_vector(pod: Pod) -> Vector:
    """Return what a pod occupies on a node: the counted names except `pods`, of which it always occupies one.

    Raises QuantityError.
    """
    return {
        name: number
        for name, number in pod_status_vector(pod).items()
        if name != PODS and resource_names.is_counted(name)
    }


# --- requests that are never empty ---------------------------------------------------------------


def _with_defaults(pod: Pod, names: Iterable[str]) -> tuple[int, int]:
    """Cpu and memory of a pod whose containers have a default for each missing one of some names."""
    defaults = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}
    try:
        requests = _requests(
            pod, _plain_amounts, with_status=True, defaults={name: defaults[name] for name in names}
        )
    except _NotWhole:
        exact = {
            name: Quantity.of_scaled(defaults[name], MILLI if name == CPU else 0, Format.DECIMAL_SI)
            for name in names
        }
        requests = vector(_requests(pod, quantities, with_status=True, defaults=exact))
    return requests.get(CPU, 0), requests.get(MEMORY, 0)


def pod_score_request(pod: Pod) -> tuple[int, int]:
    """Return the milli-cpu and bytes of memory of a pod for scoring nodes.

    Every container, init containers too, that does not name cpu or memory counts 100m or 200 MiB; an explicit
    0 stays 0. Requests of the whole pod still replace the sums.
    """
    return _with_defaults(pod, (CPU, MEMORY))


def pod_nonzero_request(pod: Pod) -> tuple[int, int]:
    """Return the milli-cpu and bytes of memory that a bound pod adds to its node's non-zero sums.

    As `pod_score_request`; for a pod with requests of its own only those names get defaults that neither it,
    nor a container, nor the overhead mentions.
    """
    if not _has_pod_level_requests(pod):
        return _with_defaults(pod, (CPU, MEMORY))
    known = pod_status_vector(pod)
    missing = [name for name in (CPU, MEMORY) if name not in known]
    return _with_defaults(pod, missing) if missing else (known[CPU], known[MEMORY])


# --- nodes ---------------------------------------------------------------------------------------


def node_allocatable(node: Node) -> Vector:
    """Return a node's allocatable under the counted names; `pods` is the most pods it may run."""
    return counted(wire_vector(node.status.allocatable))
