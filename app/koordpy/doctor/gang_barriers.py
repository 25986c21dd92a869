"""Whether exactly one scheduler makes the pods of a gang wait for each other."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Final

from koordpy import gates
from koordpy.api.meta import KubeObject
from koordpy.api.pod_groups import KubernetesPodGroup, KubernetesPodGroupV1Alpha2, Workload
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, NotFound
from koordpy.cluster.kube_scheduler_gates import GangGates, kube_schedulers
from koordpy.cluster.kubernetes_gangs import SCHEDULING_GROUP, WORKLOAD_REF
from koordpy.features.feature import Part
from koordpy.scheduling.profiles.config import Profile, SchedulerConfiguration
from koordpy.settings import KubeSchedulerGangScheduling

from .finding import Area, Finding
from .installation import Installation

AREA = Area("gangs")

COSCHEDULING: Final = "Coscheduling"
_SETTING: Final = "extender.kubeSchedulerGangScheduling"
_TYPES: Final[dict[str, tuple[type[KubeObject], ...]]] = {
    WORKLOAD_REF: (Workload,),
    SCHEDULING_GROUP: (KubernetesPodGroup, KubernetesPodGroupV1Alpha2),
}
_FIELDS: Final = {WORKLOAD_REF: "spec.workloadRef", SCHEDULING_GROUP: "spec.schedulingGroup"}


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Compare the gang scheduling of kube-scheduler with koordpy's, where a profile has the plugin."""
    ours = [
        name
        for name, framework in installation.profiles.frameworks.items()
        if any(plugin.name == COSCHEDULING for plugin in framework.plugins)
    ]
    if Part.EXTENDER not in installation.parts or installation.problems or not ours:
        return
    chosen = gates.chosen(gates.serving(), installation.settings.feature_gates)
    enabled = [name for name in _TYPES if chosen.enabled(name)]
    setting = installation.settings.extender.kube_scheduler_gang_scheduling
    for finding in barriers(await _schedulers(installation.client), setting, enabled):
        yield finding
    for name in enabled:
        if not [type_ for type_ in _TYPES[name] if await _is_served(installation.client, type_)]:
            served = " or ".join(resource_of(type_).api_version for type_ in _TYPES[name])
            kind = resource_of(_TYPES[name][0]).kind
            yield AREA.problem(
                f"feature gate {name}",
                f"the API server does not serve {kind} of {served}: no pod has {_FIELDS[name]}",
                f"kube-apiserver --feature-gates=GenericWorkload=true --runtime-config={served}=true, or "
                f"switch {name} off",
            )
    if installation.scheduler is not None:
        for finding in other_plugins(installation.scheduler, ours):
            yield finding


def barriers(
    schedulers: Sequence[GangGates] | None, setting: KubeSchedulerGangScheduling, enabled: Collection[str]
) -> Iterator[Finding]:
    """Judge what the pods of kube-scheduler say. `enabled` are koordpy's gates, None are unknown pods."""
    gating = [each.pod for each in schedulers or () if each.gates_gangs]
    fields = " and ".join(_FIELDS[name] for name in enabled)
    if gating and setting == "disabled":
        yield AREA.problem(
            gating[0],
            f"gates gangs itself, and {_SETTING} is disabled: its gangs of pods with labels of Koordinator "
            "wait for members twice" + (f", and so do those of {fields}" if fields else ""),
            f"{_SETTING}: auto",
        )
    elif gating:
        yield AREA.note(
            gating[0],
            "gates gangs itself: koordpy leaves pods with spec.workloadRef or spec.schedulingGroup alone, "
            "also those with labels of Koordinator",
            f"feature gates {', '.join(enabled)} have no effect" if enabled else "",
        )
    elif setting == "enabled" and schedulers:
        yield AREA.warning(
            schedulers[0].pod,
            f"does not gate gangs, and {_SETTING} is enabled: nothing makes pods with spec.workloadRef or "
            "spec.schedulingGroup wait for their gangs",
            f"{_SETTING}: auto",
        )
    elif setting == "auto" and enabled and not schedulers:
        yield AREA.unknown(
            "kube-scheduler",
            f"does not run as a pod of kube-system: whether it gates gangs of {fields} itself, as koordpy "
            "does, cannot be seen",
            f"{_SETTING}: enabled if it has the feature gate GangScheduling (from 1.37 on GenericWorkload), "
            "else disabled",
        )


def other_plugins(scheduler: SchedulerConfiguration, ours: Collection[str]) -> Iterator[Finding]:
    """Report profiles in which kube-scheduler has a plugin Coscheduling, as koordpy has."""
    for profile in scheduler.profiles:
        if profile.scheduler_name in ours and _enables(profile, COSCHEDULING):
            yield AREA.problem(
                f"profile {profile.scheduler_name}",
                "kube-scheduler has a plugin Coscheduling, that of scheduler-plugins: it and koordpy's each "
                "hold pods of a PodGroup until all have come, and release them at different times",
                "remove Coscheduling from kube-scheduler's profile, or from koordpy's",
            )


def _enables(profile: Profile, name: str) -> bool:
    if profile.plugins is None:
        return False
    sets = (getattr(profile.plugins, field) for field in type(profile.plugins).model_fields)
    return any(ref.name == name for each in sets for ref in each.enabled)


async def _schedulers(client: Client) -> Sequence[GangGates] | None:
    try:
        return await kube_schedulers(client)
    except ApiError:  # out of reach
        return None


async def _is_served(client: Client, type_: type[KubeObject]) -> bool:
    try:
        await client.list_page(type_, limit=1)
    except NotFound:
        return False
    except ApiError:
        return True  # the area of the rights reports it
    return True
