"""Pods waiting to be scheduled by koordpy: active, backing off, unschedulable until a change, or gated.

The embedded scheduler keeps its pods here, and `scheduling.reservations` its reserve pods.

The pools and the rules between them are kube-scheduler's (`pkg/scheduler/backend/queue`). Nothing here
blocks: `pop` returns what is ready, `ready_in` returns when to call again.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from koordpy.api.core import Pod
from koordpy.lib.clock import Clock
from koordpy.scheduling.interface import QueuedPod

FLUSH_AFTER = 300.0
"""Seconds after which an unschedulable pod is retried even though no change was observed."""

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED, IN_FLIGHT = "active", "backoff", "unschedulable", "gated", "in-flight"

Less = Callable[[QueuedPod, QueuedPod], bool]


@dataclass(eq=False, slots=True)
class _Active:
    """An element of the heap of active pods; equal elements keep the order of arrival."""

    item: QueuedPod
    ticket: int
    less: Less

    def __lt__(self, other: "_Active") -> bool:
        if self.less(self.item, other.item):
            return True
        return not self.less(other.item, self.item) and self.ticket < other.ticket


@dataclass(slots=True)
class _Entry:
    """A pod in the queue or in flight. `ticket` identifies the one valid heap element among stale ones."""

    item: QueuedPod
    pool: str
    ticket: int
    since: float
    placements_help: bool = False
    """Whether the pod may fit after another pod was placed."""
    anything_helps: bool = False
    """Whether it is unknown which changes may make the pod fit."""
    seen: tuple[int, int] = (0, 0)
    """The numbers of changes and placements when the pod was popped."""
    changed: bool = False
    """Whether the pod itself changed while in flight."""
    touched: bool = False
    """Whether a rarely relevant part of the pod changed while in flight."""


def by_priority(first: QueuedPod, second: QueuedPod) -> bool:
    """Return whether a pod goes first: higher priority, then queued earlier (PrioritySort)."""
    one, two = first.pod.spec.priority or 0, second.pod.spec.priority or 0
    return one > two if one != two else first.queued_at < second.queued_at


class SchedulingQueue:
    """The queue of one scheduler. Times are monotonic seconds.

    `admits` is PreEnqueue: a pod that it refuses is gated, and checked again whenever something changes.
    """

    def __init__(
        self,
        clock: Clock,
        less: Less = by_priority,
        *,
        admits: Callable[[Pod], bool] = lambda _: True,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
    ) -> None:
        self._clock, self._less, self._admits = clock, less, admits
        self._initial, self._max = initial_backoff, max_backoff
        self._entries: dict[str, _Entry] = {}
        self._active: list[_Active] = []
        self._backoff: list[tuple[float, int, str]] = []
        self._unschedulable: dict[str, None] = {}
        """UIDs, the one that has waited longest first."""
        self._gated: dict[str, None] = {}
        self._tickets = itertools.count()
        self._changes = 0
        self._placements = 0

    def __len__(self) -> int:
        return sum(entry.pool != IN_FLIGHT for entry in self._entries.values())

    def pool_of(self, uid: str) -> str | None:
        """Return `active`, `backoff`, `unschedulable`, `gated` or `in-flight`, None for a pod not known."""
        entry = self._entries.get(uid)
        return None if entry is None else entry.pool

    # --- pod events ------------------------------------------------------------------------------

    def add(self, pod: Pod) -> None:
        """Queue a new pod, or record a change of a known one that may make it fit.

        A pod in flight is retried if the attempt fails; a pod that is backing off keeps backing off.
        """
        entry = self._entries.get(pod.metadata.uid)
        if entry is None:
            self._put(QueuedPod(pod, self._clock.monotonic(), 0), ACTIVE)
            return
        self.update(pod)
        if entry.pool == IN_FLIGHT:
            entry.changed = True
        elif entry.pool in (UNSCHEDULABLE, GATED):
            self._reactivate(entry)

    def update(self, pod: Pod) -> None:
        """Store a newer object of a known pod without moving it."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is not None:
            entry.item = replace(entry.item, pod=pod)

    def touch(self, pod: Pod) -> None:
        """Store a newer object of a known pod that differs only in rarely relevant parts."""
        entry = self._entries.get(pod.metadata.uid)
        if entry is None:
            return
        self.update(pod)
        entry.touched = True
        if entry.pool == UNSCHEDULABLE and entry.anything_helps:
            self._reactivate(entry)

    def delete(self, uid: str) -> None:
        """Forget a pod wherever it is."""
        self._entries.pop(uid, None)
        self._unschedulable.pop(uid, None)
        self._gated.pop(uid, None)

    # --- attempts --------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """Return the next pod to schedule and count an attempt; None when no pod is ready."""
        self._flush()
        while self._active:
            top = heapq.heappop(self._active)
            entry = self._entries.get(top.item.pod.metadata.uid)
            if entry is not None and entry.ticket == top.ticket:
                return self._take_off(entry)
        return None

    def pick(self, uid: str) -> QueuedPod | None:
        """Return a pod ahead of its turn, wherever it waits, and count an attempt.

        None if it does not wait here, or has scheduling gates.
        """
        entry = self._entries.get(uid)
        if entry is None or entry.pool == IN_FLIGHT or entry.item.pod.spec.scheduling_gates:
            return None
        self._unschedulable.pop(uid, None)
        self._gated.pop(uid, None)
        entry.ticket = next(self._tickets)
        return self._take_off(entry)

    def ready_in(self) -> float | None:
        """Return the seconds until a waiting pod may be ready; None if no pod waits for a time."""
        self._flush()
        if self._active:
            return 0.0
        times = [self._backoff[0][0]] if self._backoff else []
        for uid in self._unschedulable:
            times.append(self._entries[uid].since + FLUSH_AFTER)
            break
        return max(min(times) - self._clock.monotonic(), 0.0) if times else None

    def done(self, uid: str) -> None:
        """Record that a pod in flight needs no further attempt."""
        entry = self._entries.get(uid)
        if entry is not None and entry.pool == IN_FLIGHT:
            del self._entries[uid]

    def requeue(
        self,
        item: QueuedPod,
        *,
        rejected: bool,
        placements_help: bool = False,
        anything_helps: bool = False,
    ) -> bool:
        """Put back a pod whose attempt failed; return whether it is still known.

        A rejected pod waits for a change; if something changed while it was in flight, or if the attempt
        ended with an error (`rejected` false), it is retried after its backoff. With `anything_helps` any
        change may help: the pod was rejected by an extender, which does not declare events.
        """
        entry = self._entries.get(item.pod.metadata.uid)
        if entry is None or entry.pool != IN_FLIGHT:
            return False
        changes, placements = entry.seen
        again = (
            not rejected
            or entry.changed
            or changes != self._changes
            or ((placements_help or anything_helps) and placements != self._placements)
            or (anything_helps and entry.touched)
        )
        fresh = QueuedPod(entry.item.pod, self._clock.monotonic(), item.attempts)
        put = self._put(fresh, BACKOFF if again else UNSCHEDULABLE)
        put.placements_help, put.anything_helps = placements_help or anything_helps, anything_helps
        return True

    # --- cluster events --------------------------------------------------------------------------

    def move_all(self, *, but: str = "") -> bool:
        """Move every unschedulable pod (except `but`) back: something in the cluster changed.

        Return whether any was moved.
        """
        self._changes += 1
        moved = [uid for uid in self._unschedulable if uid != but]
        return self._reactivate_all([*moved, *self._gated])

    def placed(self) -> bool:
        """Record that a pod was placed: only pods that may fit because of that are moved back.

        Return whether any was moved.
        """
        self._placements += 1
        return self._reactivate_all(
            [uid for uid in self._unschedulable if self._entries[uid].placements_help]
        )

    def _reactivate_all(self, uids: list[str]) -> bool:
        for uid in uids:
            self._reactivate(self._entries[uid])
        return bool(uids)

    def activate(self, uid: str) -> None:
        """Retry a waiting pod at once, regardless of its reason; a pod in flight, if its attempt fails."""
        entry = self._entries.get(uid)
        if entry is None or entry.pool == ACTIVE:
            return
        if entry.pool == IN_FLIGHT:
            entry.changed = True
        else:
            self._put(entry.item, ACTIVE)

    # --- pools -----------------------------------------------------------------------------------

    def _take_off(self, entry: _Entry) -> QueuedPod:
        entry.pool, entry.changed, entry.touched = IN_FLIGHT, False, False
        entry.seen = (self._changes, self._placements)
        entry.item = replace(entry.item, attempts=entry.item.attempts + 1)
        return entry.item

    def _reactivate(self, entry: _Entry) -> None:
        ready = entry.item.queued_at + self._backoff_of(entry.item) <= self._clock.monotonic()
        self._put(entry.item, ACTIVE if ready else BACKOFF)

    def _put(self, item: QueuedPod, pool: str) -> _Entry:
        uid = item.pod.metadata.uid
        if pool == ACTIVE and not self._admits(item.pod):
            pool = GATED
        self._unschedulable.pop(uid, None)
        self._gated.pop(uid, None)
        ticket = next(self._tickets)
        entry = self._entries[uid] = _Entry(item, pool, ticket, self._clock.monotonic())
        if pool == ACTIVE:
            heapq.heappush(self._active, _Active(item, ticket, self._less))
        elif pool == BACKOFF:
            heapq.heappush(self._backoff, (item.queued_at + self._backoff_of(item), ticket, uid))
        elif pool == UNSCHEDULABLE:
            self._unschedulable[uid] = None
        else:
            self._gated[uid] = None
        return entry

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
                self._put(entry.item, ACTIVE)
        while self._unschedulable:
            entry = self._entries[next(iter(self._unschedulable))]
            if entry.since + FLUSH_AFTER > now:
                break
            self._reactivate(entry)

    def _backoff_of(self, item: QueuedPod) -> float:
        if item.attempts == 0:
            return 0.0
        return min(self._initial * 2.0 ** min(item.attempts - 1, 30), self._max)
