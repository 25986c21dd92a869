"""One scheduling cycle after the other, and many binding cycles at once, as kube-scheduler runs them.

The cycle is `pkg/scheduler/schedule_one.go`: filter, extenders one after another on what is left, score,
extenders' scores added, a node chosen among the best, the pod assumed, reserved and permitted; then, beside
the next cycle, PreBind and the binding, by an extender that binds or by our own. The plugins are those of
`koordpy.scheduling`, in a profile and a state of its own: an extender in the same process is spoken to over
HTTP like any other.
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from koordpy.api.core import Namespace, Node, Pod
from koordpy.api.meta import format_time
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, NotFound
from koordpy.cluster.events import Recorder
from koordpy.cluster.informers import Informers
from koordpy.cluster.nodes import NodeSet
from koordpy.lib import supervise
from koordpy.lib.clock import Clock, SystemClock
from koordpy.scheduling.config import Profile, SchedulerConfiguration
from koordpy.scheduling.cycle_state import CycleState
from koordpy.scheduling.framework import Framework
from koordpy.scheduling.handle import Handle
from koordpy.scheduling.interface import Binding, QueuedPod
from koordpy.scheduling.outcome import FilterOutcome
from koordpy.scheduling.registry import Place, build
from koordpy.scheduling.status import SUCCESS, Code, Status

from .extenders import Extender, ExtenderError, interested
from .queue import SchedulingQueue, by_priority

log = logging.getLogger(__name__)

MIN_FEASIBLE_NODES = 100
"""Below this many nodes all are looked at, whatever the percentage says."""


class Scheduler:
    """Stands in for kube-scheduler. `run` until cancelled, or `start` and `stop`.

    Volumes and dynamic resources do not exist here: their plugins are left out of the default profile.
    """

    def __init__(
        self,
        config: SchedulerConfiguration,
        client: Client,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.config, self._client = config, client
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()
        self.cluster = Cluster(self._clock)
        self._nodes = self.cluster.nodes
        self._extenders = [Extender(entry) for entry in config.extenders]
        profiles = build(
            _ignoring(config, self._extenders), self._handle, place=Place.SCHEDULER, skip_missing=True
        )
        self.missing_plugins = profiles.missing
        self._profiles = profiles.frameworks
        sort = next(iter(self._profiles.values())).queue_sort
        self.queue = SchedulingQueue(
            self._clock,
            sort.less if sort is not None else by_priority,
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
        )
        self._informers = Informers(self.cluster, client)
        self._events = Recorder(client, controller="default-scheduler", clock=self._clock)
        self._wake = asyncio.Event()
        self._binding: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._next_start = 0
        self.bound = 0
        """Pods bound so far."""
        self._follow()

    def _handle(self, profile: Profile) -> Handle:
        return Handle(self.cluster, client=self._client, clock=self._clock, rng=self._rng)

    # --- life ------------------------------------------------------------------------------------

    async def start(self, *, sync_timeout: float = 60.0) -> None:
        """List everything, then begin to schedule. Raises TimeoutError when the lists do not come."""
        await self._informers.start()
        await self._informers.wait_synced(sync_timeout)
        for name, loop in (("scheduler", self._schedule_pods), ("scheduler events", self._events.run)):
            self._loops.append(asyncio.create_task(supervise.forever(f"embedded {name}", loop)))

    async def stop(self) -> None:
        """Stop scheduling; binding cycles under way are abandoned, as when a scheduler is killed."""
        tasks = [*self._binding, *self._loops]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._informers.stop()
        for extender in self._extenders:
            await extender.close()

    async def _schedule_pods(self) -> None:
        while True:
            item = self.queue.pop()
            if item is None:
                self._wake.clear()
                try:
                    async with asyncio.timeout(self.queue.ready_in()):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                continue
            await self._schedule_one(item)

    # --- following the cluster -------------------------------------------------------------------

    def _follow(self) -> None:
        self.cluster.store(Namespace)
        self.cluster.store(Node).subscribe(
            on_add=lambda _: self._something_changed(), on_update=self._node_updated
        )
        self.cluster.store(Pod).subscribe(self._pod_added, self._pod_updated, self._pod_deleted)

    def _something_changed(self) -> None:
        self.queue.move_all()
        self._wake.set()

    def _node_updated(self, old: Node, new: Node) -> None:
        if (
            old.spec != new.spec
            or old.status.allocatable != new.status.allocatable
            or old.metadata.labels != new.metadata.labels
        ):
            self._something_changed()

    def _pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._something_changed()
        elif self._is_ours(pod):
            self.queue.add(pod)
            self._wake.set()

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        uid = new.metadata.uid
        if new.spec.node_name:
            self.queue.delete(uid)
            if not old.spec.node_name or new.is_terminal != old.is_terminal:
                self._something_changed()
        elif not self._is_ours(new):
            self.queue.delete(uid)
        elif (
            self.queue.pool_of(uid) is None
            or old.spec != new.spec
            or (old.metadata.labels != new.metadata.labels)
        ):
            self.queue.add(new)
            self._wake.set()
        else:
            self.queue.update(new)

    def _pod_deleted(self, pod: Pod) -> None:
        self.queue.delete(pod.metadata.uid)
        profile = self._profile(pod)
        if profile is not None:
            profile.handle.waiting_pods.reject(pod.metadata.uid)
        if pod.spec.node_name:
            self._something_changed()

    def _is_ours(self, pod: Pod) -> bool:
        profile = self._profile(pod)
        return (
            profile is not None
            and not pod.is_terminal
            and pod.metadata.deletion_timestamp is None
            and not pod.spec.scheduling_gates
            and profile.run_pre_enqueue(pod).is_success
        )

    def _profile(self, pod: Pod) -> Framework | None:
        return self._profiles.get(pod.spec.scheduler_name or "default-scheduler")

    # --- the scheduling cycle --------------------------------------------------------------------

    async def _schedule_one(self, item: QueuedPod) -> None:
        live = self.cluster.store(Pod).by_key(item.pod.metadata.key)
        framework = self._profile(item.pod)
        uid = item.pod.metadata.uid
        if live is None or live.metadata.uid != uid or framework is None or self._nodes.is_assumed(uid):
            self.queue.delete(uid)
            return
        pod = live
        state = framework.new_state()
        try:
            node_name, status = await self._find_node(framework, state, pod)
        except ExtenderError as error:
            node_name, status = "", Status.failed(error)
        if node_name:
            status = self._reserve(framework, state, pod, node_name)
        if not node_name or not status.is_success:
            await self._failed(framework, item, pod, status)
            return
        permit, waits = framework.run_permit(state, pod, node_name)
        if not permit.is_success and permit.code is not Code.WAIT:
            self._forget(framework, state, pod, node_name)
            await self._failed(framework, item, pod, permit)
            return
        task = asyncio.create_task(self._bind(framework, state, item, pod, node_name, waits))
        self._binding.add(task)
        task.add_done_callback(self._binding.discard)

    async def _find_node(self, framework: Framework, state: CycleState, pod: Pod) -> tuple[str, Status]:
        nodes = self._nodes.all()
        if not len(nodes):
            return "", Status.unschedulable("no nodes available to schedule pods")
        outcome = framework.find_feasible(state, pod, nodes)
        if outcome.error is not None:
            return "", outcome.error
        feasible = self._enough(outcome, framework)
        extenders = interested(self._extenders, pod)
        refused: dict[str, str] = {}
        for extender in extenders:
            if not extender.config.filter_verb or not len(feasible):
                continue
            try:
                result = await extender.filter(pod, feasible)
            except ExtenderError:
                if extender.config.ignorable:
                    log.warning("skipping extender %s, which is ignorable", extender.name)
                    continue
                raise
            refused |= result.failed | result.unresolvable
            kept = set(result.kept)
            feasible = feasible.subset(np.array([name in kept for name in feasible.names], np.bool_))
        if not len(feasible):
            _, status = await framework.run_post_filter(state, pod, outcome)
            message = _no_fit(outcome, refused)
            if status.reasons:
                message += f" {status.message}."
            return "", Status.unschedulable(message)
        if len(feasible) == 1:
            return feasible.names[0], SUCCESS
        return await self._best(framework, state, pod, feasible, extenders)

    def _enough(self, outcome: FilterOutcome, framework: Framework) -> NodeSet:
        """Return the feasible nodes that kube-scheduler would have found before it stopped looking."""
        total = len(outcome.nodes)
        wanted = self._wanted(total, framework.profile_name)
        order = np.roll(np.arange(total), -self._next_start % total if total else 0)
        found = order[outcome.feasible[order]]
        if len(found) <= wanted:
            return outcome.nodes.pick(found)
        looked_at = int(np.flatnonzero(order == found[wanted - 1])[0]) + 1
        self._next_start = (self._next_start + looked_at) % total
        return outcome.nodes.pick(found[:wanted])

    def _wanted(self, total: int, profile_name: str) -> int:
        own = next(p for p in self.config.profiles if p.scheduler_name == profile_name)
        percentage = own.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self.config.percentage_of_nodes_to_score or 0
        if total < MIN_FEASIBLE_NODES or percentage >= 100:
            return total
        if percentage == 0:
            percentage = max(50 - total // 125, 5)
        return max(total * percentage // 100, MIN_FEASIBLE_NODES)

    async def _best(
        self,
        framework: Framework,
        state: CycleState,
        pod: Pod,
        nodes: NodeSet,
        extenders: Sequence[Extender],
    ) -> tuple[str, Status]:
        asked = [extender for extender in extenders if extender.config.prioritize_verb]
        if not asked and not framework.scores:
            return nodes.names[0], SUCCESS
        scores, status = framework.run_score(state, pod, nodes)
        if scores is None:
            return "", status
        total = scores.total.copy()
        answers = await asyncio.gather(
            *(extender.prioritize(pod, nodes) for extender in asked), return_exceptions=True
        )
        for extender, answer in zip(asked, answers, strict=True):
            if isinstance(answer, ExtenderError):
                log.warning("no scores from extender %s: %s", extender.name, answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                total += answer
        best = np.flatnonzero(total == total.max())
        return nodes.names[int(self._rng.choice(best.tolist()))], SUCCESS

    def _reserve(self, framework: Framework, state: CycleState, pod: Pod, node_name: str) -> Status:
        try:
            self._nodes.assume(pod, node_name)
        except ValueError as error:
            return Status.failed(error)
        status = framework.run_reserve(state, pod, node_name)
        if not status.is_success:
            self._forget(framework, state, pod, node_name)
        return status

    def _forget(self, framework: Framework, state: CycleState, pod: Pod, node_name: str) -> None:
        framework.run_unreserve(state, pod, node_name)
        framework.handle.forget_pod(pod, node_name)
        self._something_changed()

    # --- the binding cycle -----------------------------------------------------------------------

    async def _bind(
        self,
        framework: Framework,
        state: CycleState,
        item: QueuedPod,
        pod: Pod,
        node_name: str,
        waits: dict[str, float],
    ) -> None:
        status = await framework.handle.waiting_pods.wait(pod, node_name, waits) if waits else SUCCESS
        binding = Binding(pod, node_name)
        if status.is_success:
            status = await framework.run_pre_bind(state, pod, binding)
        if status.is_success:
            status = await self._write_binding(framework, state, pod, binding)
        if status.is_success:
            self.bound += 1
            self.queue.done(pod.metadata.uid)
            self._events.event(
                pod,
                "Normal",
                "Scheduled",
                f"Successfully assigned {pod.metadata.key} to {node_name}",
                action="Binding",
            )
            framework.run_post_bind(state, pod, node_name)
            return
        self._forget(framework, state, pod, node_name)
        await self._failed(framework, item, pod, status)

    async def _write_binding(
        self, framework: Framework, state: CycleState, pod: Pod, binding: Binding
    ) -> Status:
        binder = next((e for e in interested(self._extenders, pod) if e.config.bind_verb), None)
        try:
            if binder is not None:
                await binder.bind(pod, binding.node_name)
                return SUCCESS
            status = await framework.run_bind(state, pod, binding)
            if status.is_skip:
                await self._client.bind(pod, binding.node_name, binding.annotations)
                return SUCCESS
            return status
        except (ExtenderError, ApiError) as error:
            return Status.failed(error)

    # --- failures --------------------------------------------------------------------------------

    async def _failed(self, framework: Framework, item: QueuedPod, pod: Pod, status: Status) -> None:
        rejected = status.is_rejected
        if framework.handle.report_failure(pod, status):
            return
        self.queue.requeue(item, rejected=rejected)
        self._wake.set()
        reason = "Unschedulable" if rejected else "SchedulerError"
        self._events.event(pod, "Warning", "FailedScheduling", status.message, action="Scheduling")
        if _has_condition(pod, reason, status.message):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": status.message,
            "lastTransitionTime": format_time(self._clock.now()),
        }
        patch: dict[str, Any] = {"status": {"conditions": [condition]}}
        try:
            await self._client.patch_status(
                Pod, pod.metadata.namespace, pod.metadata.name, patch, PatchType.STRATEGIC
            )
        except NotFound:
            self.queue.delete(pod.metadata.uid)
        except ApiError as error:
            log.warning("cannot record why pod %s is pending: %s", pod.metadata.key, error)


def _has_condition(pod: Pod, reason: str, message: str) -> bool:
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and (condition.reason, condition.message) == (reason, message)
        for condition in pod.status.conditions
    )


def _no_fit(outcome: FilterOutcome, refused: dict[str, str]) -> str:
    """Say why no node was found, with what extenders said counted in."""
    if not refused:
        return outcome.message()
    counts: dict[str, int] = {}
    for status, names in outcome.failed():
        for reason in status.reasons:
            counts[reason] = counts.get(reason, 0) + len(names)
    for reason in refused.values():
        counts[reason] = counts.get(reason, 0) + 1
    total = len(outcome.nodes) + len(outcome.absent)
    histogram = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
    return f"0/{total} nodes are available: {histogram}."


def _ignoring(config: SchedulerConfiguration, extenders: Sequence[Extender]) -> SchedulerConfiguration:
    """Have NodeResourcesFit ignore the resources that extenders say they look after themselves."""
    ignored = sorted(
        resource.name
        for extender in extenders
        for resource in extender.config.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return config
    profiles = []
    for profile in config.profiles:
        entries = {entry.name: dict(entry.args) for entry in profile.plugin_config}
        args = entries.setdefault("NodeResourcesFit", {})
        args["ignoredResources"] = sorted({*args.get("ignoredResources", []), *ignored})
        plugin_config = tuple({"name": name, "args": args} for name, args in entries.items())
        profiles.append(
            Profile.model_validate(
                {
                    **profile.model_dump(by_alias=True, exclude={"plugin_config"}),
                    "pluginConfig": plugin_config,
                }
            )
        )
    return config.model_copy(update={"profiles": tuple(profiles)})
