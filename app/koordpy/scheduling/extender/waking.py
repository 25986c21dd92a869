"""Wakes pods that kube-scheduler has put aside, when reservations change.

kube-scheduler tries a pod again that an extender refused as soon as anything happens that it watches.
Reservations are none of that: a pod that was kept off what a Reservation held, or that waits for one, would
stay aside for minutes after it could go. So it is annotated, which is a change that kube-scheduler sees.
Koordinator moves such pods in its own queue (`pkg/scheduler/frameworkext/eventhandlers`).
"""

import asyncio
import logging
from collections.abc import Iterable

from koordpy.api.core import Pod
from koordpy.api.meta import format_micro_time
from koordpy.api.reservation import Reservation
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.handle import Handle

log = logging.getLogger(__name__)

WOKEN = "koordpy.dev/woken-at"
"""The annotation: when koordpy last asked for another attempt."""

GATHERED_SECONDS = 1.0
"""Changes come together; so long they are gathered into one."""

AT_A_TIME = 100
"""Pods woken after one change, the most important first. When one of them is placed, that is a change too."""

REMEMBERED = 10_000
"""Pods that were refused, the latest last."""


class Waking:
    """Remembers the pods that were refused with reservations in mind, and wakes them."""

    def __init__(self, frameworks: Iterable[Framework], handle: Handle, client: Client) -> None:
        self._handle, self._client = handle, client
        self._pods = handle.cluster.store(Pod)
        self._refused: dict[str, Pod] = {}
        self._plugins: set[str] = set()
        self._changed = asyncio.Event()
        for framework in frameworks:
            looking = [plugin for plugin in framework.plugins if plugin.looks_again]
            if looking:
                self._plugins.update(
                    name for plugin in looking for name in (plugin.name, *plugin.looks_again)
                )
                framework.handle.on_failure(self._failed)
        if self._plugins:
            handle.on(Reservation, None, self._updated, lambda _: self._changed.set())

    def __bool__(self) -> bool:
        return bool(self._plugins)

    def _failed(self, failure: Failure) -> bool:
        if self._has_to_do_with_reservations(failure):
            self._refused.pop(failure.pod.metadata.uid, None)
            self._refused[failure.pod.metadata.uid] = failure.pod
            if len(self._refused) > REMEMBERED:
                del self._refused[next(iter(self._refused))]
        return False

    def _has_to_do_with_reservations(self, failure: Failure) -> bool:
        if failure.status.plugin in self._plugins:
            return True
        outcome = failure.outcome
        if outcome is None:
            return False
        return outcome.prefilter.plugin in self._plugins or any(
            refusals.plugin in self._plugins for refusals in outcome.refusals
        )

    def _updated(self, old: Reservation, new: Reservation) -> None:
        if (
            old.is_available != new.is_available
            or old.spec != new.spec
            or old.metadata.labels != new.metadata.labels
            or old.metadata.annotations != new.metadata.annotations
            or old.status.allocatable != new.status.allocatable
        ):
            self._changed.set()

    async def run(self) -> None:
        """Wake pods until cancelled."""
        while True:
            await self._changed.wait()
            await asyncio.sleep(GATHERED_SECONDS)
            self._changed.clear()
            await self._wake()

    async def _wake(self) -> None:
        waiting = []
        for uid, pod in list(self._refused.items()):
            live = self._pods.by_key(pod.metadata.key)
            if live is None or live.metadata.uid != uid or live.spec.node_name or live.is_terminal:
                del self._refused[uid]
            else:
                waiting.append(live)
        waiting.sort(key=lambda pod: -(pod.spec.priority or 0))
        now = format_micro_time(self._handle.clock.now())
        for pod in waiting[:AT_A_TIME]:
            self._refused.pop(pod.metadata.uid, None)
            meta = pod.metadata
            patch = {"metadata": {"uid": meta.uid, "annotations": {WOKEN: now}}}
            try:
                await self._client.patch(Pod, meta.namespace, meta.name, patch)
            except (ApiError, ConnectionFailed) as error:
                log.warning("cannot wake pod %s: %s", meta.key, error)
