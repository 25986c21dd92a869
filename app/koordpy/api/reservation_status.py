"""The lifecycle of a Reservation: the transitions of its status.

Pure functions from a Reservation to a changed copy; `status_patch` returns what must be written. Source:
Koordinator, `pkg/util/reservation/reservation.go` (`SetReservation...`, `IsReservationExpired`).
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from koordpy.lib import duration

from . import json_merge
from .meta import Condition, format_time, parse_time
from .reservation import AVAILABLE, FAILED, SUCCEEDED, Reservation
from .reservation_annotations import resized_allocatable
from .reserve_pod import reservation_request_list

SCHEDULED, READY = "Scheduled", "Ready"
"""Types of conditions."""

REASON_SCHEDULED, REASON_UNSCHEDULABLE = "Scheduled", "Unschedulable"
REASON_AVAILABLE, REASON_SUCCEEDED, REASON_EXPIRED = "Available", "Succeeded", "Expired"

TRUE, FALSE = "True", "False"


def set_available(reservation: Reservation, node_name: str, now: datetime) -> Reservation:
    """Return the Reservation once it holds its resources on a node.

    Raises DecodeError for an invalid resize annotation, QuantityError for an invalid amount.
    """
    allocatable = reservation_request_list(reservation) | resized_allocatable(
        reservation.metadata.annotations
    )
    moment = format_time(now)
    conditions = [
        Condition(type=type_, status=TRUE, reason=reason, last_probe_time=moment, last_transition_time=moment)
        for type_, reason in ((SCHEDULED, REASON_SCHEDULED), (READY, REASON_AVAILABLE))
    ]
    return _with_status(
        reservation,
        phase=AVAILABLE,
        node_name=node_name,
        allocatable=allocatable,
        conditions=conditions,
    )


def set_unschedulable(reservation: Reservation, message: str, now: datetime) -> Reservation:
    """Return the Reservation after an attempt to schedule it failed; its phase stays."""
    moment = format_time(now)
    known = _condition(reservation, SCHEDULED)
    if known is None:
        fresh = Condition(
            type=SCHEDULED,
            status=FALSE,
            reason=REASON_UNSCHEDULABLE,
            message=message,
            last_probe_time=moment,
            last_transition_time=moment,
        )
        return _with_status(reservation, conditions=[*reservation.status.conditions, fresh])
    changed = {"last_probe_time": moment}
    if known.status != TRUE:
        changed |= {"reason": REASON_UNSCHEDULABLE, "message": message}
    return _with_condition(reservation, known, **changed)


def set_succeeded(reservation: Reservation, now: datetime) -> Reservation:
    """Return the Reservation after it was used up."""
    moment = format_time(now)
    succeeded = _with_status(reservation, phase=SUCCEEDED)
    known = _condition(succeeded, READY)
    if known is None:
        return _with_status(
            succeeded, conditions=[*succeeded.status.conditions, _ended(REASON_SUCCEEDED, moment)]
        )
    return _with_condition(succeeded, known, status=FALSE, reason=REASON_SUCCEEDED, last_probe_time=moment)


def set_expired(reservation: Reservation, now: datetime) -> Reservation:
    """Return the Reservation after it has expired or its node is gone."""
    moment = format_time(now)
    failed = _with_status(reservation, phase=FAILED)
    known = _condition(failed, READY)
    if known is None:
        return _with_status(failed, conditions=[*failed.status.conditions, _ended(REASON_EXPIRED, moment)])
    if known.status == TRUE:
        fresh = _ended(REASON_EXPIRED, moment)
        conditions = [fresh if item is known else item for item in failed.status.conditions]
        return _with_status(failed, conditions=conditions)
    return _with_condition(failed, known, reason=REASON_EXPIRED, last_probe_time=moment)


def is_expired(reservation: Reservation) -> bool:
    """Return whether a Reservation has ended because it expired."""
    if reservation.status.phase != FAILED:
        return False
    ready = _condition(reservation, READY)
    return ready is not None and ready.status == FALSE and ready.reason == REASON_EXPIRED


def needs_expiration(reservation: Reservation, now: datetime) -> bool:
    """Return whether a Reservation has expired.

    A ttl of 0 also disables `expires`. Raises ValueError for an invalid time or duration.
    """
    if reservation.is_terminated:
        return False
    spec = reservation.spec
    ttl = None if spec.ttl is None else duration.parse(spec.ttl)
    if ttl == 0:
        return False
    if spec.expires is not None and now > parse_time(spec.expires):
        return True
    created = reservation.metadata.creation_timestamp
    if ttl is None or created is None:
        return False
    return now - parse_time(created) > timedelta(microseconds=ttl / 1000)


def status_patch(before: Reservation, after: Reservation) -> dict[str, Any]:
    """Return the merge patch of the status subresource, which fails if the object has changed meanwhile."""
    meta = before.metadata
    return {
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": json_merge.diff(
            msgspec.to_builtins(before.status, str_keys=True),
            msgspec.to_builtins(after.status, str_keys=True),
        ),
    }


def _condition(reservation: Reservation, type_: str) -> Condition | None:
    return next((item for item in reservation.status.conditions if item.type == type_), None)


def _ended(reason: str, moment: str) -> Condition:
    return Condition(
        type=READY, status=FALSE, reason=reason, last_probe_time=moment, last_transition_time=moment
    )


def _with_condition(reservation: Reservation, known: Condition, **changes: str) -> Reservation:
    changed = msgspec.structs.replace(known, **changes)
    conditions = [changed if item is known else item for item in reservation.status.conditions]
    return _with_status(reservation, conditions=conditions)


def _with_status(reservation: Reservation, **changes: Any) -> Reservation:
    return msgspec.structs.replace(reservation, status=msgspec.structs.replace(reservation.status, **changes))


def may_help_pods(old: Reservation | None, new: Reservation | None) -> bool:
    """Whether a change of a Reservation may help a pod that was rejected because of reservations.

    `old` is None for a new one, which offers nothing yet; `new` is None for a deleted one.
    """
    if old is None or new is None:
        return new is None
    return (
        old.is_available != new.is_available
        or old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
        or old.status.allocatable != new.status.allocatable
    )
