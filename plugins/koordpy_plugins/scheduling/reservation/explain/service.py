"""The response of `/apis/v1/plugins/Reservation/nodeReservations/<name>`.

Source: Koordinator, `pkg/scheduler/plugins/reservation/service.go`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from koordpy.api.quantity import Quantity
from koordpy.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from koordpy.api.resources import Vector
from koordpy.scheduling.interface.reservation_info import AssignedPod, HostPort, ReservationInfo

_GO_NAMES = {
    CPU: "MilliCPU",
    MEMORY: "Memory",
    EPHEMERAL_STORAGE: "EphemeralStorage",
    PODS: "AllowedPodNumber",
}


def node_reservations(infos: Iterable[ReservationInfo]) -> dict[str, Any]:
    """Return everything that is reserved on a node, available or not; {} if nothing is."""
    items = [_item(info) for info in sorted(infos, key=lambda info: info.name)]
    return {"items": items} if items else {}


def _item(info: ReservationInfo) -> dict[str, Any]:
    reservation = info.reservation
    item: dict[str, Any] = {
        "name": info.name,
        "namespace": info.meta.namespace,
        "uid": info.uid,
        "kind": "Pod" if reservation is None else "Reservation",
        "available": info.is_available,
        "allocateOnce": info.is_allocate_once,
        "allocatable": _texts(info.allocatable),
        "reserved": _texts(info.reserved),
        "allocated": _texts(info.allocated or {}),
        "allocatablePorts": _ports(info.ports),
        "allocatedPorts": _ports(info.allocated_ports),
        "availableResource": _resource(info.available),
        "allocatedResource": _resource(info.allocated_vector),
        "owners": [] if reservation is None else msgspec.to_builtins(reservation.spec.owners),
        "allocatePolicy": info.policy,
        "assignedPods": [_pod(pod) for pod in info.assigned.values()],
    }
    return {key: value for key, value in item.items() if value}


def _pod(pod: AssignedPod) -> dict[str, Any]:
    return {
        "Namespace": pod.namespace,
        "Name": pod.name,
        "UID": pod.uid,
        "Requests": _texts(pod.requests),
        "Ports": _ports(pod.ports),
    }


def _texts(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def _resource(amounts: Vector) -> dict[str, Any]:
    """Write a vector as Go's `framework.Resource`."""
    resource: dict[str, Any] = {field: amounts.get(name, 0) for name, field in _GO_NAMES.items()}
    scalars = {name: amount for name, amount in sorted(amounts.items()) if name not in _GO_NAMES}
    return resource | {"ScalarResources": scalars or None}


def _ports(ports: Iterable[HostPort]) -> list[dict[str, Any]]:
    return [{"ip": port.ip, "protocol": port.protocol, "port": port.port} for port in sorted(ports)]
