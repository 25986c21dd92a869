"""How each part of koordpy is deployed alone, and what it needs besides its features."""

from collections.abc import Mapping
from dataclasses import dataclass

from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Right
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.schedule_explanation import ScheduleExplanation
from koordpy.compose import parts as composed
from koordpy.compose.parts.extender import ExtenderPart
from koordpy.settings import Settings

from .feature import Feature, Part, followed

SCHEDULING = "scheduling.koordinator.sh"


@dataclass(frozen=True, kw_only=True)
class PartFacts:
    """How a part is started alone, and what calls it."""

    command: str
    called_by: str
    settings: str = ""
    component: str = ""
    """Its folder below `deploy/kustomize/base`."""
    account: str = ""
    """The service account that it has there."""


PARTS: Mapping[Part, PartFacts] = {
    Part.ADMISSION: PartFacts(
        command="koordpy serve --parts admission",
        called_by="kube-apiserver, as configured by the two webhook configurations in `deploy/webhooks`",
        settings="admission",
        component="webhooks",
        account="koordpy-webhooks",
    ),
    Part.EXTENDER: PartFacts(
        command="koordpy serve --parts extender",
        called_by="kube-scheduler, as configured by `extenders` in its configuration",
        settings="extender",
        component="extender",
        account="koordpy-scheduler",
    ),
    Part.CONTROLLERS: PartFacts(
        command="koordpy worker --parts controllers",
        called_by="-",
        settings="worker.controllers",
        component="worker",
        account="koordpy-worker",
    ),
    Part.DESCHEDULER: PartFacts(
        command="koordpy worker --parts descheduler",
        called_by="-",
        settings="worker.descheduler, and a DeschedulerConfiguration",
        component="worker",
        account="koordpy-worker",
    ),
    Part.AGENT: PartFacts(
        command="koordpy agent",
        called_by="-",
        settings="agent",
        component="qos-agent",
        account="koordpy-qos-agent",
    ),
}


def follows(part: Part, settings: Settings) -> tuple[type[KubeObject], ...]:
    """Return what a part follows whichever of its features are enabled."""
    return composed.load(part.value).needs(settings).follows


def rights(part: Part, settings: Settings, *, leads: bool = False) -> tuple[Right, ...]:
    """Return the rights of a part whichever of its features are enabled; `leads` where some need a leader.

    Raises ConfigError, OSError for files that the settings name.
    """
    found = composed.load(part.value).needs(settings).rights
    return (*found, *ExtenderPart.leading_rights(settings)) if part is Part.EXTENDER and leads else found


def switched(settings: Settings) -> list[Feature]:
    """Return the features that are not plugins and are enabled by settings."""
    extender = settings.extender
    found = []
    if extender.network_topology_manager:
        found.append(NETWORK_TOPOLOGY)
    if extender.schedule_explanations.enabled:
        found.append(SCHEDULE_EXPLANATIONS)
    return found


NETWORK_TOPOLOGY = Feature(
    part=Part.EXTENDER,
    name="network topology manager",
    follows=followed((ClusterNetworkTopology, Node)),
    rights=(Right("patch", "clusternetworktopologies/status", SCHEDULING),),
    on_by_default=False,
    leads=True,
    elsewhere=("extender.networkTopologyManager: true",),
    in_light_mode=True,
)

SCHEDULE_EXPLANATIONS = Feature(
    part=Part.EXTENDER,
    name="ScheduleExplanations",
    follows=followed((Pod, ScheduleExplanation)),
    rights=(
        Right("create", "scheduleexplanations", SCHEDULING),
        Right("delete", "scheduleexplanations", SCHEDULING),
        Right("patch", "scheduleexplanations/status", SCHEDULING),
    ),
    on_by_default=False,
    leads=True,
    elsewhere=("extender.scheduleExplanations.enabled: true",),
    in_light_mode=True,
)
