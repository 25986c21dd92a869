"""The part `reservations`: schedules Reservations. It belongs to the extender, whose plugins it shares."""

from typing import ClassVar

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.compose.part import Part
from koordpy.scheduling.reservations.scheduler import ReservationScheduler

from .extender import ExtenderPart


class ReservationsPart(Part):
    """The scheduler of Reservations, run by the leading extender.

    It is idle if no profile has the Reservation plugin.
    """

    name: ClassVar[str] = "reservations"
    accompanies: ClassVar[bool] = True
    scheduler: ReservationScheduler

    def prepare(self) -> None:
        """Create the scheduler, to be run by the leading extender behind the fence."""
        extender = self.process.part(ExtenderPart)
        self.scheduler = ReservationScheduler(
            extender.profiles,
            extender.handle(),
            self.process.client,
            extender.observers.events,
            gates=self.process.gates,
            decisions=extender.extender.decisions,
            fence=extender.extender.binds.fence,
            jobs=extender.extender.jobs,
            initial_backoff=extender.config.pod_initial_backoff_seconds,
            max_backoff=extender.config.pod_max_backoff_seconds,
        )
        if self.scheduler:
            extender.election.add("scheduling of Reservations", self.scheduler.run)
            extender.election.guard(self._catch_up)

    async def _catch_up(self) -> None:
        """Wait until all allocations of other processes are known."""
        await self.process.informers.catch_up(Pod, Reservation)
