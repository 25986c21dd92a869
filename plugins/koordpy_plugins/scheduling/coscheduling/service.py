"""The responses of `/apis/v1/plugins/Coscheduling/gang/<namespace>/<name>` and `.../gangs`.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/plugin_service.go` and `core/gang_summary.go`.
"""

from collections.abc import Iterable
from typing import Any, Final

from koordpy.api.meta import format_time
from koordpy.lib import duration

from .state.gang import Gang
from .state.gang_cache import GangCache
from .state.group import GangGroup

_ZERO: Final = "0001-01-01T00:00:00Z"
"""Go's zero time."""


class GangService:
    """Describes gangs."""

    def __init__(self, cache: GangCache) -> None:
        self._cache = cache

    def gang(self, namespace: str, name: str) -> dict[str, Any]:
        """Return one gang. Raises LookupError."""
        gang = self._cache.gangs.get(f"{namespace}/{name}")
        if gang is None:
            raise LookupError(f"cannot find gang {namespace}/{name}")
        return summary(gang)

    def gangs(self) -> dict[str, Any]:
        """Return all gangs by ID."""
        return {id_: summary(gang) for id_, gang in sorted(self._cache.gangs.items())}


def summary(gang: Gang) -> dict[str, Any]:
    """Return what is known of a gang, with Koordinator's field names; the wait time in nanoseconds."""
    settings = gang.settings
    return {
        "name": gang.id,
        "waitTime": round(settings.wait_seconds * duration.SECOND),
        "createTime": _created(gang),
        "mode": settings.mode,
        "gangMatchPolicy": settings.match_policy,
        "minRequiredNumber": settings.min_member,
        "totalChildrenNum": settings.total,
        "gangGroup": list(settings.group),
        "children": _set(gang.children),
        "pendingChildren": _set(gang.pending),
        "waitingForBindChildren": _set(gang.waiting),
        "boundChildren": _set(gang.bound),
        "onceResourceSatisfied": gang.group.once_satisfied,
        "gangGroupInfo": _group(gang.group),
        "gangFrom": str(settings.source),
        "hasGangInit": gang.is_initialized,
    }


def _created(gang: Gang) -> str:
    """Return the creation time; before anything has described the gang, when it was first seen."""
    return gang.settings.created_at or _ZERO if gang.is_initialized else format_time(gang.seen_at)


def _group(group: GangGroup) -> dict[str, Any]:
    return {
        "Initialized": group.is_initialized,
        "GangGroupId": group.id,
        "GangGroup": list(group.gangs) or None,
        "OnceResourceSatisfied": group.once_satisfied,
        "WaitingGangIDs": _set(group.waiting_gangs),
        "RepresentativePodKey": group.representative,
        "BindingMemberPods": _set(group.binding_members) or None,
    }


def _set(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    return {name: {} for name in sorted(names)}
