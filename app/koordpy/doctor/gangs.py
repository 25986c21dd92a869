"""Whether gangs can be scheduled: their PodGroups and pods, gates, waits, and what kube-scheduler does."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from koordpy.api.core import Node, Pod
from koordpy.api.gang.membership import LABEL_POD_GROUP, gang_id
from koordpy.api.gang.settings import (
    ANNOTATION_GROUPS,
    GangDefaults,
    GangSettings,
    settings_of_pod,
    settings_of_pod_group,
)
from koordpy.api.koordinator import PodGroup
from koordpy.api.meta import parse_time
from koordpy.api.network_topology import DEFAULT_NAME, ClusterNetworkTopology
from koordpy.api.pre_enqueue_gates import gate_of, plugins_of
from koordpy.cluster.errors import NotFound
from koordpy.features.feature import Part
from koordpy.lib.counting import counted
from koordpy.scheduling.framework.bind_phase import MAX_PERMIT_WAIT
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.profiles.config import SchedulerConfiguration

from . import gang_topology
from .finding import Area, Finding
from .installation import Installation

AREA = Area("gangs")

COSCHEDULING: Final = "Coscheduling"

PATIENCE: Final = 600.0
"""Seconds within which the pods of a gang should exist."""

SHOWN: Final = 10
"""Findings of one kind that are listed."""

SAMPLED_FROM: Final = 100
"""With fewer nodes kube-scheduler always tries all of them."""


@dataclass
class Gang:
    """A gang as its objects describe it; `settings` is None without a PodGroup or a valid minimum."""

    id: str
    settings: GangSettings | None = None
    pods: list[Pod] = field(default_factory=list)
    created: str | None = None


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Check the gangs, where a profile has the plugin."""
    if why := installation.unchecked(Part.EXTENDER, COSCHEDULING):
        yield AREA.skipped(why)
        return
    plugin = next(plugin for plugin in installation.plugins if plugin.name == COSCHEDULING)
    client = installation.client
    try:
        pod_groups = await client.list_all(PodGroup)
    except NotFound:
        return  # the area of the definitions reports it
    pods = [pod for pod in await client.list_all(Pod) if not pod.is_terminal]
    gangs = gangs_of(pods, pod_groups, defaults_of(plugin))
    nodes = len(await client.list_all(Node))
    findings = [
        *_incomplete(gangs, installation.clock.now().timestamp()),
        *_groups(gangs),
        *_ungated(gangs),
    ]
    if installation.scheduler is not None:
        findings += _waits(gangs, installation.scheduler)
        findings += _sampling(gangs, plugin, installation.scheduler, nodes)
    findings += await _topology(installation, gangs, plugin)
    for finding in findings:
        yield finding
    if not findings:
        yield AREA.ok(
            "gangs", f"{counted(len(gangs), 'gang')}: all pods are there, or awaited since a short time"
        )


def defaults_of(plugin: Plugin) -> GangDefaults:
    """Return what the plugin's arguments say about gangs that say nothing."""
    args: Mapping[str, Any] = plugin.args.model_dump()
    return GangDefaults(
        wait_seconds=args.get("default_timeout", 600.0),
        match_policy=args.get("default_match_policy", "once-satisfied"),
    )


def gangs_of(pods: Iterable[Pod], pod_groups: Iterable[PodGroup], defaults: GangDefaults) -> dict[str, Gang]:
    """Return the gangs by ID."""
    gangs: dict[str, Gang] = {}
    for group in pod_groups:
        key = group.metadata.key
        settings = settings_of_pod_group(group, key, defaults)
        gangs[key] = Gang(key, settings, created=group.metadata.creation_timestamp)
    for pod in sorted(pods, key=lambda pod: pod.metadata.key):
        key = gang_id(pod)
        if not key:
            continue
        gang = gangs.setdefault(key, Gang(key))
        gang.pods.append(pod)
        gang.created = gang.created or pod.metadata.creation_timestamp
        if gang.settings is None and not pod.metadata.labels.get(LABEL_POD_GROUP):
            gang.settings = settings_of_pod(pod, key, defaults)
    return gangs


def _incomplete(gangs: Mapping[str, Gang], now: float) -> Iterator[Finding]:
    """Report gangs without settings, and those that have lacked pods for long."""
    found = []
    for gang in gangs.values():
        waiting = [pod for pod in gang.pods if not pod.spec.node_name]
        if gang.settings is None:
            if any(pod.metadata.labels.get(LABEL_POD_GROUP) for pod in gang.pods):
                what, fix = (
                    f"its PodGroup does not exist: {_pods(waiting)} cannot be scheduled",
                    (f"create PodGroup {gang.id}, or remove the label {LABEL_POD_GROUP} from the pods"),
                )
            else:
                what, fix = (
                    f"no pod of it has a valid minimum: {_pods(waiting)} cannot be scheduled",
                    ("set the annotation gang.scheduling.koordinator.sh/min-available"),
                )
            if waiting:
                found.append(AREA.problem(gang.id, what, fix))
            continue
        age = now - parse_time(gang.created).timestamp() if gang.created else 0.0
        missing = gang.settings.min_member - len(gang.pods)
        if missing > 0 and waiting and age > PATIENCE:
            found.append(
                AREA.warning(
                    gang.id,
                    f"has {len(gang.pods)} of at least {gang.settings.min_member} pods since {age / 60:.0f} "
                    f"minutes: {_pods(waiting)} cannot be scheduled",
                    "see why its controller creates no more pods, or lower its minimum",
                )
            )
    yield from _first(found, "more gangs lack pods or settings")


def _groups(gangs: Mapping[str, Gang]) -> Iterator[Finding]:
    """Report gang groups with gangs that do not exist, or that do not name each other."""
    found = []
    for gang in gangs.values():
        if gang.settings is None or len(gang.settings.group) < 2:
            continue
        gone = [other for other in gang.settings.group if other not in gangs]
        if gone:
            found.append(
                AREA.problem(
                    gang.id,
                    f"annotation {ANNOTATION_GROUPS} names {', '.join(gone[:3])}, which "
                    f"{'does' if len(gone) == 1 else 'do'} not exist: no gang of the group can be scheduled",
                    "create them, or correct the annotation (NAMESPACE/NAME of each gang)",
                )
            )
            continue
        others = (gangs[other].settings for other in gang.settings.group)
        if any(other is not None and other.group != gang.settings.group for other in others):
            found.append(
                AREA.warning(
                    gang.id,
                    f"its gangs name different groups in annotation {ANNOTATION_GROUPS}",
                    "give all gangs of a group the same list",
                )
            )
    yield from _first(found, "more gangs have such groups")


def _ungated(gangs: Mapping[str, Gang]) -> Iterator[Finding]:
    """Report pods of incomplete gangs without the gate: kube-scheduler tries them again and again."""
    loose: list[Pod] = []
    for gang in gangs.values():
        if gang.settings is not None and len(gang.pods) >= gang.settings.min_member:
            continue
        loose += [pod for pod in gang.pods if not pod.spec.node_name and COSCHEDULING not in plugins_of(pod)]
    if loose:
        yield AREA.warning(
            _subject([pod.metadata.key for pod in loose]),
            f"are in incomplete gangs, and have no scheduling gate {gate_of(COSCHEDULING)}: kube-scheduler "
            "tries them in vain",
            "give the webhooks the extender's profiles (component webhooks-profiles), and check that the pod "
            "mutating webhook is called for these namespaces",
        )


def _waits(gangs: Mapping[str, Gang], scheduler: SchedulerConfiguration) -> Iterator[Finding]:
    """Report gangs whose pods may wait for longer than kube-scheduler waits for a bind call."""
    timeouts = [entry.http_timeout for entry in scheduler.extenders if entry.bind_verb]
    if not timeouts:
        return
    least = min(timeouts)
    waits = {
        gang.id: min(gang.settings.wait_seconds, MAX_PERMIT_WAIT)
        for gang in gangs.values()
        if gang.settings is not None
    }
    longer = sorted(name for name, seconds in waits.items() if seconds > least)
    if longer:
        longest = max(waits.values())
        yield AREA.problem(
            _subject(longer),
            f"their pods may wait for up to {longest:g} s for each other, and kube-scheduler gives up a bind "
            f"call after {least:g} s (httpTimeout)",
            f"httpTimeout: {longest:g}s in the entry with bindVerb, or shorter waits (scheduleTimeoutSeconds "
            "of the PodGroup, annotation gang.scheduling.koordinator.sh/waiting-time)",
        )


def _sampling(
    gangs: Mapping[str, Gang], plugin: Plugin, scheduler: SchedulerConfiguration, nodes: int
) -> Iterator[Finding]:
    """Report that kube-scheduler offers only some nodes, where the nodes of a gang are planned together."""
    aware = plugin.args.model_dump().get("aware_network_topology", False)
    topological = [
        gang.id
        for gang in gangs.values()
        if gang.settings is not None and gang.settings.topology_spec is not None
    ]
    if not (aware and topological) or nodes < SAMPLED_FROM:
        return
    for profile in scheduler.profiles:
        percent = profile.percentage_of_nodes_to_score
        percent = scheduler.percentage_of_nodes_to_score if percent is None else percent
        if percent != 100:
            yield AREA.warning(
                f"profile {profile.scheduler_name}",
                f"percentageOfNodesToScore is {percent or 'not set'}: kube-scheduler offers only some of "
                f"{nodes} nodes, and the planned nodes of gangs with a network topology ({topological[0]}) "
                "may not be among them",
                "percentageOfNodesToScore: 100",
            )


async def _topology(installation: Installation, gangs: Mapping[str, Gang], plugin: Plugin) -> list[Finding]:
    """Report why waiting gangs cannot be placed in the network."""
    specs = {
        gang.id: gang.settings.topology_spec
        for gang in gangs.values()
        if gang.settings is not None
        and gang.settings.topology_spec is not None
        and any(not pod.spec.node_name for pod in gang.pods)
    }
    topology: ClusterNetworkTopology | None = None
    if specs:
        with suppress(NotFound):
            topology = await installation.client.get(ClusterNetworkTopology, "", DEFAULT_NAME)
    args = plugin.args.model_dump()
    return list(
        gang_topology.check(
            AREA,
            specs,
            topology,
            aware=args.get("aware_network_topology", False),
            ignored=args.get("ignore_network_topology_spec", False),
            managed=installation.settings.extender.network_topology_manager,
        )
    )


def _subject(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _first(found: list[Finding], others: str) -> Iterator[Finding]:
    yield from found[:SHOWN]
    if len(found) > SHOWN:
        yield AREA.note("others", f"{len(found) - SHOWN} {others}", "koordpy gang list")


def _pods(pods: list[Pod]) -> str:
    names = ", ".join(sorted(pod.metadata.name for pod in pods)[:3])
    return f"{names}{' and others' if len(pods) > 3 else ''}" if pods else "its pods"
