"""Every point of a scheduling cycle at which a plugin may speak, by Kubernetes' and Koordinator's names.

A plugin is a class that inherits `Plugin` and the points that it implements. `pre_filter`, `filter`, `score`
and so on are plain methods: scheduling is synchronous, one cycle at a time, so no plugin needs a lock. Only
the points that talk to the API server (PostFilter, PreBind, Bind) are coroutines.

Where a point is about many nodes it has two forms: one node at a time, easy to write, and all nodes at once
as arrays, fast. Implement either; the other follows from it. A plugin that gives both must give the same
answers.

A point that raises is an Error of the attempt, with the plugin's name: the pod is retried.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.needs import Lack, Needs
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet

from .args import NoArgs, PluginArgs
from .cycle_state import CycleState
from .handle import Handle
from .node_info import NodeInfo, each
from .outcome import FilterOutcome, PostFilterResult
from .reservation_info import ReservationInfo as ReservationInfo
from .status import SUCCESS, Status, Verdict

MIN_NODE_SCORE = 0
MAX_NODE_SCORE = 100


class Plugin:
    """What every plugin has. Plugins are made once per profile, in the order of the profile's configuration.

    `name` is the name in configuration files. `args_type` says what the plugin's `pluginConfig` may hold;
    its defaults apply when the configuration says nothing. `looks_again` names in-tree filters that have to
    run after this plugin's BeforeFilter also where kube-scheduler has run them already, because BeforeFilter
    shows them nodes that kube-scheduler did not see. `needs` is what it cannot work without and does not show
    otherwise. `watch_suffices` says that whatever the plugin does once a node is chosen (Reserve and later)
    also follows from the watch showing the pod on its node, so that kube-scheduler may bind by itself.
    """

    name: ClassVar[str]
    args_type: ClassVar[type[PluginArgs]] = NoArgs
    looks_again: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[Needs] = Needs()
    watch_suffices: ClassVar[bool] = False

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def lacks(self) -> Iterable[Lack]:
        """Return what the plugin lacks in the cluster as the handle has it, for `koordpy doctor`.

        Everything that the plugin follows has been listed when it is called, pods aside.
        """
        return ()


class _TwoForms:
    """Checks that a class implements one of the two forms of a point (cooperatively, for several points)."""

    _forms: ClassVar[tuple[tuple[type, str, str], ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if not issubclass(cls, Plugin):
            return
        for point, single, batch in _TwoForms._forms:
            if issubclass(cls, point) and all(
                getattr(cls, form) is getattr(point, form) for form in (single, batch)
            ):
                raise TypeError(f"{cls.__name__} is a {point.__name__} and must define {single} or {batch}")


# --- queue ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod in a scheduling queue."""

    pod: Pod
    queued_at: float
    """Monotonic seconds at which it was queued last."""
    attempts: int = 0


class QueueSort:
    """Orders the queue; exactly one per profile. Only where koordpy is the scheduler itself: beside
    kube-scheduler the order is kube-scheduler's."""

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Tell whether `first` is scheduled before `second`."""
        raise NotImplementedError


class PreEnqueue:
    """Keeps a pod out of the queue until it may be tried. Beside kube-scheduler: a scheduling gate."""

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return Success, or a rejection that keeps the pod out; the first rejection counts."""
        raise NotImplementedError


class NextPod:
    """Chooses which pod is scheduled next; one per process. Beside kube-scheduler it is not asked."""

    def next_pod(self) -> Pod | None:
        """Return a queued pod to go before all others, or None to leave it to the queue's order."""
        raise NotImplementedError


# --- filter --------------------------------------------------------------------------------------


class BeforePreFilter:
    """Transformer: may replace the pod before PreFilter. Runs where PreFilter is enabled."""

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Return a pod for the rest of PreFilter (None: the same); a failure ends the attempt."""
        raise NotImplementedError


class PreFilter:
    """Looks at the pod once per attempt, before any node.

    `node_local` says that add_pod and remove_pod change what Filter says of their node only: then preemption
    looks at many nodes in one go.
    """

    node_local: ClassVar[bool] = False

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Return the only node names that may fit (None: any) and a status.

        Skip also skips this plugin's Filter. UnschedulableAndUnresolvable ends the attempt at once,
        Unschedulable after the other plugins have run. Any other code is an Error.
        """
        raise NotImplementedError

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Update what pre_filter wrote as if `added` were on the node too."""
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Update what pre_filter wrote as if `removed` were no longer on the node."""
        return SUCCESS


class AfterPreFilter:
    """Transformer: sees what PreFilter came to. Runs where PreFilter is enabled."""

    def after_pre_filter(self, state: CycleState, pod: Pod, node_names: frozenset[str] | None) -> Status:
        """Return Success, or a failure that ends the attempt."""
        raise NotImplementedError


class FindOneNode:
    """Places a pod by a plan made elsewhere; one per profile."""

    def find_one_node(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[str, Status]:
        """Return the one node to look at, or Skip; a failure ends the attempt."""
        raise NotImplementedError


class PreferNodes:
    """Names nodes to be tried first; one per profile."""

    def prefer_nodes(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[Sequence[str], Status]:
        """Return names in order: the first that passes all filters is taken alone. Or Skip."""
        raise NotImplementedError


class BeforeFilter:
    """Transformer: may show this attempt other nodes than the cluster has. Runs where Filter is enabled."""

    def before_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Verdict]:
        """Return pod and nodes (same names and order, perhaps overlaid) and who is refused already."""
        raise NotImplementedError


class Filter(_TwoForms):
    """Refuses nodes. Called after PreFilter, for the nodes left; the first refusal of a node counts."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Return Success, Unschedulable, UnschedulableAndUnresolvable; anything else fails the attempt."""
        return self.filter_nodes(state, pod, node.nodes.pick(np.array([node.index]))).status(0)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Return the same for all nodes at once."""
        return Verdict.of([self.filter(state, pod, node) for node in each(nodes)])


class PostFilter:
    """Called when no node was found, usually to preempt. Only where koordpy is the scheduler itself."""

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Return a nomination and a status.

        Success ends the phase; Unschedulable goes on with the next plugin (reasons add up, the last
        overriding nomination counts); UnschedulableAndUnresolvable ends it; anything else is an Error.
        """
        raise NotImplementedError


@dataclass(slots=True)
class Victims:
    """Pods on one node that would be evicted to make room."""

    pods: list[Pod]
    pdb_violations: int = 0


class Preempt:
    """Looks at the victims that kube-scheduler proposes. Runs where PostFilter is enabled, in its order."""

    def preempt(self, state: CycleState, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Return the proposals by node name to go on with: nodes may be dropped, victims dropped or added."""
        raise NotImplementedError


class ExplainsFailure:
    """Says why a pod fits nowhere beyond what was said of each node, and does nothing about it.

    Beside kube-scheduler it takes the place of what PostFilter's status says. Runs where PostFilter is
    enabled.
    """

    def reasons(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> Sequence[str]:
        """Return reasons, in order; none when there is nothing to add."""
        raise NotImplementedError


class AfterPostFilter:
    """Transformer: observes the end of PostFilter. Runs where PostFilter is enabled, always."""

    def after_post_filter(self, state: CycleState, pod: Pod, outcome: FilterOutcome, status: Status) -> None:
        """Look at what came of it."""
        raise NotImplementedError


# --- score ---------------------------------------------------------------------------------------


class PreScore:
    """Looks at the pod and the feasible nodes once before scoring. Not called when one node is left."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Return Success; or Skip, which also skips this plugin's Score; anything else fails the attempt."""
        raise NotImplementedError


class BeforeScore:
    """Transformer: may replace pod and nodes before scoring. Runs where Score is enabled."""

    def before_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Status]:
        """Return what to score; a failure ends the attempt."""
        raise NotImplementedError


class Score(_TwoForms):
    """Ranks nodes. Scores end within 0..100 after `normalize_scores` and are multiplied by the weight."""

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return a node's score; raise to fail the attempt."""
        return int(self.score_nodes(state, pod, node.nodes.pick(np.array([node.index])))[0])

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Return (n,) int64 scores, one a node; raise to fail the attempt."""
        return np.fromiter((self.score(state, pod, node) for node in each(nodes)), np.int64, len(nodes))

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Return the scores (n,) brought into 0..100; the default leaves them as they are."""
        return scores


_TwoForms._forms = ((Filter, "filter", "filter_nodes"), (Score, "score", "score_nodes"))


# --- from host to binding ------------------------------------------------------------------------


class ResizePod:
    """May change what the pod requests once its node is known, before it is assumed."""

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        """Return the pod to go on with (the same one, or a changed copy); a failure ends the attempt."""
        raise NotImplementedError


class Reserve:
    """The commit point: here alone anything is handed out. Two attempts never get the same thing."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Take what the pod needs, looking again at what Filter saw; a failure ends the attempt."""
        raise NotImplementedError

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give it back. Called for every Reserve plugin in reverse order, also for those never reached."""
        raise NotImplementedError


class Permit:
    """The last word before binding, and the only point that may let a pod wait."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Return Success, a rejection, or `Status.wait(seconds)`.

        A waiting pod goes on when every plugin that let it wait has allowed it through
        `handle.waiting_pods`; the first rejection or timeout ends it. Waits are capped at 15 minutes.
        """
        raise NotImplementedError


@dataclass(slots=True)
class Binding:
    """What one write to the API server will say: the pod's node, and annotations that are set on the pod."""

    pod: Pod
    node_name: str
    annotations: dict[str, str] = field(default_factory=dict)


class PreBind:
    """Prepares the binding: writes annotations into it, or something elsewhere."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Return Success, or a failure that ends the attempt."""
        raise NotImplementedError


class Bind:
    """Binds the pod. The first plugin that does not skip has done it."""

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Return Success, Skip, or a failure that ends the attempt."""
        raise NotImplementedError


class PostBind:
    """Told that a pod is bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Look at it, clean up."""
        raise NotImplementedError


# --- reservations --------------------------------------------------------------------------------


class ReservationRestore:
    """Gives back to an attempt, node by node, what reservations that it may use hold."""

    def pre_restore_reservation(self, state: CycleState, pod: Pod) -> Status:
        """Prepare; the first failure ends the restoring."""
        raise NotImplementedError

    def restore_reservation(
        self,
        state: CycleState,
        pod: Pod,
        matched: Sequence[ReservationInfo],
        unmatched: Sequence[ReservationInfo],
        node: NodeInfo,
    ) -> tuple[object, Status]:
        """Return this plugin's state of one node; a failure drops all states of the node."""
        raise NotImplementedError

    def final_restore_reservation(self, state: CycleState, pod: Pod, states: Mapping[str, object]) -> Status:
        """Take the states of all nodes, by node name."""
        raise NotImplementedError


class ReservationPreAllocationRestore:
    """The same for a Reservation that takes over what running pods hold."""

    def pre_restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo
    ) -> Status:
        """Prepare; the first failure ends the restoring."""
        raise NotImplementedError

    def restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pods: Sequence[Pod], node: NodeInfo
    ) -> tuple[object, Status]:
        """Return this plugin's state of one node; a failure drops all states of the node."""
        raise NotImplementedError


class ReservationFilter:
    """Refuses reservations for a pod."""

    def filter_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node: NodeInfo
    ) -> Status:
        """Tell, while nodes are filtered, whether the pod fits into a reservation."""
        raise NotImplementedError

    def filter_nominate_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        """Tell, once a node is chosen, whether a reservation may be nominated for the pod."""
        raise NotImplementedError


class ReservationScore:
    """Ranks the reservations of a node for a pod; every plugin has weight 1."""

    def score_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> int:
        """Return a score; raise to fail."""
        raise NotImplementedError

    def normalize_reservation_scores(self, state: CycleState, pod: Pod, scores: list[int]) -> list[int]:
        """Return the scores brought into 0..100; the default leaves them as they are."""
        return scores


class ReservationNominator:
    """Chooses the reservation that a pod will use; one per profile."""

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Choose, once the node is known; a failure ends the attempt."""
        raise NotImplementedError

    def delete_nominated_reservation(self, pod: Pod) -> None:
        """Forget what was chosen for a pod."""
        raise NotImplementedError


class ReservationPreBind:
    """PreBind for reserve pods: plain PreBind plugins are not called for them."""

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        """Return Success, or a failure that ends the attempt."""
        raise NotImplementedError


# --- NUMA topology -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NUMATopologyHint:
    """A set of NUMA nodes on which a resource can be had. `affinity` is a bitmask, None means any."""

    affinity: int | None
    preferred: bool = False
    unsatisfied: bool = False
    score: int = 0


class NUMATopologyHintProvider:
    """Says where on a node a pod's resources can be had, and takes them there."""

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        """Return hints by resource: None does not care, an empty list cannot be satisfied."""
        raise NotImplementedError

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        """Check (and remember for Reserve) an allocation within an affinity."""
        raise NotImplementedError


# --- beside the cycle ----------------------------------------------------------------------------


class Controller(Protocol):
    """A loop that a plugin wants to run in the process that leads."""

    name: str

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class ControllerProvider:
    """A plugin with controllers."""

    def controllers(self) -> Sequence[Controller]:
        """Return them; called once per plugin name and process."""
        raise NotImplementedError


class APIService:
    """A plugin with a read-only REST face under `/apis/v1/plugins/<name>/`."""

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """Return functions by path template (`node/{node_name}`).

        Path parameters arrive as keyword arguments; the result is encoded as JSON; LookupError is a 404.
        """
        raise NotImplementedError
