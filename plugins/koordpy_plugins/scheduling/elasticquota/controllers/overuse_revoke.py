"""Evict pods of quotas that use more than their runtime for too long.

Runtime shrinks when others claim what a quota had borrowed, or when nodes go; pods that run already stay, and
the quota uses more than it may. Source: Koordinator,
`pkg/scheduler/plugins/elasticquota/quota_overuse_revoke.go`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.quota.info import ROOT, SYSTEM
from koordpy.api.resource_list import Quantities
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, NotFound, TooManyRequests
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.preemption.importance import priority_of, start_of

from ..state.amounts import exceeded, masked, minus, plus
from ..state.pod_accounts import PodAccounts, is_non_preemptible
from ..state.quota_info import QuotaInfo
from ..state.source import Trees

log = logging.getLogger(__name__)

NAME: Final = "QuotaOverUsedRevokeController"

_SHORTEST_PAUSE: Final = 0.1
"""Seconds between two cycles, also where the interval is 0."""

_NOT_MONITORED: Final = frozenset((SYSTEM, ROOT))


def to_revoke(info: QuotaInfo, requests: Callable[[Pod], Quantities], now: datetime) -> list[Pod]:
    """Return the quota's own pods to evict, in that order, so that it uses no more than its runtime.

    Pods are taken from the least important one on until the rest fits; then those that fit back stay, the
    most important ones first. As in Koordinator, each step goes on with the resources alone that its pod
    requests: of several resources in excess, some may be overlooked.
    """
    used = info.used
    taken: list[Pod] = []
    for pod in _least_important_first(info.assigned_pods(), now):
        if not exceeded(used, info.runtime):
            break
        if is_non_preemptible(pod):
            continue
        request = requests(pod)
        used = masked(minus(used, request), request)
        taken.append(pod)
    if exceeded(used, info.runtime):
        return taken
    revoked: list[Pod] = []
    for pod in reversed(taken):
        request = requests(pod)
        used = masked(plus(used, request), request)
        if exceeded(used, info.runtime):
            used = minus(used, request)
            revoked.append(pod)
    return revoked


def to_revoke_exactly(info: QuotaInfo, requests: Callable[[Pod], Quantities], now: datetime) -> list[Pod]:
    """Return the pods to evict when every resource counts in every step: as few as the order allows.

    Only pods that request something of what is in excess are taken, and what pods that are being deleted use
    counts as free.
    """
    used = info.used
    taken: list[Pod] = []
    candidates: list[Pod] = []
    for pod in info.assigned_pods():
        if pod.metadata.deletion_timestamp:
            used = minus(used, requests(pod))
        elif not is_non_preemptible(pod):
            candidates.append(pod)
    for pod in _least_important_first(candidates, now):
        excess = exceeded(used, info.runtime)
        if not excess:
            break
        request = requests(pod)
        if any(name in request and request[name].sign > 0 for name in excess):
            used = minus(used, request)
            taken.append(pod)
    if exceeded(used, info.runtime):
        return taken
    revoked: list[Pod] = []
    for pod in reversed(taken):
        with_pod = plus(used, requests(pod))
        if exceeded(with_pod, info.runtime):
            revoked.append(pod)
        else:
            used = with_pod
    return revoked


def _least_important_first(pods: Iterable[Pod], now: datetime) -> list[Pod]:
    """Sort by priority, then by start, the latest first; then by namespace and name."""
    named = sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
    named.sort(key=lambda pod: start_of(pod, now), reverse=True)
    return sorted(named, key=priority_of)


_Judged = tuple[Quantities, Quantities, bool]
"""What a quota used, its runtime, and whether it used more."""


class OverUseMonitors:
    """Since when each quota has used more than its runtime."""

    def __init__(self, trees: Trees, delay: float) -> None:
        self._trees, self._delay = trees, delay
        self.last_under_used: dict[str, float] = {}
        """Seconds of a monotonic clock, by quota: when it last used no more than its runtime, was seen first,
        or was triggered."""
        self._judged: dict[str, _Judged] = {}

    def forget(self) -> None:
        """Begin anew."""
        self.last_under_used.clear()
        self._judged.clear()

    def triggered(self, now: float) -> list[tuple[PodAccounts, QuotaInfo]]:
        """Return the quotas, by name, that have used too much for longer than the delay, with their trees."""
        quotas: dict[str, tuple[PodAccounts, QuotaInfo]] = {}
        for manager in self._trees.managers:
            for name, info in manager.quotas.items():
                if name not in _NOT_MONITORED:
                    quotas.setdefault(name, (manager, info))
        before, self.last_under_used = self.last_under_used, {}
        judged, self._judged = self._judged, {}
        found = []
        for name in sorted(quotas):
            since = before.get(name, now)
            info = quotas[name][1]
            verdict = judged.get(name)
            # The lists of a record are never changed in place.
            if verdict is None or verdict[0] is not info.used or verdict[1] is not info.runtime:
                verdict = info.used, info.runtime, bool(exceeded(info.used, info.runtime))
            self._judged[name] = verdict
            if not verdict[2]:
                since = now
            elif now - since > self._delay:
                since = now
                found.append(quotas[name])
            self.last_under_used[name] = since
        return found


class QuotaOverUsedRevokeController:
    """Runs in the leader, if all quotas are monitored and limited by their runtime."""

    name = NAME

    def __init__(self, args: ElasticQuotaArgs, handle: Handle, trees: Trees) -> None:
        self._args, self._handle = args, handle
        self.monitors = OverUseMonitors(trees, args.delay_evict_time)

    @staticmethod
    def is_enabled(args: ElasticQuotaArgs) -> bool:
        """Return whether the arguments turn the controller on."""
        return args.monitor_all_quotas and args.enable_runtime_quota

    async def run(self) -> None:
        """Run until cancelled; over-use counts from now on."""
        self.monitors.forget()
        while True:
            await self.revoke()
            await asyncio.sleep(max(self._args.revoke_pod_interval, _SHORTEST_PAUSE))

    async def revoke(self) -> None:
        """Evict what is to be evicted now. A pod that cannot be evicted is left to a later cycle."""
        for name, pods in self.due().items():
            for pod in pods:
                await self._evict(name, pod)

    def due(self) -> dict[str, list[Pod]]:
        """Run a cycle: return the pods to evict, by quota."""
        clock = self._handle.clock
        choose = to_revoke_exactly if self._args.revoke_exactly else to_revoke
        found = {
            info.name: choose(info, manager.requests, clock.now())
            for manager, info in self.monitors.triggered(clock.monotonic())
        }
        return {name: pods for name, pods in found.items() if pods}

    async def _evict(self, quota: str, pod: Pod) -> None:
        client, key = self._handle.client, pod.metadata.key
        if client is None:
            return
        try:
            await client.evict(pod)
        except TooManyRequests as error:
            log.error("error when evicting pod (ignoring) %r: %s", key, error)
        except (NotFound, Conflict) as error:
            log.error("pod not found when evicting %r: %s", key, error)
        except (ApiError, ConnectionFailed) as error:
            log.error("failed to revoke pod %s, whose quota %s uses too much: %s", key, quota, error)
        else:
            log.info("evicted pod %s: its quota %s uses more than its runtime", key, quota)
