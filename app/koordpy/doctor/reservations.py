"""Whether Reservations get nodes. The status of one that no scheduler handles does not show it."""

from collections.abc import AsyncIterator
from typing import Final

from koordpy.api.meta import parse_time
from koordpy.api.reservation import Reservation, validate
from koordpy.features.feature import Part
from koordpy.scheduling.explain.reservation_causes import unplaced
from koordpy.scheduling.reservations.scheduler import RESERVATION

from .finding import Area, Finding
from .installation import Installation

AREA = Area("reservations")

PATIENCE: Final = 60.0
"""Seconds that a Reservation may wait for its first attempt."""

SHOWN: Final = 10
"""Reservations that get a finding each."""


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Check the Reservations that have no node yet, where a profile has the plugin."""
    served = [
        name
        for name, framework in installation.profiles.frameworks.items()
        if any(plugin.name == RESERVATION for plugin in framework.plugins)
    ]
    if why := installation.unchecked(Part.EXTENDER, RESERVATION):
        yield AREA.skipped(why)
        return
    found = await installation.client.list_all(Reservation)
    waiting = [reservation for reservation in found if reservation.is_unassigned]
    for reservation in waiting[:SHOWN]:
        yield _judged(installation, reservation, served)
    if len(waiting) > SHOWN:
        yield AREA.note("others", f"{len(waiting) - SHOWN} more have no node", "kubectl get reservations")
    if not waiting:
        yield AREA.ok("reservations", f"all {len(found)} have a node, or have ended")


def _judged(installation: Installation, reservation: Reservation, served: list[str]) -> Finding:
    name = reservation.metadata.name
    if problem := validate(reservation):
        return AREA.problem(name, f"is never scheduled: {problem}", "correct its spec")
    what, fix = unplaced(reservation, served)
    tried = any(condition.message for condition in reservation.status.conditions)
    if tried and reservation.scheduler_name in served:
        return AREA.warning(name, what, fix)
    at = reservation.metadata.creation_timestamp
    age = (installation.clock.now() - parse_time(at)).total_seconds() if at else 0.0
    if reservation.scheduler_name in served and age <= PATIENCE:
        return AREA.ok(name, "was created just now")
    return AREA.problem(name, what, fix)
