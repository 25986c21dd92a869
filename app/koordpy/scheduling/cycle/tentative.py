"""Pods that plugins count from their filter call on, until they are reserved, or are not bound after all.

kube-scheduler does not report when it abandons a pod, so a pod is counted only for a while.
"""

import asyncio
from collections import OrderedDict
from contextlib import suppress

from koordpy.api.core import Pod
from koordpy.lib.byte_budget import ByteBudget
from koordpy.lib.clock import Clock
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.plugin_call import Broken, call
from koordpy.scheduling.interface.cycle_state import CycleState

SECONDS = 30.0
"""kube-scheduler calls bind within milliseconds of filter, or seconds if it waits for volumes."""

MOST_PODS = 10_000

MAX_BYTES = 16 << 20
"""The budget of the pods, of which plugins may keep everything. Beyond it the oldest count no longer."""


class TentativeReserves:
    """The pods of a process that are counted tentatively, by UID, the oldest first."""

    def __init__(self, clock: Clock, seconds: float = SECONDS) -> None:
        self._clock, self._seconds = clock, seconds
        self._pods: OrderedDict[str, tuple[Pod, Framework, float, int]] = OrderedDict()
        self._budget = ByteBudget("tentative reserves", MAX_BYTES)
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._pods)

    def reserve(self, framework: Framework, state: CycleState, pod: Pod, size: int) -> None:
        """Count a pod that has found nodes, in place of its earlier attempt; `size` is in bytes."""
        plugins = framework.tentative
        if not plugins:
            return
        self.unreserve(pod.metadata.uid)
        for name, plugin in plugins:
            with suppress(Broken):  # logged; Reserve validates the pod in any case
                call(state, "TentativeReserve", name, plugin.reserve_tentatively, state, pod)
        self._pods[pod.metadata.uid] = pod, framework, self._clock.monotonic(), size
        self._budget.add(size)
        while len(self._pods) > MOST_PODS or self._budget.is_exceeded:
            self.unreserve(next(iter(self._pods)))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def unreserve(self, uid: str) -> None:
        """Stop counting a pod, if it is counted."""
        known = self._pods.pop(uid, None)
        if known is not None:
            pod, framework, _, size = known
            self._budget.remove(size)
            for name, plugin in framework.tentative:
                with suppress(Broken):
                    call(CycleState(), "TentativeUnreserve", name, plugin.unreserve_tentatively, pod)

    def clear(self) -> None:
        """Stop counting all pods."""
        for uid in list(self._pods):
            self.unreserve(uid)

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        while self._pods:
            uid, (_, _, since, _) = next(iter(self._pods.items()))
            if since + self._seconds > now:
                left = since + self._seconds - now
                self._timer = asyncio.get_running_loop().call_later(left, self._expire)
                return
            self.unreserve(uid)
