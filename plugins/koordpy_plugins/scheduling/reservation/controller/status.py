"""The status of a placed Reservation, computed from the pods that use it.

Source: Koordinator, `pkg/scheduler/plugins/reservation/controller/controller.go` (`syncStatus`,
`nextSyncTime`).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from koordpy.api.core import ObjectReference, Pod
from koordpy.api.meta import ResourceList, parse_time
from koordpy.api.quantity import Quantity
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import set_succeeded
from koordpy.api.resources import pod_requests, quantities
from koordpy.lib import duration

SOONEST, LATEST = 3.0, 15.0
"""Seconds between two checks of a Reservation that will expire."""


def with_owners(reservation: Reservation, pods: Iterable[Pod], now: datetime) -> Reservation:
    """Return the Reservation with these pods as its owners; the very same one if they are known already.

    A Reservation that one pod uses up has succeeded with the first change. Raises QuantityError.
    """
    status = reservation.status
    users = sorted(pods, key=lambda pod: pod.metadata.uid)
    owners = [
        ObjectReference(namespace=pod.metadata.namespace, name=pod.metadata.name, uid=pod.metadata.uid)
        for pod in users
    ]
    allocated = _allocated(users, status.allocatable)
    known = sorted(status.current_owners, key=lambda owner: owner.uid)
    if owners == known and allocated == quantities(status.allocated):
        return reservation
    changed = msgspec.structs.replace(
        reservation,
        status=msgspec.structs.replace(
            status,
            current_owners=owners,
            allocated={name: str(amount) for name, amount in allocated.items()},
        ),
    )
    return set_succeeded(changed, now) if reservation.is_allocate_once else changed


def _allocated(pods: Iterable[Pod], allocatable: ResourceList) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for pod in pods:
        for name, amount in pod_requests(pod).items():
            if name in allocatable:
                known = total.get(name)
                total[name] = amount if known is None else known + amount
    return total


def next_sync(reservation: Reservation, now: datetime) -> float | None:
    """Return the seconds until a Reservation is to be checked again, None for never.

    Raises ValueError for a time or a duration that cannot be read.
    """
    if reservation.is_terminated:
        return None
    spec, created = reservation.spec, reservation.metadata.creation_timestamp
    if spec.expires is not None:
        due = parse_time(spec.expires)
    else:
        ttl = duration.parse(spec.ttl) if spec.ttl is not None else 0
        if ttl <= 0 or created is None:
            return None
        due = parse_time(created) + timedelta(microseconds=ttl / 1000)
    return min(max((due - now).total_seconds(), SOONEST), LATEST)
