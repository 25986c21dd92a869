"""What a PodGroup, or the annotations of a pod, say about a gang.

Invalid values are replaced by defaults, so that a gang can always be scheduled; only without a valid minimum
there is no gang yet. Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/gang.go`
(`tryInitByPodConfig`, `tryInitByPodGroup`) and `apis/extension/coscheduling.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.koordinator import PodGroup
from koordpy.api.meta import ObjectMeta
from koordpy.lib import duration, go_json, int64

from .topology_spec import GangTopologySpec, topology_spec_of

LABEL_MIN_AVAILABLE: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
ANNOTATION_MIN_AVAILABLE: Final = "gang.scheduling.koordinator.sh/min-available"
ANNOTATION_TOTAL_NUMBER: Final = "gang.scheduling.koordinator.sh/total-number"
ANNOTATION_MODE: Final = "gang.scheduling.koordinator.sh/mode"
ANNOTATION_WAITING_TIME: Final = "gang.scheduling.koordinator.sh/waiting-time"
ANNOTATION_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
ANNOTATION_MATCH_POLICY: Final = "gang.scheduling.koordinator.sh/match-policy"
ANNOTATION_ALIAS_MATCH_POLICY: Final = "pod-group.scheduling.sigs.k8s.io/match-policy"

STRICT: Final = "Strict"
"""The mode in which a member that cannot be scheduled releases all members that wait for it."""

NON_STRICT: Final = "NonStrict"

ONCE_SATISFIED: Final = "once-satisfied"
"""The policy by which a gang that was complete once needs no minimum any more."""

WAITING_AND_RUNNING: Final = "waiting-and-running"
ONLY_WAITING: Final = "only-waiting"
MATCH_POLICIES: Final = (ONLY_WAITING, WAITING_AND_RUNNING, ONCE_SATISFIED)


class GangSource(StrEnum):
    """What described the gang."""

    POD_GROUP = "GangFromPodGroupCrd"
    POD = "GangFromPodAnnotation"
    KUBERNETES = "GangFromKubernetesPodGroup"


@dataclass(frozen=True, slots=True)
class GangDefaults:
    """What applies where a gang says nothing: its wait time in seconds, and its match policy."""

    wait_seconds: float = 600.0
    match_policy: str = ONCE_SATISFIED


@dataclass(frozen=True, slots=True)
class GangSettings:
    """How a gang is scheduled.

    `group` has the IDs of the gangs that are scheduled together, sorted, usually only this one.
    `created_at` is the creation time as RFC 3339, None if unknown.
    """

    min_member: int
    total: int
    wait_seconds: float
    group: tuple[str, ...]
    mode: str = STRICT
    match_policy: str = ONCE_SATISFIED
    created_at: str | None = None
    topology_spec: GangTopologySpec | None = None
    source: GangSource = GangSource.POD

    @property
    def group_id(self) -> str:
        """The ID of the group: those of its gangs, joined with commas."""
        return group_id(self.group)


def group_id(gangs: Sequence[str]) -> str:
    """Return the ID of a group of gangs."""
    return ",".join(sorted(gangs))


def settings_of_pod(pod: Pod, id_: str, defaults: GangDefaults) -> GangSettings | None:
    """Return what a pod says about its gang, None without a valid minimum."""
    meta = pod.metadata
    text = meta.labels.get(LABEL_MIN_AVAILABLE) or meta.annotations.get(ANNOTATION_MIN_AVAILABLE, "")
    min_member = int64.parse(text, 32)
    if min_member is None:
        return None
    waits = _wait_seconds(meta.annotations) or defaults.wait_seconds
    return settings_of_metadata(meta, id_, min_member, waits, GangSource.POD, defaults)


def settings_of_pod_group(pod_group: PodGroup, id_: str, defaults: GangDefaults) -> GangSettings:
    """Return what a PodGroup says about its gang."""
    seconds = pod_group.spec.schedule_timeout_seconds
    waits = float(seconds) if seconds is not None and seconds > 0 else defaults.wait_seconds
    return settings_of_metadata(
        pod_group.metadata, id_, pod_group.spec.min_member, waits, GangSource.POD_GROUP, defaults
    )


def settings_of_metadata(
    meta: ObjectMeta,
    id_: str,
    min_member: int,
    wait_seconds: float,
    source: GangSource,
    defaults: GangDefaults,
) -> GangSettings:
    """Return what the annotations of an object say, with a minimum and a wait time that it has elsewhere."""
    notes = meta.annotations
    policy = notes.get(ANNOTATION_MATCH_POLICY) or notes.get(ANNOTATION_ALIAS_MATCH_POLICY)
    return GangSettings(
        min_member=min_member,
        total=max(int64.parse(notes.get(ANNOTATION_TOTAL_NUMBER, ""), 32) or min_member, min_member),
        wait_seconds=wait_seconds,
        group=_group(notes.get(ANNOTATION_GROUPS, "")) or (id_,),
        mode=NON_STRICT if notes.get(ANNOTATION_MODE) == NON_STRICT else STRICT,
        match_policy=policy if policy in MATCH_POLICIES else defaults.match_policy,
        created_at=meta.creation_timestamp,
        topology_spec=topology_spec_of(notes),
        source=source,
    )


def _wait_seconds(notes: Mapping[str, str]) -> float:
    """Return the annotated wait time, 0 if there is no valid one."""
    try:
        return max(duration.parse(notes.get(ANNOTATION_WAITING_TIME, "")) / duration.SECOND, 0.0)
    except ValueError:
        return 0.0


def _group(text: str) -> tuple[str, ...]:
    """Return the annotated IDs, sorted; none without a JSON array.

    As in Go, which decodes what it can, an element of another type is an empty ID.
    """
    if not text:
        return ()
    try:
        found = go_json.array(go_json.parse(text), ANNOTATION_GROUPS) or []
    except ValueError:
        return ()
    return tuple(sorted(item if type(item) is str else "" for item in found))
