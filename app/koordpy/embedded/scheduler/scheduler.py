"""One scheduling cycle after the other, and many binding cycles at once, as kube-scheduler runs them.

The cycle is `pkg/scheduler/schedule_one.go`: a node is found, the pod assumed there, reserved and permitted;
then, concurrently with the next cycle, PreBind and the binding, by an extender that binds or by the Bind
plugins. The plugins are those of `koordpy.scheduling`, in a separate profile and state: an extender in the
same process is called over HTTP like any other.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.events import NORMAL, Recorder
from koordpy.cluster.informers import Informers
from koordpy.cluster.leader import LeaderElector, identity
from koordpy.cluster.network_topology.manager import TreeManager
from koordpy.lib import supervise
from koordpy.lib.clock import Clock, SystemClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.lib.http1 import Connect
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.plans import Plans
from koordpy.scheduling.cycle.queue import SchedulingQueue, by_priority
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import ExtenderError, Plugin, QueuedPod
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.failure import Failure, taken_over
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.nominator import Nominator
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.interface.waiting_pods import WaitingPods
from koordpy.scheduling.profiles.config import Profile, SchedulerConfiguration
from koordpy.scheduling.profiles.registry import Place, build

from . import failures
from .cluster_events import ClusterEvents
from .extenders import in_order, without_ignored_resources
from .failures import CLEARED
from .search import NodeSearch

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Attempt:
    """One attempt to place one pod."""

    framework: Framework
    item: QueuedPod
    pod: Pod
    state: CycleState
    placement: Placement | None = None
    """What has been allocated for it, once a node is found."""

    @property
    def node_name(self) -> str:
        return "" if self.placement is None else self.placement.node_name

    def roll_back(self) -> None:
        """Roll back what was allocated, if anything."""
        if self.placement is not None:
            self.placement.roll_back()


class Scheduler:
    """A substitute for kube-scheduler, with `start` and `stop`.

    Volumes and dynamic resources do not exist here: their plugins are left out of the default profile.
    `connect` replaces the network for calls of extenders; `classes` are the plugins by name, None for the
    installed ones. With `elects` the `leaderElection` of the configuration applies; without it this is the
    only scheduler of its control plane, and needs no Lease. With `network_topology` plugins know the network
    that the ClusterNetworkTopology describes; its status is not written.
    """

    def __init__(
        self,
        config: SchedulerConfiguration,
        client: Client,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        connect: Connect | None = None,
        classes: Mapping[str, type[Plugin]] | None = None,
        gates: FeatureGates | None = None,
        elects: bool = False,
        network_topology: bool = False,
    ) -> None:
        self.config, self._client = config, client
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self.cluster = Cluster(self._clock)
        self._nodes = self.cluster.nodes
        self._nominator = self.cluster.shared(Nominator)
        self._waiting_pods = WaitingPods()
        self._extenders = in_order(config.extenders, connect)
        self._network_topology = TreeManager(self.cluster, None) if network_topology else None
        self._events = Recorder(client, controller="default-scheduler", clock=self._clock)
        self._handles: list[Handle] = []
        profiles = build(
            without_ignored_resources(config),
            self._handle,
            place=Place.SCHEDULER,
            classes=classes,
            skip_missing=True,
            gates=gates,
        )
        self._profiles = profiles.frameworks
        self._plans = Plans(self._profiles.values(), self._handles[0])
        self._search = NodeSearch(config, self._nodes, self._extenders, self._rng)
        sort = next(iter(self._profiles.values())).queue_sort
        self.queue = SchedulingQueue(
            self._clock,
            sort.less if sort is not None else by_priority,
            admits=self._admits,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
        )
        self._next_pods = [f.next_pod for f in self._profiles.values() if f.next_pod is not None]
        self._informers = Informers(self.cluster, client, rng=self._rng)
        election = config.leader_election
        self._elector = (
            LeaderElector(
                client,
                election.resource_namespace,
                election.resource_name,
                identity(),
                lease_duration=election.lease_duration,
                renew_deadline=election.renew_deadline,
                retry_period=election.retry_period,
                clock=self._clock,
                rng=self._rng,
            )
            if elects and election.leader_elect
            else None
        )
        self._wake = asyncio.Event()
        self._binding: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self.bound = 0
        """Pods bound so far."""
        self._cluster_events = ClusterEvents(
            self.cluster,
            self.queue,
            self._waiting_pods,
            self._wake,
            lambda pod: self._profile(pod) is not None,
        )
        self._cluster_events.follow()
        for each in self._handles:
            each.queue.join(self._cluster_events)

    def _handle(self, profile: Profile) -> Handle:
        handle = Handle(
            self.cluster,
            client=self._client,
            clock=self._clock,
            rng=self._rng,
            waiting_pods=self._waiting_pods,
            events=self._events,
            extenders=self._extenders,
            network_topology=self._network_topology,
        )
        self._handles.append(handle)
        return handle

    # --- lifecycle -------------------------------------------------------------------------------

    async def start(self, *, sync_timeout: float = 60.0) -> None:
        """List everything, then start scheduling, or campaigning for the Lease.

        Raises TimeoutError if the lists take too long.
        """
        await self._informers.start()
        await self._informers.wait_synced(sync_timeout)
        for name, loop in (("scheduler", self._lead), ("scheduler events", self._events.run)):
            self._loops.append(asyncio.create_task(supervise.forever(f"embedded {name}", loop)))

    async def stop(self) -> None:
        """Stop scheduling; binding cycles in progress are abandoned, as when a scheduler is killed."""
        tasks = [*self._binding, *self._loops]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loops.clear()
        for handle in self._handles:
            await handle.close()
        await self._informers.stop()
        for extender in self._extenders:
            await extender.close()

    async def _lead(self) -> None:
        """Schedule pods, where there is an election while the Lease is held."""
        if self._elector is None:
            await self._schedule_pods()
        else:
            await self._elector.run(self._schedule_pods)

    async def _schedule_pods(self) -> None:
        while True:
            item = self._pop()
            if item is not None:
                await self._schedule_one(item)
                await asyncio.sleep(0)  # let bindings and watches run, even if nothing had to be awaited
                continue
            self._wake.clear()
            try:
                async with asyncio.timeout(self.queue.ready_in()):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _pop(self) -> QueuedPod | None:
        for plugin in self._next_pods:
            asked: set[str] = set()
            while (preferred := plugin.next_pod()) is not None and preferred.metadata.uid not in asked:
                asked.add(preferred.metadata.uid)
                item = self.queue.pick(preferred.metadata.uid)
                if item is not None:
                    return item
        return self.queue.pop()

    # --- which profile a pod is for --------------------------------------------------------------

    def _admits(self, pod: Pod) -> bool:
        """PreEnqueue; gates count even if a profile omits the plugin: no gated pod can be bound."""
        framework = self._profile(pod)
        return (
            framework is not None
            and not pod.spec.scheduling_gates
            and framework.run_pre_enqueue(pod).is_success
        )

    def _profile(self, pod: Pod) -> Framework | None:
        return self._profiles.get(pod.spec.scheduler_name or "default-scheduler")

    # --- the scheduling cycle --------------------------------------------------------------------

    async def _schedule_one(self, item: QueuedPod) -> None:
        pod = self.cluster.store(Pod).by_key(item.pod.metadata.key)
        uid = item.pod.metadata.uid
        framework = self._profile(item.pod)
        if pod is None or pod.metadata.uid != uid or framework is None or self._nodes.is_assumed(uid):
            self.queue.delete(uid)
            return
        attempt = _Attempt(framework, item, pod, framework.new_state())
        try:
            status = await self._place(attempt)
        except Exception as error:
            log.exception("scheduling pod %s failed", pod.metadata.key)
            attempt.roll_back()
            status = Status.failed(error)
            await self._failed(attempt, status, CLEARED)
        if status.is_success and attempt.placement is not None:
            task = asyncio.create_task(self._bind(attempt, attempt.placement))
            self._binding.add(task)
            task.add_done_callback(partial(self._bind_ended, attempt))

    async def _place(self, attempt: _Attempt) -> Status:
        """Find a node and reserve there for the pod; handle a failure."""
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        self._plans.begin(state, pod, self._nodes.all())
        found = await self._search.find(framework, state, pod)
        if found.node_name:
            self._plans.found(state, pod)
        else:
            status = found.status
            nomination: PostFilterResult | None = CLEARED
            if found.outcome is not None:
                status, nomination = await self._post_filter(attempt, found.outcome)
            await self._failed(
                attempt,
                status,
                nomination,
                outcome=found.outcome,
                anything_helps=found.extender_refused,
            )
            return status
        placement = attempt.placement = Placement(framework, state, pod, found.node_name)
        status = placement.reserve()
        attempt.pod = placement.pod
        if status.is_success:
            status = placement.permit()
            if status.is_success or status.code is Code.WAIT:
                return SUCCESS
        placement.roll_back()
        await self._failed(attempt, _on_one_node(status), CLEARED)
        return status

    async def _post_filter(
        self, attempt: _Attempt, outcome: FilterOutcome
    ) -> tuple[Status, PostFilterResult | None]:
        if not attempt.framework.has_post_filter:
            return Status.unschedulable(outcome.message()), CLEARED
        nomination, after = await attempt.framework.run_post_filter(attempt.state, attempt.pod, outcome)
        return Status.unschedulable(outcome.message(after.message)), nomination

    # --- the binding cycle -----------------------------------------------------------------------

    async def _bind(self, attempt: _Attempt, placement: Placement) -> None:
        pod, node_name = placement.pod, placement.node_name
        try:
            with placement:
                status = await self._permitted_and_bound(placement)
        except Exception as error:
            log.exception("binding pod %s failed", pod.metadata.key)
            status = Status.failed(error)
        if status.is_success:
            self.bound += 1
            self.queue.done(pod.metadata.uid)
            note = f"Successfully assigned {pod.metadata.key} to {node_name}"
            self._events.event(pod, NORMAL, "Scheduled", note, action="Binding")
            placement.post_bind()
            return
        await self._failed(attempt, status, CLEARED, freed=True)

    def _bind_ended(self, attempt: _Attempt, task: asyncio.Task[None]) -> None:
        """Clean up after a task, which may have been cancelled before it started."""
        attempt.roll_back()
        self._binding.discard(task)

    async def _permitted_and_bound(self, placement: Placement) -> Status:
        status = await placement.allowed()
        if not status.is_success:
            return _on_one_node(status)
        status = await placement.pre_bind()
        if not status.is_success:
            return status
        return await placement.write(self._write(placement))

    async def _write(self, placement: Placement) -> Status:
        """Bind the pod by an extender that supports it, else by the Bind plugins."""
        try:
            status = await self._bound_by_extender(placement)
            if status.is_skip:
                status = await placement.bind()
            if status.is_skip:
                binding = placement.binding
                await self._client.bind(placement.pod, binding.node_name, binding.annotations)
                status = SUCCESS
        except (ExtenderError, ApiError, ConnectionFailed) as error:
            status = Status.failed(error)
        if not status.is_success:
            await placement.unmark()
        return status

    async def _bound_by_extender(self, placement: Placement) -> Status:
        """Bind by the first extender that supports it; Skip if there is none. Raises its error."""
        pod = placement.pod
        for extender in self._extenders:
            if not extender.config.bind_verb or not extender.is_interested(pod):
                continue
            status = await placement.mark(pod, annotations=True)  # an extender's Binding carries neither
            if not status.is_success:
                return status
            try:
                await extender.bind(pod, placement.node_name)
            except ExtenderError as error:
                if not extender.config.ignorable:
                    raise
                log.warning("extender %s, which is ignorable, did not bind: %s", extender.name, error)
                continue
            return SUCCESS
        return Status.skip()

    # --- failures --------------------------------------------------------------------------------

    async def _failed(
        self,
        attempt: _Attempt,
        status: Status,
        nomination: PostFilterResult | None,
        *,
        outcome: FilterOutcome | None = None,
        anything_helps: bool = False,
        freed: bool = False,
    ) -> None:
        """Handle a failed attempt. `freed`: other pods may fit into what it had allocated."""
        handle = attempt.framework.handle
        self._plans.failed(attempt.pod)
        nomination = taken_over(status, nomination, attempt.node_name)
        failure = Failure(attempt.pod, status, nomination, attempt.node_name, attempt.state, outcome)
        if handle.claim_failure(failure):
            self.queue.done(attempt.pod.metadata.uid)
        else:
            await self._treat(attempt, failure, anything_helps=anything_helps, freed=freed)
        handle.tell_failure(failure)

    async def _treat(self, attempt: _Attempt, failure: Failure, *, anything_helps: bool, freed: bool) -> None:
        """Requeue the pod and report the failure, as kube-scheduler does."""
        pod, status, nomination = failure.pod, failure.status, failure.nomination
        uid = pod.metadata.uid
        known = self.queue.requeue(
            attempt.item,
            rejected=status.is_rejected,
            placements_help=_looks_at_other_pods(pod),
            anything_helps=anything_helps,
        )
        if freed:
            attempt.framework.handle.gave_back(pod)
        self._wake.set()
        if not known:
            return
        if nomination is not None and nomination.override:
            if nomination.nominated_node_name:
                self._nominator.add(pod, nomination.nominated_node_name)
            else:
                self._nominator.delete(uid)
        try:
            await failures.record(self._client, self._events, self._clock, pod, status, nomination)
        except NotFound:
            self.queue.delete(uid)


def _on_one_node(status: Status) -> Status:
    """Return kube-scheduler's message for a rejection after a node was chosen: one node was tried."""
    if not status.is_rejected:
        return status
    reasons = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
    return Status(status.code, (f"0/1 nodes are available: {reasons}.",), status.plugin)


def _looks_at_other_pods(pod: Pod) -> bool:
    """Return whether a pod may fit because another one was placed."""
    affinity = pod.spec.affinity
    return bool(pod.spec.topology_spread_constraints) or (
        affinity is not None and affinity.pod_affinity is not None
    )
