"""What follows a failed attempt: a retry, a nomination, an event, the Reservation's condition.

Source: Koordinator, `pkg/scheduler/frameworkext/eventhandlers/reservation_handler.go`.
"""

import logging
import random

from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import set_unschedulable
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.events import WARNING, Recorder, truncate
from koordpy.lib.clock import Clock
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.reservation_writes import write_status

log = logging.getLogger(__name__)


async def leave_word(
    client: Client,
    events: Recorder,
    clock: Clock,
    rng: random.Random,
    reservation: Reservation,
    status: Status,
) -> None:
    """Record in an event and in the Reservation's status why it was not placed. Raises NotFound."""
    events.event(
        reservation, WARNING, "FailedScheduling", truncate(status.message, " ..."), action="Scheduling"
    )

    def change(current: Reservation) -> Reservation:
        return set_unschedulable(current, status.message, clock.now()) if current.is_unassigned else current

    try:
        await write_status(client, reservation, change, rng=rng)
    except NotFound:
        raise
    except (ApiError, ConnectionFailed) as error:
        log.warning("cannot record why reservation %s is pending: %s", reservation.metadata.name, error)
