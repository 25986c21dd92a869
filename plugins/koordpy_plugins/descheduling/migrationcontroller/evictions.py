"""How the pod of a job is evicted: the policies, their rate limit, metrics and events.

Whatever the policy, only the pod that was looked at is affected, never a successor of the same name: every
request has its UID as a precondition. Source: Koordinator, `pkg/descheduler/controllers/migration/evictor`.
"""

import logging
import random
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from koordpy.api import label_selector
from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.meta import format_time
from koordpy.api.pod_migration_job import (
    ANNOTATION_SOFT_EVICTION,
    LABEL_EVICT_POLICY,
    PodMigrationJob,
)
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound, ServerError, TooManyRequests
from koordpy.cluster.retry import retried
from koordpy.descheduling.metrics import PODS_EVICTED
from koordpy.lib.clock import Clock
from koordpy.lib.token_bucket import TokenBucket

from .eviction_requests import EvictionRequests
from .progress import ACTION, EventRecorder, quoted, trigger_and_reason

log = logging.getLogger(__name__)

DeleteOptions = Mapping[str, Any]
"""A `metav1.DeleteOptions`."""


class Policy(StrEnum):
    """How a pod is evicted."""

    EVICTION = "Eviction"
    """The eviction subresource, which respects PodDisruptionBudgets."""
    DELETE = "Delete"
    """Deletion; by eviction where a PodDisruptionBudget covers the pod."""
    SOFT_EVICTION = "SoftEviction"
    """An annotation on the pod, for another component that deletes it."""
    EVICTION_REQUEST = "EvictionRequest"
    """Kubernetes' EvictionRequest, to which the pod's responders react. Ours, behind a gate."""


class EvictionFailed(Exception):
    """A pod was not evicted, or it is not known; the message says why.

    `certain` means that the pod was not evicted: the request was refused, or never sent. `detail` is what the
    API server says besides, such as which PodDisruptionBudget refuses; `level` is the one of `logging`.
    """

    def __init__(
        self, message: str, *, certain: bool = True, detail: str = "", level: int = logging.ERROR
    ) -> None:
        super().__init__(message)
        self.certain, self.detail, self.level = certain, detail, level


TOO_MANY_EVICTIONS = "TooManyEvictions"


class PodEvictions:
    """Evicts pods as the labels of pods and jobs say, else by `default`.

    `rate` has a token for each eviction. `requests` is None where EvictionRequests are not used: then
    that policy is an unknown one, for which `default` is used.
    """

    def __init__(
        self,
        client: Client,
        events: EventRecorder | None,
        clock: Clock,
        *,
        default: Policy,
        rate: TokenBucket,
        requests: EvictionRequests | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._client, self._events, self._clock = client, events, clock
        self._default, self._requests = default, requests
        self._rate = rate
        self._rng = rng or random.Random()

    def admit(self) -> None:
        """Take a token. Raises EvictionFailed if there is none."""
        if not self._rate.take():
            raise EvictionFailed(
                TOO_MANY_EVICTIONS, detail="evictQPS and evictBurst allow no eviction now", level=logging.INFO
            )

    def policy(self, job: PodMigrationJob, pod: Pod) -> Policy:
        """Return how a pod is to be evicted: as its label says, else the job's, else by default."""
        label = pod.metadata.labels.get(LABEL_EVICT_POLICY) or job.metadata.labels.get(LABEL_EVICT_POLICY)
        found = Policy(label) if label in tuple(Policy) else self._default
        if found is Policy.EVICTION_REQUEST and self._requests is None:
            return self._default if self._default is not found else Policy.EVICTION
        return found

    def is_requested(self, job: PodMigrationJob, pod: Pod) -> bool:
        """Return whether the pod itself shows that it was to be evicted: it ends, or has the annotation."""
        if pod.metadata.deletion_timestamp is not None:
            return True
        return (
            self.policy(job, pod) is Policy.SOFT_EVICTION
            and ANNOTATION_SOFT_EVICTION in pod.metadata.annotations
        )

    async def failure(self, job: PodMigrationJob, pod: Pod) -> str | None:
        """Return why a pod that was asked to leave will not, None if it may: only an EvictionRequest says so.

        Raises ApiError, ConnectionFailed.
        """
        if self._requests is None or self.policy(job, pod) is not Policy.EVICTION_REQUEST:
            return None
        return await self._requests.failure(job, pod)

    async def evict(self, job: PodMigrationJob, pod: Pod, options: DeleteOptions | None) -> None:
        """Evict a pod, or begin to. Raises EvictionFailed."""
        trigger, reason = trigger_and_reason(job)
        labels = (trigger, pod.metadata.namespace, pod.spec.node_name)
        try:
            await self._evict(job, pod, options)
        except EvictionFailed:
            PODS_EVICTED.labels("error", *labels).inc()
            raise
        PODS_EVICTED.labels("success", *labels).inc()
        log.info("%s: evicted pod %s: %s", trigger or "PodMigrationJob", pod.metadata.key, reason)
        if self._events is not None:
            note = f"Pod evicted from node {quoted(pod.spec.node_name)} by the reason {quoted(reason)}"
            self._events.event(pod, "Normal", "Descheduled", note, action=ACTION)

    async def _evict(self, job: PodMigrationJob, pod: Pod, options: DeleteOptions | None) -> None:
        policy = self.policy(job, pod)
        name = quoted(pod.metadata.name)
        try:
            match policy:
                case Policy.EVICTION:
                    await self._by_eviction(pod, options)
                case Policy.DELETE:
                    await self._delete(pod, options)
                case Policy.SOFT_EVICTION:
                    await self._annotate(job, pod, options)
                case Policy.EVICTION_REQUEST:
                    assert self._requests is not None
                    if not await self._requests.ask(job, pod):
                        await self._by_eviction(pod, options)
        except TooManyRequests as error:
            message = f"error when evicting pod (ignoring) {name}: {error.message}"
            raise EvictionFailed(message, detail=_causes(error), level=logging.WARNING) from error
        except NotFound as error:
            message = f"pod not found when evicting {name}: {error.message}"
            raise EvictionFailed(message, level=logging.WARNING) from error
        except ApiError as error:
            raise EvictionFailed(error.message, certain=not isinstance(error, ServerError)) from error
        except ConnectionFailed as error:
            raise EvictionFailed(str(error), certain=not error.sent) from error

    async def _delete(self, pod: Pod, options: DeleteOptions | None) -> None:
        """Delete a pod. One that a PodDisruptionBudget covers is evicted instead, so that none is broken."""
        meta = pod.metadata
        budgets = await self._client.list_all(PodDisruptionBudget, meta.namespace)
        if any(_covers(budget, pod) for budget in budgets):
            await self._by_eviction(pod, options)
        else:
            await self._client.delete(
                Pod, meta.namespace, meta.name, uid=meta.uid, options=options, repeatable=False
            )

    async def _by_eviction(self, pod: Pod, options: DeleteOptions | None) -> None:
        await self._client.evict(pod, delete_options=options, repeatable=False)

    async def _annotate(self, job: PodMigrationJob, pod: Pod, options: DeleteOptions | None) -> None:
        trigger, reason = trigger_and_reason(job)
        request = {
            "timestamp": format_time(self._clock.now()),
            "deleteOptions": options,
            "initiator": trigger,
            "reason": reason,
        }
        value = msgspec.json.encode({key: item for key, item in request.items() if item not in (None, "")})
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid, "annotations": {ANNOTATION_SOFT_EVICTION: value.decode()}}}
        await retried(
            lambda: self._client.patch(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC),
            rng=self._rng,
        )


def _causes(error: ApiError) -> str:
    """Return the causes that an answer names, such as the PodDisruptionBudget that refuses an eviction."""
    causes = error.details.get("causes")
    if not isinstance(causes, list):
        return ""
    return "; ".join(
        str(cause["message"]) for cause in causes if isinstance(cause, dict) and cause.get("message")
    )


def _covers(budget: PodDisruptionBudget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return selector is not None and label_selector.of(selector).matches(pod.metadata.labels)
