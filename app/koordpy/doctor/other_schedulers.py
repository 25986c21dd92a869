"""Whether Koordinator's own scheduler runs beside koordpy, for the same pods."""

from collections.abc import AsyncIterator
from typing import Final

from koordpy.api.core import Pod
from koordpy.cluster.errors import ApiError
from koordpy.features.feature import Part

from .finding import Area, Finding
from .installation import Installation

AREA = Area("extender")

KOORD_SCHEDULER: Final = "koord-scheduler"
"""Koordinator's scheduler, and the schedulerName of its pods in the configuration that is shipped with it."""

_SELECTOR: Final = f"koord-app={KOORD_SCHEDULER}"


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Report pods of koord-scheduler, where koordpy has a profile of that name."""
    if Part.EXTENDER not in installation.parts or installation.problems:
        return
    if KOORD_SCHEDULER not in installation.profiles.frameworks:
        return
    try:
        pods = await installation.client.list_all(Pod, label_selector=_SELECTOR)
    except ApiError:
        return  # the area of the rights reports it
    running = sorted(pod.metadata.key for pod in pods if not pod.is_terminal)
    if running:
        yield AREA.problem(
            ", ".join(running),
            f"Koordinator's scheduler runs too: both schedule pods with schedulerName {KOORD_SCHEDULER}, and "
            "neither knows what the other holds for gangs, quotas and Reservations until it is bound",
            f"stop it, or give it and koordpy different profiles: kubectl -n {pods[0].metadata.namespace} "
            f"scale deployment {KOORD_SCHEDULER} --replicas=0",
        )
