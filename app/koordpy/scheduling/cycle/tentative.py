"""What is held for pods between their filter call and their bind call, so that later filter calls see it.

A pod for which filter has answered a single node is reserved there at once, as in koord-scheduler, and the
bind call takes the placement over. Where kube-scheduler chooses among several nodes, nothing can be reserved,
and only plugins with `TentativeReserve` count the pod.

kube-scheduler does not report when it abandons a pod, so this ends after a while.
"""

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.lib.byte_budget import ByteBudget
from koordpy.lib.clock import Clock
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.plugin_call import Broken, call
from koordpy.scheduling.interface.cycle_state import CycleState

SECONDS = 30.0
"""kube-scheduler calls bind within milliseconds of filter, or seconds if it waits for volumes."""

MOST_PODS = 10_000

AT_ONCE = 20
"""Pods that are released before other work gets its turn; each takes about 0.3 ms."""

MAX_BYTES = 40 << 20
"""The budget of the pods, of which plugins may keep everything, and of what was found out about those that
are reserved: 40 of these at 5,000 nodes. Beyond it the oldest count no longer; their bind calls reserve."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A placement that was reserved ahead of the bind call, and the term of the fence in which it was."""

    placement: Placement
    term: int


@dataclass(frozen=True, slots=True)
class _Counted:
    pod: Pod
    framework: Framework
    since: float
    size: int
    ahead: Ahead | None
    """None if only plugins with `TentativeReserve` count the pod."""

    @property
    def node_name(self) -> str:
        """The node that is reserved, empty if none is."""
        return "" if self.ahead is None else self.ahead.placement.node_name


class TentativeReserves:
    """The pods of a process that have found a node and are not being bound yet, by UID, the oldest first."""

    def __init__(self, clock: Clock, seconds: float = SECONDS) -> None:
        self._clock, self._seconds = clock, seconds
        self._pods: OrderedDict[str, _Counted] = OrderedDict()
        self._uid_of: dict[str, str] = {}
        """The UIDs of these pods by their keys."""
        self._budget = ByteBudget("tentative reserves", MAX_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._term = 0
        self._again: _Counted | None = None
        """How the pod was counted of which a new attempt has begun."""

    def __len__(self) -> int:
        return len(self._pods)

    def reserve(self, framework: Framework, state: CycleState, pod: Pod, size: int) -> None:
        """Let plugins count a pod that has found nodes, in place of its earlier attempt. `size`: bytes."""
        plugins = framework.tentative
        if not plugins:
            return
        self.release(pod.metadata.uid, "it is counted anew")
        for name, plugin in plugins:
            with suppress(Broken):  # logged; Reserve validates the pod in any case
                call(state, "TentativeReserve", name, plugin.reserve_tentatively, state, pod)
        self._add(framework, pod, size, None)

    def hold(self, ahead: Ahead, size: int) -> None:
        """Hold what is reserved for a pod until `take`; `unreserve` comes before; `size` is in bytes."""
        self._add(ahead.placement.framework, ahead.placement.pod, size, ahead)

    def _add(self, framework: Framework, pod: Pod, size: int, ahead: Ahead | None) -> None:
        meta = pod.metadata
        self.replace(meta.key, meta.uid)
        self._pods[meta.uid] = _Counted(pod, framework, self._clock.monotonic(), size, ahead)
        self._uid_of[meta.key] = meta.uid
        self._budget.add(size)
        while len(self._pods) > MOST_PODS or self._budget.is_exceeded:
            self.unreserve(next(iter(self._pods)))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    def take(self, uid: str) -> Ahead | None:
        """Hand over what is reserved for a pod; None if nothing is. Plugins stop counting it tentatively."""
        known = self._pods.pop(uid, None)
        if known is None:
            return None
        del self._uid_of[known.pod.metadata.key]
        self._budget.remove(known.size)
        if known.ahead is None:
            for name, plugin in known.framework.tentative:
                with suppress(Broken):
                    call(CycleState(), "TentativeUnreserve", name, plugin.unreserve_tentatively, known.pod)
        return known.ahead

    def unreserve(self, uid: str, why: str = "its bind call has not come") -> None:
        """Stop counting a pod, if it is counted, release what is reserved for it, and retry other pods."""
        known = self.release(uid, why)
        if known is not None:
            known.framework.handle.gave_back(known.pod)

    def release(self, uid: str, why: str) -> _Counted | None:
        """Do the same without retrying other pods: the pod is counted again at once. Return how it was."""
        known = self._pods.get(uid)
        ahead = self.take(uid)
        if ahead is not None:
            ahead.placement.roll_back(why)
        return known

    def preempt(self, uid: str) -> bool:
        """Release what is reserved for a pod that another one preempts; return whether anything was."""
        counted = self._pods.get(uid)
        if counted is None or counted.ahead is None:
            return False
        self.unreserve(uid, "the pod was preempted")
        return True

    def begin_again(self, uid: str) -> None:
        """Release what an earlier attempt of a pod left; other pods are retried by `ended`, if at all."""
        self.ended()
        self._again = self.release(uid, "a new scheduling attempt of the pod has begun")

    def ended(self) -> None:
        """Retry other pods if the attempt that began last does not count as the one before did."""
        before, self._again = self._again, None
        if before is None:
            return
        now = self._pods.get(before.pod.metadata.uid)
        if now is None or before.node_name not in ("", now.node_name):
            before.framework.handle.gave_back(before.pod)

    def replace(self, key: str, uid: str) -> None:
        """Stop counting a pod whose name another pod has by now, which has this UID."""
        known = self._uid_of.get(key, uid)
        if known != uid:
            self.unreserve(known, "the pod was deleted, and another one has its name")

    def is_in(self, term: int) -> bool:
        """Return whether nothing is reserved in other terms of the fence."""
        return term == self._term

    def enter(self, term: int, at_most: int = MOST_PODS) -> bool:
        """Release what was reserved in other terms of the fence; return whether nothing of it is left."""
        if self.is_in(term):
            return True
        outdated = [
            uid
            for uid, counted in self._pods.items()
            if counted.ahead is not None and counted.ahead.term != term
        ]
        for uid in outdated[:at_most]:
            self.unreserve(uid, "the Lease under which it was reserved is no longer held")
        if len(outdated) > at_most:
            return False
        self._term = term
        return True

    def clear(self) -> None:
        """Stop counting all pods."""
        for uid in list(self._pods):
            self.unreserve(uid)

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        released, left = 0, 0.0
        while self._pods and released < AT_ONCE:
            uid, counted = next(iter(self._pods.items()))
            left = max(counted.since + self._seconds - now, 0.0)
            if left:
                break
            self.unreserve(uid)
            released += 1
        if self._pods and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(left, self._expire)
