"""The choice of ended Reservations to delete.

Source: Koordinator, `pkg/scheduler/plugins/reservation/controller/garbage_collection.go`.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from koordpy.api.meta import parse_time
from koordpy.api.reservation import SUCCEEDED, Reservation
from koordpy.api.reservation_status import REASON_EXPIRED, REASON_SUCCEEDED, is_expired


def of(
    reservations: Iterable[Reservation],
    now: datetime,
    kept: timedelta,
    node_exists: Callable[[str], bool],
) -> Iterator[Reservation]:
    """Yield those that expired or succeeded longer than `kept` ago, or whose node is gone.

    One that failed otherwise is never collected; one whose time of ending is not known only with its node.
    """
    for reservation in reservations:
        if is_expired(reservation):
            ended = _time(reservation, REASON_EXPIRED, "last_transition_time")
        elif reservation.status.phase == SUCCEEDED:
            ended = _time(reservation, REASON_SUCCEEDED, "last_probe_time")
        else:
            continue
        if (ended is not None and now - ended > kept) or not node_exists(reservation.status.node_name):
            yield reservation


def _time(reservation: Reservation, reason: str, field: str) -> datetime | None:
    for condition in reservation.status.conditions:
        if condition.reason == reason:
            text: str | None = getattr(condition, field)
            try:
                return parse_time(text) if text else None
            except ValueError:
                return None
    return None
