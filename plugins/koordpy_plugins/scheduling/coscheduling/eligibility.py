"""Whether the gangs of a pod's group are complete, so that its pods may be scheduled.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/core.go` (`basicGangRequirementsCheck`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id

from .state.gang import Gang
from .state.gang_cache import GangCache


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Whether a pod may be scheduled, and with which gang.

    `reason` says why not; empty if it may. `gang` is None if the pod is scheduled by itself: it has no gang,
    or its group needs no minimum any more.
    """

    gang: Gang | None = None
    reason: str = ""


_BY_ITSELF = Eligibility()


def eligibility(cache: GangCache, pod: Pod) -> Eligibility:
    """Return whether a pod may be scheduled now."""
    id_ = gang_id(pod)
    if not id_:
        return _BY_ITSELF
    key = pod.metadata.key
    gang = cache.gangs.get(id_)
    if gang is None:
        return Eligibility(reason=f"can't find gang, gangName: {id_}, podName: {key}")
    if not gang.is_initialized:
        return Eligibility(reason=f"gang has not init, gangName: {id_}, podName: {key}")
    if gang.needs_no_minimum:
        return _BY_ITSELF
    lacks = _lacks(cache, gang)
    if not lacks:
        return Eligibility(gang)
    group = _listed(gang.settings.group)
    return Eligibility(
        gang, f"gangGroup {group} basic check: {', '.join(lacks)}, current gang: {id_}, podName: {key}"
    )


def _lacks(cache: GangCache, gang: Gang) -> list[str]:
    missing, unknown, has_too_few = [], [], False
    for id_ in gang.settings.group:
        member = cache.gangs.get(id_)
        if member is None:
            missing.append(id_)
        elif not member.is_initialized:
            unknown.append(id_)
        elif not member.has_enough_children:
            has_too_few = True
    lacks = []
    if missing:
        lacks.append(f"memberGangs {_listed(missing)} doesn't exists")
    if unknown:
        lacks.append(f"memberGangs {_listed(unknown)} has not init")
    if has_too_few:
        lacks.append(f"memberGangs {_listed(gang.settings.group)} child pod not collect enough")
    return lacks


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"
