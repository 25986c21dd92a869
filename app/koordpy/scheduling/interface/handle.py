"""What plugins get to work with: the cluster, writes, time, and notifications."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol, TypeVar

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.cluster.network_topology.manager import TreeManager
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib.clock import Clock

from .auditor import Auditor, NoAuditor
from .cycle_state import CycleState
from .debug_flags import DebugFlags
from .extenders import PreemptExtender
from .failure import Failure, FailureHandler
from .gates import scheduling_gates
from .gpus import ChooseGPU
from .node_info import NodeInfo
from .nominator import Nominator
from .numa import NUMATopologyHintProvider
from .outcome import FilterOutcome, PreFilterOutcome, Scores
from .pod_queues import ClusterEvent, PodQueues
from .reservation_cache import NoReservations, ReservationCache
from .reservation_points import ReservationPoints
from .status import Status
from .waiting_pods import WaitingPods

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)

_NO_RESERVATIONS = NoReservations()
_NO_AUDITOR = NoAuditor()


class WhatIf(Protocol):
    """Hypothetical filter and score runs for plugins, implemented by the framework of the profile.

    States and node sets belong to the caller, so that no other component sees them.
    """

    @property
    def reservations(self) -> ReservationPoints:
        """The profile's plugins that take part in reservations."""
        ...

    @property
    def numa_hint_providers(self) -> Sequence[NUMATopologyHintProvider]:
        """The plugins that provide NUMA hints to a `TopologyManager`."""
        ...

    @property
    def gpu_choosers(self) -> Sequence[tuple[str, ChooseGPU]]:
        """The plugins with Score that choose GPUs, with their names, those with the largest weight first."""
        ...

    def new_state(self) -> CycleState:
        """Return the state of a new attempt."""
        ...

    def run_pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterOutcome:
        """Run PreFilter and the points around it: the only nodes that may fit, or why there are none."""
        ...

    def find_feasible(self, state: CycleState, pod: Pod, nodes: NodeSet) -> FilterOutcome:
        """Run PreFilter, then Filter on the nodes that PreFilter left."""
        ...

    def run_filters(self, state: CycleState, pod: Pod, nodes: NodeSet) -> FilterOutcome:
        """Run Filter on nodes, with a state that PreFilter has written."""
        ...

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> None:
        """Run AddPod of the PreFilter plugins for a pod on a node in this state."""
        ...

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        """Run RemovePod of the PreFilter plugins for a pod on a node in this state."""
        ...

    def tracks_pods(self, state: CycleState) -> bool:
        """Return whether any Filter plugin needs AddPod and RemovePod in this state."""
        ...

    def entangled(self, state: CycleState) -> list[str]:
        """Return the Filter plugins starting with the first whose answer depends on other nodes' pods."""
        ...

    def run_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Scores | None, Status]:
        """Return normalised, weighted scores of the nodes."""
        ...

    def placed_with(self, pod: Pod) -> Sequence[Pod]:
        """Return the pods that are placed together with a pod and have no node yet, without the pod."""
        ...


class Handle:
    """One per profile, shared by its plugins.

    `client` is None if nothing can be written (what-ifs, tests); plugins that need it must report that.
    `events` is None if no events are written. `extenders` are those that preemption calls. `network_topology`
    is None if it is disabled.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        client: Client | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        waiting_pods: WaitingPods | None = None,
        events: Recorder | None = None,
        extenders: Sequence[PreemptExtender] = (),
        debug_flags: DebugFlags | None = None,
        network_topology: TreeManager | None = None,
    ) -> None:
        self.cluster = cluster
        self.nodes: NodeTable = cluster.nodes
        self.client = client
        self.clock: Clock = clock or cluster.clock
        self.rng = rng or random.Random()
        self.nominator = cluster.shared(Nominator)
        # An empty one is false.
        self.waiting_pods = WaitingPods() if waiting_pods is None else waiting_pods
        self.debug_flags = debug_flags or DebugFlags()
        self.gates = scheduling_gates()
        """The feature gates; the framework of the profile sets them."""
        self.events = events
        self.extenders = extenders
        self.auditor: Auditor = _NO_AUDITOR
        """The workload auditor, once the process is put together; before, and where it is off, it records
        nothing."""
        self.queue = PodQueues()
        """Where pods of the profile wait for their next attempt."""
        self.network_topology = network_topology
        self.is_scheduler = False
        """Whether koordpy is the scheduler of the profile itself, with a queue that PreEnqueue and NextPod
        control, rather than beside kube-scheduler; the profile's builder sets it."""
        self._framework: WhatIf | None = None
        self._reservations: ReservationCache | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._forget_handlers: list[Callable[[Pod, str], None]] = []
        self._failure_filters: list[FailureHandler] = []
        self._failure_observers: list[FailureHandler] = []

    def sibling(self) -> "Handle":
        """Return a handle for another profile of the same process: same cluster, own plugins."""
        return Handle(
            self.cluster,
            client=self.client,
            clock=self.clock,
            rng=self.rng,
            waiting_pods=self.waiting_pods,
            events=self.events,
            extenders=self.extenders,
            debug_flags=self.debug_flags,
            network_topology=self.network_topology,
        )

    @property
    def framework(self) -> WhatIf:
        """The profile's framework. Not there yet while plugins are being made."""
        if self._framework is None:
            raise RuntimeError(
                "the framework is not built yet: use it in an extension point, not in __init__"
            )
        return self._framework

    def attach(self, framework: WhatIf) -> None:
        """Set the framework of the plugins' profile. Raises RuntimeError if there is one already."""
        if self._framework is not None:
            raise RuntimeError("the handle has a framework already: a handle belongs to one profile")
        self._framework = framework

    # --- what other plugins know -----------------------------------------------------------------

    @property
    def gpu_choosers(self) -> Sequence[tuple[str, ChooseGPU]]:
        """The plugins that choose the GPU of a pod that shares one, with their names; the first decides.

        There are none without a framework.
        """
        return () if self._framework is None else self._framework.gpu_choosers

    @property
    def reservations(self) -> ReservationCache:
        """The reservations, to read; there are none in a profile in which no plugin owns them.

        Plugins are created one after the other: use it in an extension point, not in `__init__`.
        """
        return self._reservations or _NO_RESERVATIONS

    def publish_reservations(self, reservations: ReservationCache) -> None:
        """Let the other plugins of the profile read the reservations that a plugin owns, once.

        Raises RuntimeError when another plugin has done so.
        """
        if self._reservations is not None:
            raise RuntimeError("another plugin of the profile owns its reservations already")
        self._reservations = reservations

    # --- beside the cycle ------------------------------------------------------------------------

    def spawn(self, work: Coroutine[None, None, object]) -> None:
        """Run a task concurrently with the scheduling of other pods; `close` cancels it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the background tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def activate(self, pod: Pod) -> None:
        """Request another attempt for a waiting pod, now; see `queue`."""
        self.queue.activate((pod,))

    def gave_back(self, pod: Pod) -> None:
        """Retry pods that were refused because of what a pod had reserved, which is free again.

        No event of the API server says so, because the pod is not bound. Plugins do not call this in
        Unreserve: it also reverts what was reserved hypothetically, or is reserved again at once.
        """
        self.queue.move_all(ClusterEvent(Pod, old=pod))

    # --- following the cluster -------------------------------------------------------------------

    def on(
        self,
        type_: type[T],
        add: Callable[[T], None] | None = None,
        update: Callable[[T, T], None] | None = None,
        delete: Callable[[T], None] | None = None,
    ) -> None:
        """Follow objects of a type: known objects are replayed through `add` first."""
        self.cluster.store(type_).subscribe(on_add=add, on_update=update, on_delete=delete)

    # --- failures --------------------------------------------------------------------------------

    def on_forget(self, handler: Callable[[Pod, str], None]) -> None:
        """Call a handler with pod and node name when an assumed pod is forgotten.

        It must tolerate pods that it does not know.
        """
        self._forget_handlers.append(handler)

    def forget_pod(self, pod: Pod, node_name: str) -> None:
        """Forget an assumed pod and call every forget handler, in order of registration.

        A handler that raises is logged and does not stop the others.
        """
        self.nodes.forget(pod.metadata.uid)
        for handler in self._forget_handlers:
            try:
                handler(pod, node_name)
            except Exception:
                log.exception("a forget handler raised for pod %s on %s", pod.metadata.key, node_name)

    def on_failure(self, handler: FailureHandler, *, claims: bool = False) -> None:
        """Call a handler when an attempt of this profile failed.

        With `claims` it is called before the default handling and may claim the failure: then no event,
        condition or retry follows. Otherwise it is called afterwards, whether the failure was claimed or not,
        until one of these handlers returns true.
        """
        (self._failure_filters if claims else self._failure_observers).append(handler)

    def claim_failure(self, failure: Failure) -> bool:
        """Return whether a handler claims a failure, before the default handling."""
        return any(handler(failure) for handler in self._failure_filters)

    def tell_failure(self, failure: Failure) -> None:
        """Call the failure handlers after the default handling."""
        any(handler(failure) for handler in self._failure_observers)

    def report_failure(self, failure: Failure) -> bool:
        """Do both, if kube-scheduler does the default handling; return whether the failure was claimed."""
        claimed = self.claim_failure(failure)
        self.tell_failure(failure)
        return claimed
