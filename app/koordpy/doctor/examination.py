"""The whole examination, area by area; an area that cannot be examined does not stop the others."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from koordpy.api.config_model import ConfigError
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.features.feature import Part
from koordpy.lib.clock import Clock, SystemClock
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.settings import Settings

from . import (
    clocks,
    colocation,
    definitions,
    descheduler,
    devices,
    extenders,
    gang_barriers,
    gangs,
    leases,
    needs,
    other_schedulers,
    pods,
    priority_classes,
    quotas,
    reservations,
    rights,
    webhooks,
)
from .finding import Area, Finding, Report, State, report
from .installation import Installation

CONFIGURATION = Area("configuration")
CLUSTER = Area("cluster")

Check = Callable[[Installation], AsyncIterator[Finding]]

_CHECKS: tuple[tuple[Area, Check], ...] = (
    (clocks.AREA, clocks.check),
    (definitions.AREA, definitions.check),
    (webhooks.AREA, webhooks.check),
    (needs.AREA, needs.check),
    (priority_classes.AREA, priority_classes.check),
    (descheduler.AREA, descheduler.check),
    (colocation.AREA, colocation.check),
    (leases.AREA, leases.check),
    (other_schedulers.AREA, other_schedulers.check),
    (pods.AREA, pods.check),
    (reservations.AREA, reservations.check),
    (gangs.AREA, gangs.check),
    (gang_barriers.AREA, gang_barriers.check),
    (quotas.AREA, quotas.check),
    (devices.AREA, devices.check),
    (rights.AREA, rights.check),
)


@dataclass(frozen=True)
class Question:
    """What to examine: the parts of koordpy that its settings choose, and a kube-scheduler.

    `scheduler_file` is kube-scheduler's configuration, `user` whose rights are reviewed (empty: those of the
    client's own credentials). `configurations` is where the settings are from, `remarks` what is known of
    that.
    """

    settings: Settings
    parts: tuple[Part, ...]
    scheduler_file: Path | None = None
    user: str = ""
    configurations: tuple[str, ...] = ()
    remarks: tuple[Finding, ...] = ()


async def examine(client: Client, question: Question, clock: Clock | None = None) -> Report:
    """Examine every area and return the report. Raises OSError for a file that cannot be read."""
    found: list[Finding] = list(question.remarks)
    scheduler: SchedulerConfiguration | None = None
    if question.scheduler_file is not None:
        try:
            scheduler = scheduling_config.load(question.scheduler_file)
        except ConfigError as error:
            found += [
                extenders.AREA.problem(
                    str(question.scheduler_file), problem, "kube-scheduler rejects it too; correct the file"
                )
                for problem in error.problems
            ]
    installation = Installation(
        client,
        question.settings,
        question.parts,
        clock or SystemClock(),
        scheduler=scheduler,
        user=question.user,
    )
    found += [
        CONFIGURATION.problem("koordpy", problem, "koordpy does not start with it: correct its configuration")
        for problem in dict.fromkeys(installation.problems)  # two parts may have the same problem
    ]
    if not installation.problems:
        named = ", ".join(part.value for part in question.parts) or "none"
        found.append(CONFIGURATION.ok("koordpy", f"starts with it; parts: {named}"))
    if Part.EXTENDER in question.parts:
        if scheduler is not None:
            found += extenders.check(installation, scheduler)
        elif question.scheduler_file is None:
            found.append(
                extenders.AREA.note(
                    "extenders", "kube-scheduler's configuration was not given", "--scheduler-config FILE"
                )
            )
    found += await _of_the_cluster(installation)
    parts = [part.value for part in question.parts]
    return report(client.connection.server, parts, found, question.configurations)


async def _of_the_cluster(installation: Installation) -> list[Finding]:
    found: list[Finding] = []
    for area, check in _CHECKS:
        try:
            async for finding in check(installation):
                found.append(finding)
        except ApiError as error:
            found.append(area.unknown("API server", f"cannot be examined: {error}"))
        except ConnectionFailed as error:
            unreachable = CLUSTER.unknown(
                installation.client.connection.server,
                f"does not answer: {error}",
                "see --server, --kubeconfig, --context, and check that the API server runs",
            )
            return [*found, unreachable]
        if any(finding.area == clocks.AREA.name and finding.state is State.UNKNOWN for finding in found):
            return found
    return found
