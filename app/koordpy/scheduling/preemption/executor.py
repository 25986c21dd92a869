"""The eviction of victims: synchronously, or concurrently with the scheduling of other pods.

Victims are deleted, not evicted through the Eviction API, because preemption may violate budgets. A victim
that still waits in Permit is only rejected. One that is not being bound yet, though a node is held for it,
only gives that back; kube-scheduler deletes it, because it counts it as a pod of the node. Less important
pods nominated to the node lose their nomination.

Source: Kubernetes, `prepareCandidate` and `prepareCandidateAsync` in `pkg/scheduler/framework/preemption`.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import format_time
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.events import NORMAL
from koordpy.scheduling.framework.metrics import PREEMPTION_VICTIMS, histogram
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status

from .importance import priority_of

log = logging.getLogger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"

AT_ONCE = 16
"""Concurrent evictions for one preemptor, as many as kube-scheduler's."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """The result of evictions on several nodes: the first failure, and whether anything may be evicted."""

    status: Status = SUCCESS
    any: bool = False


class Executor:
    """Evicts on behalf of one plugin."""

    def __init__(self, plugin: str, handle: Handle) -> None:
        self._plugin, self._handle = plugin, handle
        self._running: dict[str, Pod | None] = {}
        """The last victim, once it is the only one left, by UID of the preempting pod."""
        self._deleted: dict[str, dict[str, str]] = {}
        """Keys of deleted pods whose deletion has not been observed yet, by UID, by preemptor."""

    def is_running(self, uid: str) -> bool:
        """Return whether evictions for a pod are in progress, so that another attempt would be too early."""
        if uid not in self._running:
            return False
        last = self._running[uid]
        if last is None:
            return True
        known = self._handle.cluster.store(Pod).by_key(last.metadata.key)
        return known is not None and known.metadata.deletion_timestamp is None

    def awaits_deletions(self, preemptor: str) -> bool:
        """Return whether a pod that was deleted for a preemptor is still shown as if it stayed.

        `preemptor` is the UID of a pod, or the key of a job. Until the watch has caught up, another attempt
        would see none of what the first one did and could evict more pods.
        """
        store = self._handle.cluster.store(Pod)
        for other, pods in list(self._deleted.items()):
            for uid, key in list(pods.items()):
                known = store.by_key(key)
                stays = known is not None and known.metadata.uid == uid
                if not stays or (known is not None and known.metadata.deletion_timestamp is not None):
                    del pods[uid]
            if not pods:
                del self._deleted[other]
        return preemptor in self._deleted

    async def evict_for_job(
        self, preemptor: Pod, job: str, victims: Mapping[str, Sequence[Pod]], *, message: str
    ) -> Evicted:
        """Evict pods of several nodes, given by name, for a job whose pod `preemptor` found no node.

        `message` is that of the victims' condition.
        """
        return await self._evict_some(preemptor, victims, message=message, job=job)

    async def _evict_some(
        self,
        preemptor: Pod,
        victims: Mapping[str, Sequence[Pod]],
        *,
        message: str = "",
        job: str = "",
    ) -> Evicted:
        """Evict some at a time. After a failure no further eviction is begun."""
        client = self._client()
        staying = [(name, pod) for name, pods in victims.items() for pod in _staying(pods)]
        left = iter(staying)
        failures: list[Exception] = []
        done: list[Pod] = []

        async def work() -> None:
            for name, victim in left:
                if failures:
                    return
                try:
                    await self._evict_one(client, preemptor, name, victim, message=message, job=job)
                    done.append(victim)
                except ApiError as error:
                    failures.append(error)
                except ConnectionFailed as error:
                    failures.append(error)
                    if error.sent:  # it may be evicted nevertheless
                        done.append(victim)

        await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(staying)))))
        if failures:
            return Evicted(Status.failed(failures[0]), bool(done))
        histogram(PREEMPTION_VICTIMS).observe(sum(map(len, victims.values())))
        return Evicted(any=bool(done))

    async def evict(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> Status:
        """Evict all victims of a node, then clear nominations; return the first failure.

        After a failure the pod is nominated in memory if pods were evicted nevertheless: the next attempt
        waits for them to end, instead of choosing others as well.
        """
        evicted = await self._evict_some(preemptor, {node_name: victims})
        if evicted.status.is_success:
            await self._clear_nominations(self._client(), preemptor, node_name)
        elif evicted.any:
            self._handle.nominator.add_if_pending(preemptor, node_name)
        return evicted.status

    def evict_in_background(self, preemptor: Pod, node_name: str, victims: Sequence[Pod]) -> None:
        """Do the same concurrently with the scheduling of other pods. After a failure the pod is retried."""
        histogram(PREEMPTION_VICTIMS).observe(len(victims))
        staying = _staying(victims)
        if not staying:
            return
        client = self._client()
        self._running[preemptor.metadata.uid] = None
        self._handle.spawn(self._evict_beside(client, preemptor, node_name, staying))

    async def _evict_beside(
        self, client: Client, preemptor: Pod, node_name: str, victims: Sequence[Pod]
    ) -> None:
        uid = preemptor.metadata.uid
        complete = await self._clear_nominations(client, preemptor, node_name)
        try:
            # The last victim is deleted separately: once its deletion is observed the pod may be retried,
            # even if the answer to the delete request is still pending.
            await self._evict_all(client, preemptor, node_name, victims[:-1])
            self._running[uid] = victims[-1]
            await self._evict_one(client, preemptor, node_name, victims[-1])
        except (ApiError, ConnectionFailed) as error:
            log.warning("pod %s cannot preempt on %s: %s", preemptor.metadata.key, node_name, error)
            complete = False
        finally:
            del self._running[uid]
        if not complete:
            self._handle.activate(preemptor)

    def _client(self) -> Client:
        client = self._handle.client
        if client is None:
            raise RuntimeError(f"{self._plugin} cannot evict: this process writes nothing")
        return client

    async def _evict_all(
        self, client: Client, preemptor: Pod, node_name: str, victims: Sequence[Pod]
    ) -> None:
        """Evict concurrently. Raises the first error."""
        evictions = (self._evict_one(client, preemptor, node_name, victim) for victim in victims)
        for outcome in await asyncio.gather(*evictions, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _evict_one(
        self,
        client: Client,
        preemptor: Pod,
        node_name: str,
        victim: Pod,
        *,
        message: str = "",
        job: str = "",
    ) -> None:
        meta = victim.metadata
        if not self._handle.waiting_pods.preempt(meta.uid, self._plugin):
            try:
                condition = self._condition(victim, message or _message(preemptor))
                if condition is not None:
                    patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
                    await client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
                await client.delete(Pod, meta.namespace, meta.name, uid=meta.uid)
                self._deleted.setdefault(job or preemptor.metadata.uid, {})[meta.uid] = meta.key
            except ApiError:
                if not await _is_gone(client, victim):
                    raise
                log.info("victim %s is gone already", meta.key)
                return
        log.info("pod %s preempted pod %s on node %s", preemptor.metadata.key, meta.key, node_name)
        if self._handle.events is not None:
            note = f"Preempted by pod {preemptor.metadata.uid} on node {node_name}"
            self._handle.events.event(
                victim, NORMAL, "Preempted", note, action="Preempting", related=preemptor
            )

    def _condition(self, victim: Pod, message: str) -> dict[str, Any] | None:
        """Return the DisruptionTarget condition where it differs from what the victim has."""
        fresh: dict[str, Any] = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": message,
        }
        if victim.metadata.generation:
            fresh["observedGeneration"] = victim.metadata.generation
        known = next((c for c in victim.status.conditions if c.type == DISRUPTION_TARGET), None)
        if known is None or known.status != "True":
            return {**fresh, "lastTransitionTime": format_time(self._handle.clock.now())}
        if (known.reason, known.message) == (PREEMPTION_BY_SCHEDULER, message):
            return None
        return fresh

    async def _clear_nominations(self, client: Client, preemptor: Pod, node_name: str) -> bool:
        """Clear the nominations of less important pods to the node; return whether all succeeded."""
        pods = self._handle.nominator.pods_on(node_name)
        lesser = [pod for pod in pods if priority_of(pod) < priority_of(preemptor)]
        return not await clear_nominations(client, lesser)


async def clear_nominations(client: Client, pods: Iterable[Pod]) -> Mapping[str, str]:
    """Clear `status.nominatedNodeName` where it is set; return errors by the keys of the pods."""
    failed = {}
    for pod in pods:
        if pod.status.nominated_node_name:
            error = await nominate(client, pod, "")
            if error:
                failed[pod.metadata.key] = error
    return failed


async def nominate(client: Client, pod: Pod, node_name: str) -> str:
    """Write `status.nominatedNodeName`, empty to clear it; return the error, empty if there is none."""
    meta = pod.metadata
    patch = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": node_name or None}}
    try:
        await client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
    except (ApiError, ConnectionFailed) as error:
        before = pod.status.nominated_node_name
        log.warning("nomination of pod %s, %r instead of %r: %s", meta.key, node_name, before, error)
        return str(error) or type(error).__name__
    return ""


def _message(preemptor: Pod) -> str:
    return f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod"


async def _is_gone(client: Client, victim: Pod) -> bool:
    """Return whether a pod no longer exists; another one may have its name."""
    meta = victim.metadata
    try:
        return (await client.get(Pod, meta.namespace, meta.name)).metadata.uid != meta.uid
    except NotFound:
        return True


def _staying(victims: Sequence[Pod]) -> list[Pod]:
    """Return the victims that are not being deleted yet."""
    return [pod for pod in victims if pod.metadata.deletion_timestamp is None]
