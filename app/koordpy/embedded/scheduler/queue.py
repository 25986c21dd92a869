"""Pods that wait to be scheduled: active, backing off, or unschedulable until something changes.

The three pools and the rules between them are kube-scheduler's (`pkg/scheduler/backend/queue`). Nothing here
waits: `pop` returns what is ready, `ready_in` says when to ask again.
"""

import functools
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from koordpy.api.core import Pod
from koordpy.lib.clock import Clock
from koordpy.scheduling.interface import QueuedPod

FLUSH_AFTER = 300.0
"""Seconds after which an unschedulable pod is tried again though nothing seems to have changed."""

Less = Callable[[QueuedPod, QueuedPod], bool]


@functools.total_ordering
@dataclass(eq=False)
class _Active:
    item: QueuedPod
    sequence: int
    less: Less

    def __lt__(self, other: "_Active") -> bool:
        if self.less(self.item, other.item):
            return True
        return not self.less(other.item, self.item) and self.sequence < other.sequence


@dataclass
class _Entry:
    """A pod in the queue or in flight. `ticket` tells the one valid heap entry from stale ones."""

    item: QueuedPod
    pool: str
    ticket: int
    since: float
    moves_seen: int = field(default=0)


def by_priority(first: QueuedPod, second: QueuedPod) -> bool:
    """Tell whether a pod goes first: higher priority, then queued earlier (PrioritySort)."""
    one, two = first.pod.spec.priority or 0, second.pod.spec.priority or 0
    return one > two if one != two else first.queued_at < second.queued_at


class SchedulingQueue:
    """The queue of one scheduler. Times are monotonic seconds."""

    def __init__(
        self,
        clock: Clock,
        less: Less = by_priority,
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
    ) -> None:
        self._clock, self._less = clock, less
        self._initial, self._max = initial_backoff, max_backoff
        self._entries: dict[str, _Entry] = {}
        self._active: list[_Active] = []
        self._backoff: list[tuple[float, int, str]] = []
        self._tickets = itertools.count()
        self._moves = 0
        self._next_look = 0.0

    def __len__(self) -> int:
        return sum(entry.pool != "in-flight" for entry in self._entries.values())

    def pool_of(self, uid: str) -> str | None:
        """Return `active`, `backoff`, `unschedulable` or `in-flight`, None for a pod not known."""
        entry = self._entries.get(uid)
        return None if entry is None else entry.pool

    def add(self, pod: Pod) -> None:
        """Queue a new pod, or one that changed so that it may fit now. A pod in flight is left alone."""
        known = self._entries.get(pod.metadata.uid)
        if known is None:
            self._put(QueuedPod(pod, self._clock.monotonic(), 0), "active")
        elif known.pool != "in-flight":
            self._put(QueuedPod(pod, known.item.queued_at, known.item.attempts), "active")

    def update(self, pod: Pod) -> None:
        """Take a newer object of a queued pod without moving it."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is not None:
            entry.item = QueuedPod(pod, entry.item.queued_at, entry.item.attempts)
            if entry.pool == "active":
                self._put(entry.item, "active")

    def delete(self, uid: str) -> None:
        """Forget a pod wherever it is."""
        self._entries.pop(uid, None)

    def pop(self) -> QueuedPod | None:
        """Return the next pod to schedule and count an attempt; None when no pod is ready."""
        self._flush()
        while self._active:
            top = heapq.heappop(self._active)
            entry = self._entries.get(top.item.pod.metadata.uid)
            if entry is None or entry.ticket != top.sequence:
                continue
            entry.pool = "in-flight"
            entry.moves_seen = self._moves
            entry.item = QueuedPod(entry.item.pod, entry.item.queued_at, entry.item.attempts + 1)
            return entry.item
        return None

    def ready_in(self) -> float | None:
        """Return the seconds until a waiting pod may be ready; None when none is waiting for time."""
        self._flush()
        if self._active:
            return 0.0
        now = self._clock.monotonic()
        times = [self._backoff[0][0]] if self._backoff else []
        times += [e.since + FLUSH_AFTER for e in self._entries.values() if e.pool == "unschedulable"]
        return max(min(times) - now, 0.0) if times else None

    def done(self, uid: str) -> None:
        """Say that a pod in flight is placed: nothing more is to be done for it."""
        entry = self._entries.get(uid)
        if entry is not None and entry.pool == "in-flight":
            del self._entries[uid]

    def requeue(self, item: QueuedPod, *, rejected: bool) -> None:
        """Put back a pod whose attempt failed.

        A rejected pod waits for a change; if something changed while it was in flight, or if something broke
        (`rejected` false), it is tried again after its backoff.
        """
        uid = item.pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            return
        fresh = QueuedPod(entry.item.pod, self._clock.monotonic(), item.attempts)
        if rejected and entry.moves_seen == self._moves:
            self._put(fresh, "unschedulable")
        else:
            self._put(fresh, "backoff")

    def move_all(self) -> None:
        """Give every unschedulable pod another chance: something in the cluster changed."""
        self._moves += 1
        for entry in list(self._entries.values()):
            if entry.pool == "unschedulable":
                self._reactivate(entry)

    def _reactivate(self, entry: _Entry) -> None:
        ready = entry.item.queued_at + self._backoff_of(entry.item) <= self._clock.monotonic()
        self._put(entry.item, "active" if ready else "backoff")

    def _put(self, item: QueuedPod, pool: str) -> None:
        uid = item.pod.metadata.uid
        ticket = next(self._tickets)
        self._entries[uid] = _Entry(item, pool, ticket, self._clock.monotonic(), self._moves)
        if pool == "active":
            heapq.heappush(self._active, _Active(item, ticket, self._less))
        elif pool == "backoff":
            heapq.heappush(self._backoff, (item.queued_at + self._backoff_of(item), ticket, uid))

    def _flush(self) -> None:
        now = self._clock.monotonic()
        while self._backoff:
            at, ticket, uid = self._backoff[0]
            entry = self._entries.get(uid)
            stale = entry is None or entry.ticket != ticket
            if not stale and at > now:
                break
            heapq.heappop(self._backoff)
            if entry is not None and not stale:
                self._put(entry.item, "active")
        for entry in list(self._entries.values()) if self._has_overdue(now) else ():
            if entry.pool == "unschedulable" and entry.since + FLUSH_AFTER <= now:
                self._reactivate(entry)

    def _has_overdue(self, now: float) -> bool:
        """Look through unschedulable pods at most every 30 seconds, as kube-scheduler does."""
        if now < self._next_look:
            return False
        self._next_look = now + 30.0
        return True

    def _backoff_of(self, item: QueuedPod) -> float:
        if item.attempts == 0:
            return 0.0
        return min(self._initial * 2.0 ** min(item.attempts - 1, 30), self._max)
