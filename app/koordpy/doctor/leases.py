"""Whether the Leases of the components that run in one process at a time are held."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from koordpy.api.core import Lease
from koordpy.api.meta import parse_time
from koordpy.cluster.errors import NotFound
from koordpy.compose.parts.descheduler import descheduler_lease
from koordpy.features.feature import Part
from koordpy.scheduling.profiles.config import LeaderElection
from koordpy.scheduling.reservations.scheduler import RESERVATION

from .finding import Area, Finding
from .installation import Installation

AREA = Area("leases")


@dataclass(frozen=True)
class _Wanted:
    namespace: str
    name: str
    holder: str
    """The component that has to hold it."""
    consequence: str


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Check the Leases of kube-scheduler, extender, controllers and descheduler, where they are enabled."""
    for wanted in _wanted(installation):
        yield await _judged(installation, wanted)


def _wanted(installation: Installation) -> Iterator[_Wanted]:
    if Part.EXTENDER in installation.parts:
        election = (
            LeaderElection() if installation.scheduler is None else installation.scheduler.leader_election
        )
        if election.leader_elect:
            yield _Wanted(
                election.resource_namespace,
                election.resource_name,
                "kube-scheduler",
                "koordpy is not called, and pods stay pending",
            )
        extender = installation.settings.extender
        leads = any(feature.leads for feature in installation.features if feature.part is Part.EXTENDER)
        if leads and extender.leader_elect:
            has_reservations = any(plugin.name == RESERVATION for plugin in installation.plugins)
            yield _Wanted(
                extender.lease.namespace,
                extender.lease.name,
                "koordpy serve",
                "no process schedules Reservations, or binds pods beside them"
                if has_reservations
                else "unschedulable pods are retried minutes late, and gates of PreEnqueue plugins stay",
            )
    if Part.CONTROLLERS in installation.parts and installation.settings.worker.leader_elect:
        lease = installation.settings.worker.controllers.lease
        yield _Wanted(lease.namespace, lease.name, "koordpy worker --parts controllers", "no controller runs")
    if Part.DESCHEDULER in installation.parts and not installation.problems:
        found = descheduler_lease(installation.settings)
        if found is not None:
            yield _Wanted(
                found.namespace, found.name, "koordpy worker --parts descheduler", "nothing is evicted"
            )


async def _judged(installation: Installation, wanted: _Wanted) -> Finding:
    subject = f"{wanted.namespace}/{wanted.name}"
    start = f"check that {wanted.holder} runs, and that it may write this Lease"
    try:
        lease = await installation.client.get(Lease, wanted.namespace, wanted.name)
    except NotFound:
        return AREA.problem(
            subject, f"does not exist: {wanted.holder} was never elected; {wanted.consequence}", start
        )
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return AREA.problem(
            subject, f"has no holder: {wanted.holder} has stopped; {wanted.consequence}", start
        )
    age = (installation.clock.now() - parse_time(spec.renew_time)).total_seconds()
    if age > (spec.lease_duration_seconds or 15):
        return AREA.problem(
            subject,
            f"was renewed {age:.0f} s ago by {spec.holder_identity} and has expired; {wanted.consequence}",
            start,
        )
    return AREA.ok(subject, f"is held by {spec.holder_identity}")
