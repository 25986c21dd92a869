"""All observers of scheduling attempts, composed from the settings."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.cluster.client import Client
from koordpy.cluster.events import Recorder
from koordpy.lib import supervise
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles.profiles import Profiles, gated_plugins

from .attempt_log import AttemptLog
from .auditor.auditor import WorkloadAuditor, metric_labels
from .auditor.metrics import AuditorMetrics
from .auditor.settings import AuditorSettings
from .cause import Cause
from .decision_stream import DecisionStreams
from .decisions import Decisions
from .explanations import ScheduleExplanations
from .monitor import Monitor
from .reservation_event import ReservationEvents
from .settings import ObserverSettings

log = logging.getLogger(__name__)

RESERVATION = "Reservation"


class Observers:
    """Create them before the informers start; `run` does their background work.

    `explanations` is None if none are written; only one of several processes may run it. `events` are written
    in the names of the profiles that support reservations. `shared_causes` is for ScheduleExplanations.
    """

    def __init__(
        self,
        settings: ObserverSettings,
        profiles: Profiles,
        handle: Handle,
        decisions: Decisions,
        client: Client | None,
        shared_causes: Callable[[Pod], Sequence[Cause]] = lambda _: (),
    ) -> None:
        self.streams = DecisionStreams(decisions)
        self.log = AttemptLog(
            handle.debug_flags,
            queue_size=settings.debug_log.diagnosis_queue_size,
            workers=settings.debug_log.diagnosis_worker_count,
        )
        self.monitor = Monitor(settings.monitor, handle.clock)
        self._period = settings.monitor.period
        decisions.listen(self.log)
        decisions.listen(self.monitor)
        self.auditor = _auditor(settings.workload_auditor, profiles, handle)
        if self.auditor is not None:
            decisions.listen(self.auditor)
            for framework in profiles.frameworks.values():
                framework.handle.auditor = self.auditor
        self.events = _recorders(profiles, handle, client)
        if self.events:
            decisions.listen(ReservationEvents(self.events, profiles))
        for name, recorder in self.events.items():
            profiles.frameworks[name].handle.events = recorder
        self.explanations: ScheduleExplanations | None = None
        if settings.schedule_explanations.enabled and client is not None:
            self.explanations = ScheduleExplanations(
                settings.schedule_explanations, profiles, handle, client, shared_causes
            )

    async def run(self) -> None:
        """Check attempts, and write events, until cancelled."""
        tasks = [
            asyncio.create_task(supervise.forever(f"events of {name}", recorder.run))
            for name, recorder in self.events.items()
        ]
        try:
            while True:
                await asyncio.sleep(self._period)
                self.monitor.check()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        """End all streams, write the remaining events, and stop."""
        self.streams.close()
        await self.log.close()
        for recorder in self.events.values():
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await recorder.flush()


def _recorders(profiles: Profiles, handle: Handle, client: Client | None) -> Mapping[str, Recorder]:
    """Return the recorders of the profiles that write events about reservations and gated pods."""
    if client is None:
        return {}
    return {
        name: Recorder(client, controller=name, clock=handle.clock)
        for name, framework in profiles.frameworks.items()
        if gated_plugins(framework) or any(plugin.name == RESERVATION for plugin in framework.plugins)
    }


def _auditor(settings: AuditorSettings, profiles: Profiles, handle: Handle) -> WorkloadAuditor | None:
    metrics = _metrics(tuple(metric_labels(settings)))  # they exist whether the auditor is enabled or not
    if not settings.enabled:
        return None
    auditor = WorkloadAuditor(settings, metrics, handle.clock, lambda name: profiles.of(name) is not None)
    handle.on(Pod, auditor.pod_added, auditor.pod_changed, auditor.pod_deleted)
    if any(
        plugin.name == RESERVATION
        for framework in profiles.frameworks.values()
        for plugin in framework.plugins
    ):
        handle.on(
            Reservation,
            lambda new: auditor.pod_added(new_reserve_pod(new)),
            lambda old, new: auditor.pod_changed(new_reserve_pod(old), new_reserve_pod(new)),
            lambda old: auditor.pod_deleted(new_reserve_pod(old)),
        )
    return auditor


@cache
def _metrics(labels: tuple[str, ...]) -> AuditorMetrics:
    return AuditorMetrics(labels)
