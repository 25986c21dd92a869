"""The controller's metrics, with Koordinator's names.

Source: Koordinator, `pkg/scheduler/metrics` and `pkg/scheduler/plugins/reservation/controller`.
"""

from collections.abc import Iterable

from prometheus_client import Gauge

from koordpy.api.quantity import milli_value, value
from koordpy.api.reservation import AVAILABLE, FAILED, PENDING, SUCCEEDED, Reservation
from koordpy.api.resource_names import CPU, MEMORY

PHASES = (PENDING, AVAILABLE, SUCCEEDED, FAILED)

_GI = 1 << 30

STATUS_PHASE = Gauge(
    "scheduler_reservation_status_phase", "1 for the phase of a Reservation.", ["name", "phase"]
)
RESOURCE = Gauge(
    "scheduler_reservation_resource",
    "What Reservations hold (allocatable), what owners use of it (allocated), and the ratio (utilization).",
    ["type", "name", "resource", "unit"],
)


def record_all(reservations: Iterable[Reservation]) -> None:
    """Replace all series with those of the existing Reservations."""
    forget()
    for reservation in reservations:
        for phase in PHASES:
            is_in = phase == (reservation.status.phase or PENDING)
            STATUS_PHASE.labels(reservation.metadata.name, phase).set(int(is_in))
        record_resources(reservation)


def record_resources(reservation: Reservation) -> None:
    """Record what a Reservation holds and how much of it is used; nothing before it holds anything."""
    name, status = reservation.metadata.name, reservation.status
    for resource, wire in status.allocatable.items():
        unit, held = _amount(resource, wire)
        _, used = _amount(resource, status.allocated.get(resource, 0))
        RESOURCE.labels("allocatable", name, resource, unit).set(held)
        RESOURCE.labels("allocated", name, resource, unit).set(used)
        if held > 0:
            RESOURCE.labels("utilization", name, resource, "ratio").set(used / held)


def forget() -> None:
    """Remove all series."""
    STATUS_PHASE.clear()
    RESOURCE.clear()


def _amount(resource: str, wire: str | int | float) -> tuple[str, float]:
    if resource == CPU:
        return "core", milli_value(wire) / 1000
    if resource == MEMORY:
        return "Gi", value(wire) / _GI
    return "raw", float(value(wire))
