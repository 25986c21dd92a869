"""What the plugin Coscheduling answers about a gang at `/apis/v1/plugins/Coscheduling/gangs`.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/gang_summary.go`.
"""

from typing import Any, Final

from msgspec import Struct, field

PLUGIN: Final = "Coscheduling"

Pods = dict[str, Any]
"""A set of pods: `namespace/name` with empty objects."""


class GroupSummary(Struct, rename="pascal"):
    """The gang group that gangs share."""

    gang_group_id: str = ""
    gang_group: list[str] | None = None
    once_resource_satisfied: bool = False
    waiting_gang_ids: Pods | None = field(default=None, name="WaitingGangIDs")
    representative_pod_key: str = ""


class GangSummary(Struct, rename="camel"):
    """A gang as the plugin counts it. `wait_time` is in nanoseconds."""

    name: str
    wait_time: int = 0
    create_time: str | None = None
    mode: str = ""
    gang_match_policy: str = ""
    min_required_number: int = 0
    total_children_num: int = 0
    gang_group: list[str] | None = None
    children: Pods | None = None
    pending_children: Pods | None = None
    waiting_for_bind_children: Pods | None = None
    bound_children: Pods | None = None
    once_resource_satisfied: bool = False
    gang_group_info: GroupSummary | None = None
    gang_from: str = ""
    has_gang_init: bool = False
