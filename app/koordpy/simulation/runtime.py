"""What the pods of a scenario do on their nodes: run for their durations, and use resources.

A pod that has run for its duration is deleted at once, as by an owner that keeps no ended pods.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from koordpy.agent.toolkit.usage import is_not_best_effort
from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.cluster.store import Store
from koordpy.embedded.kubelet.plan import ContainerPlan, PodPlan
from koordpy.embedded.kubelet.usage import Usage
from koordpy.lib.clock import Clock

from .journal import Incarnation, Journal

Document = dict[str, Any]

_TERMINATION = 30.0
"""The longest time in seconds that a deleted pod takes to terminate."""


class ScenarioRuntime:
    """Runs the planned pods, and records what becomes of them. `gone` is called with every ended pod."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        journal: Journal,
        usage: Usage,
        gone: Callable[[Incarnation], None],
    ) -> None:
        self._client, self._clock, self._journal, self._usage = client, clock, journal, usage
        self._gone = gone
        self._slots: dict[str, int] = {}
        self._ends: dict[str, asyncio.Task[bool]] = {}
        """Ends of members of gangs that have begun to work, by UID."""

    def follow(self, pods: Store[Pod]) -> None:
        """Follow the ends of pods. Call it after the kubelets have subscribed: they end usage first."""
        pods.subscribe(None, lambda _, pod: self._updated(pod), self._deleted)

    async def plan(self, pod: Pod) -> tuple[PodPlan, Document] | None:
        """Return the plan of a pod of the scenario."""
        known = self._known(pod)
        if known is None or pod.spec.node_name not in self._usage.row_of:
            return None
        duration = None if known.planned.gang else known.planned.duration
        containers = tuple(
            ContainerPlan(container.name, container.image, duration) for container in pod.spec.containers
        )
        return PodPlan(containers, "Never", stop_after=_TERMINATION), {}

    def started(self, pod: Pod) -> None:
        """Record that a pod is bound, and what it uses."""
        known = self._known(pod)
        if known is not None:
            now, node = self._clock.monotonic(), pod.spec.node_name
            self._journal.bound(known, node, now)
            self._slots[pod.metadata.uid] = self._usage.begin(
                known.planned, known.key, node, now, best_effort=not is_not_best_effort(pod)
            )
            if known.planned.gang and known.planned.duration is not None:
                self._journal.gangs.when_whole(known.planned, lambda: self._works(pod))

    def _works(self, pod: Pod) -> None:
        """Begin the time for which a member of a gang runs: before its gang was whole it could do nothing."""
        known, uid = self._known(pod), pod.metadata.uid
        if known is None or uid not in self._slots:
            return
        duration = known.planned.duration

        async def end() -> bool:
            await asyncio.sleep(duration or 0.0)
            return await self.finished(pod)

        self._ends[uid] = task = asyncio.create_task(end())
        task.add_done_callback(lambda _: self._ends.pop(uid, None))

    def stopped(self, pod: Pod) -> None:
        """End a pod's usage."""
        slot = self._slots.pop(pod.metadata.uid, None)
        if slot is not None:
            self._usage.end(slot)
        end = self._ends.get(pod.metadata.uid)
        if end is not None and end is not asyncio.current_task():
            end.cancel()

    async def close(self) -> None:
        """Stop everything that runs."""
        ends = list(self._ends.values())
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)

    async def finished(self, pod: Pod) -> bool:
        """Delete a pod whose duration is over."""
        known = self._known(pod)
        if known is not None:
            known.outcome = "finished"
        meta = pod.metadata
        with suppress(NotFound):  # it has ended otherwise
            await self._client.delete(Pod, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)
        return True

    def _known(self, pod: Pod) -> Incarnation | None:
        return self._journal.alive.get((pod.metadata.namespace, pod.metadata.name))

    def _updated(self, pod: Pod) -> None:
        known = self._known(pod)
        if known is not None and pod.metadata.deletion_timestamp is not None and not known.outcome:
            outcome = _outcome(pod)
            if outcome == "evicted":
                self._journal.evicting(known, self._clock.monotonic())
            known.outcome = outcome

    def _deleted(self, pod: Pod) -> None:
        known = self._known(pod)
        if known is not None:
            self._journal.ended(known, _outcome(pod), self._clock.monotonic())
            self._gone(known)


def _outcome(pod: Pod) -> str:
    """Return what became of a pod that was deleted before its time: its owner may have scaled down."""
    owner = pod.metadata.controller
    if owner is None or owner.kind != "ReplicaSet":
        return "evicted"
    disrupted = any(item.type == "DisruptionTarget" for item in pod.status.conditions)
    return "evicted" if disrupted else "scaled-down"
