"""Makes kube-scheduler retry rejected pods after changes that it does not see.

kube-scheduler retries a pod that an extender rejected as soon as any object that it watches changes. It does
not watch Reservations, NodeMetrics and the like: a pod would stay unschedulable for minutes after it could be
placed. So the pod is annotated, which is a change that kube-scheduler sees. Plugins declare which changes may
help (`EnqueueExtensions`), or name pods or changes themselves (`Handle.queue`). Koordinator moves such pods
in its own queue (`pkg/scheduler/frameworkext/eventhandlers`).
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject, format_micro_time
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import PODS_WOKEN, counter
from koordpy.scheduling.interface import ChangeHelps, EnqueueExtensions, Plugin
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.pod_queues import WOKEN, ClusterEvent

log = logging.getLogger(__name__)

GATHERED_SECONDS = 1.0
"""How long changes are batched."""

AT_A_TIME = 100
"""The most pods woken at a time, the most important first.

If the plugin says which pods may pass, the others follow; else placing one of these is a change again.
"""

EXAMINED_AT_ONCE = 500
"""Rejected pods that a plugin checks before other work gets its turn."""

REMEMBERED = 10_000
"""The most pods remembered per rejecting plugin, and changed objects per kind, the latest last."""


_Handler = Callable[[Any, Any], None]
"""Called with an object before and after a change."""


@dataclass(eq=False)
class _Waiting:
    """The pods that one plugin rejected, and later changes that may help them."""

    plugin: EnqueueExtensions
    names: frozenset[str]
    """The plugin's name in rejections, and those of in-tree filters that run again on its behalf."""
    refused: dict[str, Pod] = field(default_factory=dict)
    changed: dict[type[KubeObject], dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    handlers: dict[type[KubeObject], _Handler] = field(default_factory=dict)
    """Handlers to call with a change, by kind."""
    is_due: bool = False
    """Whether pods are to be examined without a new change."""

    @property
    def is_precise(self) -> bool:
        """Whether the plugin says which pods may pass."""
        return type(self.plugin).may_pass is not EnqueueExtensions.may_pass


class Waking:
    """Remembers rejected pods and wakes them; `run` while this process leads."""

    def __init__(self, frameworks: Collection[Framework], handle: Handle, client: Client) -> None:
        self._handle, self._client = handle, client
        self._pods = handle.cluster.store(Pod)
        self._waiting: list[_Waiting] = []
        self._activated: dict[str, Pod] = {}
        self._changed = asyncio.Event()
        for framework in frameworks:
            waiting = [
                _Waiting(plugin, frozenset((name, *_reruns_of(plugin))))
                for name, plugin in framework.enabled.having(EnqueueExtensions)
            ]
            for each in waiting:
                for kind, helps in each.plugin.events_to_register().items():
                    self._follow(each, kind, helps)
            if waiting:
                waiting.append(self._others(framework))
                framework.handle.on_failure(partial(self._failed, waiting))
            self._waiting += waiting
        if self._waiting:
            for framework in frameworks:
                framework.handle.queue.join(self)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def activate(self, pod: Pod) -> None:
        """Wake a pod soon, whichever plugin rejected it, unless it is placed, gated or gone by then."""
        _remember(self._activated, pod.metadata.uid, pod)
        self._changed.set()

    def move_all(self, event: ClusterEvent) -> None:
        """Process an event as if the API server had reported it."""
        for waiting in self._waiting:
            handler = waiting.handlers.get(event.kind)
            if handler is not None:
                handler(event.old, event.new)

    # --- rejections and changes ------------------------------------------------------------------

    def _follow(self, waiting: _Waiting, kind: type[KubeObject], helps: ChangeHelps) -> None:
        changed = self._handler(waiting, kind, helps)
        self._handle.on(kind, lambda new: changed(None, new), changed, lambda old: changed(old, None))

    def _handler(self, waiting: _Waiting, kind: type[KubeObject], helps: ChangeHelps) -> _Handler:
        def changed(old: Any, new: Any) -> None:
            if waiting.refused and helps(old, new):
                _remember(waiting.changed[kind], (new or old).metadata.key, None)
                self._changed.set()

        waiting.handlers[kind] = changed
        return changed

    def _others(self, framework: Framework) -> _Waiting:
        """Return the pods that plugins rejected which do not follow pods themselves.

        kube-scheduler retries these when a pod is deleted, or could not be bound. It does not see that a pod
        gives back what was reserved for it earlier: only that wakes them.
        """
        following = {
            name
            for name, plugin in framework.enabled.having(EnqueueExtensions)
            if Pod in plugin.events_to_register()
        }
        names = frozenset(plugin.name for plugin in framework.plugins)
        waiting = _Waiting(EnqueueExtensions(), names - following)
        self._handler(waiting, Pod, lambda _, new: new is None)
        return waiting

    def _failed(self, waiting: list[_Waiting], failure: Failure) -> bool:
        for each in waiting:
            if not each.names.isdisjoint(failure.plugins):
                _remember(each.refused, failure.pod.metadata.uid, failure.pod)
        return False

    # --- waking ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Wake pods until cancelled."""
        self._take_over()
        while True:
            await self._changed.wait()
            await asyncio.sleep(GATHERED_SECONDS)
            self._changed.clear()
            await self._wake()

    def _take_over(self) -> None:
        """Remember pods that were rejected before this process led; some of them may pass by now."""
        for waiting in self._waiting:
            reasons = waiting.plugin.known_reasons
            for pod in self._pods if reasons else ():
                said = _reason(pod)
                if said and any(reason in said for reason in reasons):
                    _remember(waiting.refused, pod.metadata.uid, pod)
                    waiting.is_due = True
                    self._changed.set()

    async def _wake(self) -> None:
        chosen: dict[str, Pod] = {}
        activated, self._activated = self._activated, {}
        for pod in activated.values():
            live = self._still_waiting(pod)
            if live is not None:
                chosen[live.metadata.uid] = live
        for waiting in self._waiting:
            changed, waiting.changed = waiting.changed, defaultdict(dict)
            if changed or waiting.is_due:
                await self._choose(waiting, changed, chosen)
                waiting.is_due = waiting.is_precise and len(chosen) >= AT_A_TIME
                if waiting.is_due:
                    self._again(waiting, changed)
        for pod in islice(chosen.values(), AT_A_TIME):
            for waiting in self._waiting:
                waiting.refused.pop(pod.metadata.uid, None)
            await self._touch(pod)
        for pod in islice(chosen.values(), AT_A_TIME, None):
            if pod.metadata.uid in activated:
                self.activate(pod)

    def _again(self, waiting: _Waiting, changed: Mapping[type[KubeObject], Iterable[str]]) -> None:
        """Look at a change once more: it may help more pods than are woken at a time."""
        for kind, keys in changed.items():
            for key in keys:
                _remember(waiting.changed[kind], key, None)
        self._changed.set()

    async def _choose(
        self, waiting: _Waiting, changed: dict[type[KubeObject], dict[str, None]], chosen: dict[str, Pod]
    ) -> None:
        """Add the rejected pods that may pass now according to the plugin, the most important first."""
        live: list[Pod] = []
        for uid, pod in list(waiting.refused.items()):
            found = self._still_waiting(pod)
            if found is None:
                del waiting.refused[uid]
            else:
                live.append(found)
        live.sort(key=lambda pod: -(pod.spec.priority or 0))
        for start in range(0, len(live), EXAMINED_AT_ONCE):
            if len(chosen) >= AT_A_TIME:
                return
            examined = live[start : start + EXAMINED_AT_ONCE]
            for pod, may_pass in zip(examined, waiting.plugin.may_pass(examined, changed), strict=True):
                if may_pass:
                    chosen[pod.metadata.uid] = pod
            await asyncio.sleep(0)

    def _still_waiting(self, pod: Pod) -> Pod | None:
        """Return the current pod, None if no attempt is due."""
        live = self._pods.by_key(pod.metadata.key)
        if live is None or live.metadata.uid != pod.metadata.uid or live.spec.node_name or live.is_terminal:
            return None
        return None if live.spec.scheduling_gates or live.metadata.deletion_timestamp else live

    async def _touch(self, pod: Pod) -> None:
        meta = pod.metadata
        now = format_micro_time(self._handle.clock.now())
        patch = {"metadata": {"uid": meta.uid, "annotations": {WOKEN: now}}}
        try:
            await self._client.patch(Pod, meta.namespace, meta.name, patch)
        except (ApiError, ConnectionFailed) as error:
            counter(PODS_WOKEN, "error").inc()
            log.warning("cannot wake pod %s: %s", meta.key, error)
        else:
            counter(PODS_WOKEN, "woken").inc()


def _reruns_of(plugin: object) -> tuple[str, ...]:
    return plugin.reruns if isinstance(plugin, Plugin) else ()


def _reason(pod: Pod) -> str:
    """Return why kube-scheduler says that a pod fits no node."""
    return next(
        (
            each.message
            for each in pod.status.conditions
            if each.type == "PodScheduled" and each.status == "False"
        ),
        "",
    )


def _remember(known: dict[str, Any], key: str, value: Any) -> None:
    """Move an entry to the end, and drop the oldest ones beyond the limit."""
    known.pop(key, None)
    known[key] = value
    if len(known) > REMEMBERED:
        del known[next(iter(known))]
