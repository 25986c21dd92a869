"""kube-scheduler's default plugins, and which interfaces make a plugin eligible for an extension point."""

from collections.abc import Mapping

from ..interface import (
    AfterPostFilter,
    AfterPreFilter,
    BeforeFilter,
    BeforePreFilter,
    BeforeScore,
    Bind,
    Filter,
    Permit,
    PostBind,
    PostFilter,
    PreBind,
    Preempt,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueueSort,
    ReservationPreBind,
    Reserve,
    Score,
)
from .config import PluginRef

DEFAULT_PLUGINS = (
    PluginRef(name="SchedulingGates"),
    PluginRef(name="PrioritySort"),
    PluginRef(name="NodeUnschedulable"),
    PluginRef(name="NodeName"),
    PluginRef(name="TaintToleration", weight=3),
    PluginRef(name="NodeAffinity", weight=2),
    PluginRef(name="NodePorts"),
    PluginRef(name="NodeResourcesFit", weight=1),
    PluginRef(name="VolumeRestrictions"),
    PluginRef(name="NodeVolumeLimits"),
    PluginRef(name="VolumeBinding"),
    PluginRef(name="VolumeZone"),
    PluginRef(name="PodTopologySpread", weight=2),
    PluginRef(name="InterPodAffinity", weight=2),
    PluginRef(name="DynamicResources"),
    PluginRef(name="DefaultPreemption"),
    PluginRef(name="NodeResourcesBalancedAllocation", weight=1),
    PluginRef(name="ImageLocality", weight=1),
    PluginRef(name="DefaultBinder"),
)
"""kube-scheduler's default plugins with their weights, in their order (release 1.35)."""

IN_TREE = frozenset(ref.name for ref in DEFAULT_PLUGINS)

ROLES: Mapping[str, tuple[type, ...]] = {
    "pre_enqueue": (PreEnqueue,),
    "queue_sort": (QueueSort,),
    "pre_filter": (PreFilter, BeforePreFilter, AfterPreFilter),
    "filter": (Filter, BeforeFilter),
    "post_filter": (PostFilter, Preempt, AfterPostFilter),
    "pre_score": (PreScore,),
    "score": (Score, BeforeScore),
    "reserve": (Reserve,),
    "permit": (Permit,),
    "pre_bind": (PreBind, ReservationPreBind),
    "bind": (Bind,),
    "post_bind": (PostBind,),
}
"""The interfaces of each extension point, by its name in `Plugins`."""

AT_POINTS: tuple[type, ...] = tuple(role for roles in ROLES.values() for role in roles)
"""All of them. A plugin with none runs wherever multiPoint enables it."""
