"""What becomes of the gangs of a scenario: when the minimum of each is bound, and what it holds before.

A gang is *whole* while at least its minimum of members are bound or have finished, *partly bound* while fewer
are and some of them hold resources: gangs that stay so have deadlocked.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id
from koordpy.api.gang.settings import GangDefaults, settings_of_pod, settings_of_pod_group
from koordpy.api.koordinator import PodGroup
from koordpy.api.scheme import DecodeError, decode

from .planned import PlannedPod
from .result import Gangs, Spread

_DEFAULTS = GangDefaults()


def membership(pod: Pod) -> tuple[str, int]:
    """Return the ID of a pod's gang, and the minimum that the pod tells; "" and 0 without."""
    id_ = gang_id(pod)
    told = settings_of_pod(pod, id_, _DEFAULTS) if id_ else None
    return id_, 0 if told is None else told.min_member


def minimums(objects: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the minimums of the PodGroups among some objects, by the IDs of their gangs."""
    found = {}
    for document in objects:
        if document.get("kind") != "PodGroup":
            continue
        try:
            pod_group = decode(PodGroup, {"metadata": {}, **document})
        except DecodeError:
            continue  # the API server refuses it, which is reported
        meta = pod_group.metadata
        id_ = f"{meta.namespace or 'default'}/{meta.name}"
        found[id_] = settings_of_pod_group(pod_group, id_, _DEFAULTS).min_member
    return found


class State(StrEnum):
    """What of a gang is bound."""

    WHOLE = "whole"
    PARTLY_BOUND = "partly bound"
    WAITING = "waiting"
    OVER = "over"


@dataclass(slots=True)
class _Gang:
    minimum: int
    created: float
    alive: int = 0
    bound: int = 0
    finished: int = 0
    state: State = State.OVER
    since: float = 0.0
    """When it came into that state."""
    whole_at: float | None = None
    over_at: float | None = None
    partly: float = 0.0
    """Seconds that it was partly bound, without the present time."""
    longest: float = 0.0

    def settle(self, now: float) -> None:
        """Note the state that follows from the counts."""
        if not self.alive:
            state = State.OVER
        elif self.bound + self.finished >= self.minimum:
            state = State.WHOLE
        else:
            state = State.PARTLY_BOUND if self.bound else State.WAITING
        if state is self.state:
            return
        if self.state is State.PARTLY_BOUND:
            self.partly += now - self.since
            self.longest = max(self.longest, now - self.since)
        self.state, self.since = state, now
        if state is State.WHOLE and self.whole_at is None:
            self.whole_at = now
        self.over_at = now if state is State.OVER else None


class GangJournal:
    """The history of all gangs. `minimums` are those of PodGroups, by gang."""

    def __init__(self, minimums: Mapping[str, int]) -> None:
        self._minimums = minimums
        self._gangs: dict[str, _Gang] = {}
        self._on_whole: dict[str, list[Callable[[], None]]] = {}

    def created(self, pod: PlannedPod, now: float) -> None:
        """Record a new pod."""
        if not pod.gang:
            return
        gang = self._gangs.get(pod.gang)
        if gang is None:
            minimum = self._minimums.get(pod.gang, pod.gang_minimum)
            gang = self._gangs[pod.gang] = _Gang(minimum, now, since=now)
        gang.alive += 1
        gang.settle(now)

    def bound(self, pod: PlannedPod, now: float) -> None:
        """Record that a pod is bound."""
        if gang := self._gangs.get(pod.gang):
            gang.bound += 1
            gang.settle(now)
            if gang.state is State.WHOLE:
                for handler in self._on_whole.pop(pod.gang, ()):
                    handler()

    def ended(self, pod: PlannedPod, now: float, *, was_bound: bool, finished: bool) -> None:
        """Record that a pod is gone."""
        if gang := self._gangs.get(pod.gang):
            gang.alive -= 1
            gang.bound -= was_bound
            gang.finished += finished
            gang.settle(now)

    def when_whole(self, pod: PlannedPod, handler: Callable[[], None]) -> None:
        """Call a handler once the gang of a pod is whole: now if it is, or if the pod is in no gang."""
        gang = self._gangs.get(pod.gang)
        if gang is None or gang.state is State.WHOLE:
            handler()
        else:
            self._on_whole.setdefault(pod.gang, []).append(handler)

    def counts(self) -> Counter[State]:
        """Return how many gangs are in each state."""
        return Counter(gang.state for gang in self._gangs.values())

    def result(self, end: float) -> Gangs | None:
        """Return what became of the gangs, None if there were none."""
        gangs = list(self._gangs.values())
        if not gangs:
            return None
        counts = self.counts()
        present = [end - gang.since if gang.state is State.PARTLY_BOUND else 0.0 for gang in gangs]
        return Gangs(
            created=len(gangs),
            whole=sum(gang.whole_at is not None for gang in gangs),
            seconds_to_whole=Spread.of([_waited(gang, end) for gang in gangs]),
            partly_bound_hours=(sum(gang.partly for gang in gangs) + sum(present)) / 3600.0,
            longest_partly_bound=max(*(gang.longest for gang in gangs), *present),
            whole_at_end=counts[State.WHOLE],
            partly_bound_at_end=counts[State.PARTLY_BOUND],
            waiting_at_end=counts[State.WAITING],
        )


def _waited(gang: _Gang, end: float) -> float:
    """Return the time until a gang was whole; of one that never was, how long it has waited."""
    until = next((at for at in (gang.whole_at, gang.over_at) if at is not None), end)
    return until - gang.created
