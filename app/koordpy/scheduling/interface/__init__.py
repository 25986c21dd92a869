"""The extension points of a scheduling cycle, under Kubernetes' and Koordinator's names.

A plugin is a class that inherits `Plugin` and the points that it implements. `pre_filter`, `filter`, `score`
and so on are plain methods: scheduling is synchronous, one cycle at a time, so no plugin needs a lock. Only
the points that talk to the API server (PostFilter, PreBind, Bind) are coroutines.

A point that concerns many nodes, or many reservations, has two forms: one at a time, easy to write, and all
at once as arrays, fast. Implement either; the other is derived from it. A plugin that implements both must
return the same answers.

An exception in a point is an Error of the attempt, with the plugin's name: the pod is retried.

In the order of a cycle: `queueing`, `filtering`, `scoring`, `binding`; `reservations` and `numa` have
Koordinator's points within those, `providers` what a plugin may provide besides, `signing` the signatures of
pods.
"""

from .binding import Bind, Binding, Permit, PostBind, PreBind, Reserve, ResizePod
from .extenders import ExtenderError, PreemptExtender
from .filtering import (
    AfterPostFilter,
    AfterPreFilter,
    BeforeFilter,
    BeforePreFilter,
    ExplainsFailure,
    Filter,
    FindOneNode,
    NodeTransformer,
    PostFilter,
    Preempt,
    PreferNodes,
    PreFilter,
    Victims,
)
from .jobs import Job, PlansJobs
from .numa import (
    NUMAHintGroups,
    NUMATopologyHint,
    NUMATopologyHintProvider,
    NUMATopologyHints,
    shared_hint,
)
from .plan import PlacementPlan, PlannedPod
from .plugin import Plugin
from .providers import APIService, Controller, ControllerProvider
from .queueing import (
    Changed,
    ChangeHelps,
    EnqueueExtensions,
    NextPod,
    PreEnqueue,
    QueuedPod,
    QueueSort,
    any_change,
)
from .reservation_info import ReservationInfo
from .reservation_pairs import ReservationPairs
from .reservation_points import ReservationPoints
from .reservations import (
    ReservationFilter,
    ReservationNominator,
    ReservationPreAllocationRestore,
    ReservationPreBind,
    ReservationRestore,
    ReservationScore,
)
from .scoring import MAX_NODE_SCORE, MIN_NODE_SCORE, BeforeScore, PreScore, Score
from .signing import Reach, SignPlugin
from .tentative import TentativeReserve

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "APIService",
    "AfterPostFilter",
    "AfterPreFilter",
    "BeforeFilter",
    "BeforePreFilter",
    "BeforeScore",
    "Bind",
    "Binding",
    "ChangeHelps",
    "Changed",
    "Controller",
    "ControllerProvider",
    "EnqueueExtensions",
    "ExplainsFailure",
    "ExtenderError",
    "Filter",
    "FindOneNode",
    "Job",
    "NUMAHintGroups",
    "NUMATopologyHint",
    "NUMATopologyHintProvider",
    "NUMATopologyHints",
    "NextPod",
    "NodeTransformer",
    "Permit",
    "PlacementPlan",
    "PlannedPod",
    "PlansJobs",
    "Plugin",
    "PostBind",
    "PostFilter",
    "PreBind",
    "PreEnqueue",
    "PreFilter",
    "PreScore",
    "Preempt",
    "PreemptExtender",
    "PreferNodes",
    "QueueSort",
    "QueuedPod",
    "Reach",
    "ReservationFilter",
    "ReservationInfo",
    "ReservationNominator",
    "ReservationPairs",
    "ReservationPoints",
    "ReservationPreAllocationRestore",
    "ReservationPreBind",
    "ReservationRestore",
    "ReservationScore",
    "Reserve",
    "ResizePod",
    "Score",
    "SignPlugin",
    "TentativeReserve",
    "Victims",
    "any_change",
    "shared_hint",
]
