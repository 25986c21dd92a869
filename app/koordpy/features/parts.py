"""What the parts of koordpy need besides the features that run in them, and how each is started alone."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from koordpy.admission.serving.config import Mode
from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Right
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.schedule_explanation import ScheduleExplanation
from koordpy.descheduling import config as descheduling_config
from koordpy.settings import LeaseSettings, Settings

from .feature import Feature, Part, followed

ADMISSION = "admissionregistration.k8s.io"
COORDINATION = "coordination.k8s.io"
EVENTS = "events.k8s.io"
SCHEDULING = "scheduling.koordinator.sh"


@dataclass(frozen=True, kw_only=True)
class PartFacts:
    """How a part is started alone, who has to call it, and what its frame follows."""

    command: str
    called_by: str
    follows: tuple[type[KubeObject], ...] = ()
    settings: str = ""
    component: str = ""
    """Its folder below `deploy/kustomize/base`."""
    account: str = ""
    """The service account that it has there."""
    rights: Callable[[Settings], Iterator[Right]] = lambda _: iter(())
    """What its frame may do, as settings are; what features need comes on top."""


def _webhooks(settings: Settings) -> Iterator[Right]:
    serving, registration = settings.admission.certificates, settings.admission.registration
    if serving.mode is Mode.SECRET:
        yield Right("create", "secrets", namespace=serving.namespace)
        for verb in ("get", "list", "watch", "update"):
            yield Right(verb, "secrets", namespace=serving.namespace, name=serving.secret_name)
    if settings.admission.registers:
        for kind, name in (("mutating", registration.mutating), ("validating", registration.validating)):
            for verb in ("get", "list", "watch", "update"):
                yield Right(verb, f"{kind}webhookconfigurations", ADMISSION, name=name)


def _extender(settings: Settings) -> Iterator[Right]:
    if settings.extender.mode == "full":  # a bind that is in doubt is settled by looking at the pod
        yield Right("get", "pods")


def _controllers(settings: Settings) -> Iterator[Right]:
    if settings.worker.leader_elect:
        yield from lease_rights(settings.worker.controllers.lease)


def _descheduler(settings: Settings) -> Iterator[Right]:
    yield Right("create", "events", EVENTS)
    yield Right("patch", "events", EVENTS)
    lease = descheduler_lease(settings)
    if lease is not None:
        yield from lease_rights(lease)


def lease_rights(lease: LeaseSettings) -> Iterator[Right]:
    """Yield what it takes to hold a Lease."""
    yield Right("create", "leases", COORDINATION, lease.namespace)
    for verb in ("get", "patch"):
        yield Right(verb, "leases", COORDINATION, lease.namespace, lease.name)


def descheduler_lease(settings: Settings) -> LeaseSettings | None:
    """Return the Lease that the descheduler's configuration names, None where it elects nobody.

    Without a file it is the one that Koordinator's defaults name. Raises ConfigError, OSError.
    """
    file = settings.worker.descheduler.config
    election = descheduling_config.LeaderElection()
    if file is not None:
        election = descheduling_config.load(Path(file).read_text(encoding="utf-8")).leader_election
    if not (election.leader_elect and settings.worker.leader_elect):
        return None
    return LeaseSettings(namespace=election.resource_namespace, name=election.resource_name)


PARTS: Mapping[Part, PartFacts] = {
    Part.WEBHOOKS: PartFacts(
        command="koordpy serve --doors admission",
        called_by="kube-apiserver, as the two webhook configurations of `deploy/webhooks` say",
        settings="admission",
        component="webhooks",
        account="koordpy-webhooks",
        rights=_webhooks,
    ),
    Part.EXTENDER: PartFacts(
        command="koordpy serve --doors extender",
        called_by="kube-scheduler, as `extenders` in its configuration say",
        follows=(Node, Pod),
        settings="extender",
        component="extender",
        account="koordpy-scheduler",
        rights=_extender,
    ),
    Part.CONTROLLERS: PartFacts(
        command="koordpy worker --controllers",
        called_by="nobody",
        settings="worker.controllers",
        component="worker",
        account="koordpy-worker",
        rights=_controllers,
    ),
    Part.DESCHEDULER: PartFacts(
        command="koordpy worker --descheduler",
        called_by="nobody",
        follows=(Node, Pod),
        settings="worker.descheduler, and a DeschedulerConfiguration",
        component="worker",
        account="koordpy-worker",
        rights=_descheduler,
    ),
    Part.QOS: PartFacts(
        command="koordpy worker --qos",
        called_by="nobody",
        settings="worker.qos",
        component="qos-agent",
        account="koordpy-qos-agent",
    ),
}


def rights(part: Part, settings: Settings, *, leads: bool = False) -> tuple[Right, ...]:
    """Return the rights of a part's frame, as its settings are; `leads` where features need a leader."""
    found = list(PARTS[part].rights(settings))
    if part is Part.EXTENDER and leads and settings.extender.leader_elect:
        found += lease_rights(settings.extender.lease)
    return tuple(found)


def switched(settings: Settings) -> list[Feature]:
    """Return the features that are no plugins and that settings switch on."""
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
