"""The life of each pod that has to be scheduled, as observed by this process.

Decisions explain attempts and are many; a life is a short record of one pod, kept for longer: when it was
first seen, the result of every attempt, how long it waited and for what, the result of its binds. Everything
is bounded: the pods, and the steps of each; a repeated step is counted, not stored again.

Recording a step costs a few attribute writes: filter calls do it while kube-scheduler's loop waits.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from koordpy.api.core import Pod
from koordpy.api.meta import Condition, format_micro_time, parse_time
from koordpy.api.output_model import OutputModel
from koordpy.lib.byte_budget import ByteBudget
from koordpy.lib.cut import cut
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome

from .remembered_pod import remembered

MAX_BYTES = 24 << 20
"""The budget of all lives."""

PODS = 5_000
"""Pods whose lives are remembered by default; pods that still wait are forgotten last."""

MOST_NAMES = 100
"""Scheduler names for which pods are counted; pods choose their names."""

STEPS = 48
"""Latest steps of a life that are kept."""


class What(StrEnum):
    """What can happen to a pod."""

    SEEN = "seen"
    GATED = "gated"
    UNGATED = "ungated"
    FILTERED = "filtered"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"
    REPORTED = "reported"
    """kube-scheduler or koordpy wrote into the pod's PodScheduled condition why it is not placed."""
    NOMINATED = "nominated"
    BINDING = "binding"
    WAITING = "waiting"
    ALLOWED = "allowed"
    FAILED = "failed"
    BOUND = "bound"
    BOUND_BY_OTHERS = "bound-by-others"
    ENDED = "ended"
    """The pod failed or succeeded without a node."""
    DELETING = "deleting"
    DELETED = "deleted"


CYCLES = frozenset((What.FILTERED, What.UNSCHEDULABLE, What.ERROR))
"""The outcomes of filter calls: one step per cycle."""


class StepModel(OutputModel):
    """One step. Times are RFC 3339; `after_seconds` counts from the step before.

    A step repeated `times` times in a row was first recorded at `time` and last at `last_time`.
    """

    time: str
    after_seconds: float
    what: str
    node: str
    message: str
    evaluated_nodes: int
    feasible_nodes: int
    refused_by: dict[str, int]
    """The number of nodes that each plugin rejected."""
    times: int
    last_time: str


@dataclass(slots=True)
class Step:
    """One step; see `StepModel`."""

    at: datetime
    what: What
    node: str = ""
    message: str = ""
    evaluated: int = 0
    feasible: int = 0
    refused: Sequence[tuple[str, int]] = ()
    times: int = 1
    last: datetime | None = None

    def is_again(self, other: "Step") -> bool:
        """Return whether another step is equal but for its time."""
        return (
            self.what is other.what
            and self.node == other.node
            and self.message == other.message
            and self.feasible == other.feasible
            and self.evaluated == other.evaluated
            and self.refused == other.refused
        )


@dataclass(slots=True)
class Life:
    """What happened to one pod. `pod` is its last known object."""

    pod: Pod
    first_seen: datetime
    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=STEPS))
    dropped: int = 0
    """Steps that were forgotten."""
    size: int = 1500
    """Bytes, by estimate; a pod that is in the store is not counted."""
    cycles: int = 0
    """Filter calls about the pod."""
    binding_to: str = ""
    """The node of the last bind call for the pod."""

    def add(self, step: Step) -> None:
        """Append a step, or count it if it repeats the last one.

        Two steps that alternate (an attempt, and kube-scheduler's report of it) are both counted.
        """
        steps = self.steps
        step.message = cut(step.message)
        for back in (-1, -2)[: len(steps)]:
            earlier = steps[back]
            if earlier.is_again(step):
                earlier.times += 1
                earlier.last = step.at
                return
            if earlier.what not in _ALTERNATING or step.what not in _ALTERNATING:
                break
        if len(steps) == STEPS:
            self.dropped += 1
            self.size -= _size(steps[0])
        self.size += _size(step)
        steps.append(step)

    @property
    def is_over(self) -> bool:
        """Whether the pod no longer concerns the scheduler."""
        return bool(self.steps) and self.steps[-1].what in _ENDS

    @property
    def last_cycle(self) -> Step | None:
        """The latest step of a filter call."""
        return next((step for step in reversed(self.steps) if step.what in CYCLES), None)

    @property
    def last_failure(self) -> Step | None:
        """How the latest attempt failed: no feasible node, or a failed bind call. None if it did not."""
        ends = (step for step in reversed(self.steps) if step.what in CYCLES or step.what is What.FAILED)
        last = next(ends, None)
        return None if last is None or last.feasible else last

    def models(self) -> list[StepModel]:
        """Return the steps, oldest first."""
        found = []
        before = began = self.steps[0].at if self.steps else self.first_seen
        for step in self.steps:
            if before > step.at:  # the step before recurred after this one: the two alternate
                before = began
            found.append(
                StepModel(
                    time=format_micro_time(step.at),
                    after_seconds=round((step.at - before).total_seconds(), 3),
                    what=step.what.value,
                    node=step.node,
                    message=step.message,
                    evaluated_nodes=step.evaluated,
                    feasible_nodes=step.feasible,
                    refused_by=dict(step.refused),
                    times=step.times,
                    last_time=format_micro_time(step.last or step.at),
                )
            )
            before, began = step.last or step.at, step.at
        return found


_ENDS = frozenset((What.BOUND, What.BOUND_BY_OTHERS, What.ENDED, What.DELETED))
_ALTERNATING = frozenset((What.UNSCHEDULABLE, What.ERROR, What.REPORTED))


class Histories:
    """The lives of the most recent pods that had to be scheduled, by UID.

    With `is_light` kube-scheduler binds itself, so that a binding without a bind call here is expected. It
    follows the pods of the handle's cluster.
    """

    def __init__(self, handle: Handle, *, pods: int = PODS, is_light: bool = False) -> None:
        self._clock, self._most, self._is_light = handle.clock, pods, is_light
        self._pods = handle.cluster.store(Pod)
        self._waiting: OrderedDict[str, Life] = OrderedDict()
        """Lives of pods that the watch shows unbound, and that have not ended."""
        self._over: OrderedDict[str, Life] = OrderedDict()
        """Lives of all others, which are forgotten first."""
        self.began = handle.clock.now()
        self.calls = 0
        """Filter calls so far, for any pod."""
        self.bound_elsewhere: Counter[str] = Counter()
        """Pods that were seen waiting and then bound without any call to koordpy, by schedulerName; of
        `MOST_NAMES` names."""
        self._budget = ByteBudget("histories", MAX_BYTES)
        if pods:
            handle.on(Pod, self._added, self._updated, self._deleted)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._over)

    def now(self) -> datetime:
        """Return the current time of the clock that steps are recorded with."""
        return self._clock.now()

    def life(self, uid: str) -> Life | None:
        """Return the recorded life of a pod, None if there is none."""
        return self._known(uid)

    def lives(self, namespace: str, name: str) -> list[Life]:
        """Return the recorded lives of pods of that name, the latest first."""
        found = [
            life
            for lives in (self._over, self._waiting)
            for life in lives.values()
            if life.pod.metadata.name == name and life.pod.metadata.namespace == namespace
        ]
        return sorted(found, key=lambda life: life.first_seen, reverse=True)

    # --- from the extender -----------------------------------------------------------------------

    def filtered(self, pod: Pod, at: datetime, outcome: FilterOutcome, feasible: int, message: str) -> None:
        """Record the result of a filter call: nodes, or none and the reason."""
        self.calls += 1
        life = self._life(pod, at)
        if life is None:
            return
        life.cycles += 1
        refused = [(refusals.plugin, len(refusals.indexes)) for refusals in outcome.refusals]
        what = What.FILTERED if feasible else What.UNSCHEDULABLE
        evaluated = len(outcome.nodes) + len(outcome.absent)
        self._add(life, Step(at, what, "", message, evaluated, feasible, refused))

    def broke(self, pod: Pod, message: str) -> None:
        """Record a filter call that ended with an error."""
        self.calls += 1
        at = self._clock.now()
        life = self._life(pod, at)
        if life is not None:
            life.cycles += 1
            self._add(life, Step(at, What.ERROR, message=message))

    def binding(self, uid: str, node_name: str) -> None:
        """Record a bind call."""
        life = self._known(uid)
        if life is not None:
            life.binding_to = node_name
            self._add(life, Step(self._clock.now(), What.BINDING, node_name))

    def waiting(self, uid: str, message: str) -> None:
        """Record that the pod waits in Permit."""
        life = self._known(uid)
        if life is not None:
            self._add(life, Step(self._clock.now(), What.WAITING, life.binding_to, message))

    def allowed(self, uid: str) -> None:
        """Record that the pod was allowed to proceed."""
        life = self._known(uid)
        if life is not None:
            self._add(life, Step(self._clock.now(), What.ALLOWED, life.binding_to))

    def bind_ended(self, uid: str, node_name: str, error: str) -> None:
        """Record the answer to a bind call; no error means that the pod is bound."""
        life = self._known(uid)
        if life is None:
            return
        if error:
            self._add(life, Step(self._clock.now(), What.FAILED, node_name, error))
        elif not life.is_over:  # the watch may have been faster
            self._end(uid, life, Step(self._clock.now(), What.BOUND, node_name))

    # --- from the watch --------------------------------------------------------------------------

    def _added(self, pod: Pod) -> None:
        if not _waits(pod):
            return
        now = self._clock.now()
        life = self._life(pod, now)
        if life is None:
            return
        uid = pod.metadata.uid
        if uid in self._over:  # its filter call came before its watch event
            self._waiting[uid] = self._over.pop(uid)
        life.pod = pod
        if pod.metadata.deletion_timestamp:
            self._add(life, Step(now, What.DELETING))
        condition = unscheduled(pod)
        if condition is not None and condition.reason != "SchedulingGated":
            self._add(life, Step(now, What.REPORTED, message=condition.message or condition.reason))

    def _updated(self, old: Pod, pod: Pod) -> None:
        uid = pod.metadata.uid
        life = self._waiting.get(uid)
        if life is None:
            if uid in self._over:
                self._over[uid].pod = pod
            return
        life.pod = pod
        now = self._clock.now()
        gates, gates_before = _gates(pod), _gates(old)
        if gates != gates_before:
            self._add(life, Step(now, What.GATED if gates else What.UNGATED, message=gates or gates_before))
        if pod.metadata.deletion_timestamp and not old.metadata.deletion_timestamp:
            self._add(life, Step(now, What.DELETING))
        nominated = pod.status.nominated_node_name
        if nominated and nominated != old.status.nominated_node_name:
            self._add(life, Step(now, What.NOMINATED, nominated))
        told, told_before = unscheduled(pod), unscheduled(old)
        if told is not None and told.reason != "SchedulingGated" and told != told_before:
            self._add(life, Step(now, What.REPORTED, message=told.message or told.reason))
        if pod.spec.node_name:
            self._bound(uid, life, now)
        elif pod.is_terminal:
            self._end(uid, life, Step(now, What.ENDED, message=pod.status.reason or pod.status.phase))

    def _bound(self, uid: str, life: Life, now: datetime) -> None:
        pod = life.pod
        if life.binding_to == pod.spec.node_name or (self._is_light and life.cycles):
            self._end(uid, life, Step(now, What.BOUND, pod.spec.node_name))
            return
        name = pod.spec.scheduler_name or "default-scheduler"
        if name in self.bound_elsewhere or len(self.bound_elsewhere) < MOST_NAMES:
            self.bound_elsewhere[name] += 1
        message = "koordpy was not called to bind it" if life.cycles else "koordpy was never called for it"
        self._end(uid, life, Step(now, What.BOUND_BY_OTHERS, pod.spec.node_name, message))

    def _deleted(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        life = self._known(uid)
        if life is not None:
            self._end(uid, life, Step(self._clock.now(), What.DELETED))

    # --- storage ---------------------------------------------------------------------------------

    def _known(self, uid: str) -> Life | None:
        return self._waiting.get(uid) or self._over.get(uid)

    def _life(self, pod: Pod, at: datetime) -> Life | None:
        uid = pod.metadata.uid
        life = self._known(uid)
        if life is not None or not self._most:
            return life
        live = self._pods.by_key(pod.metadata.key)
        waits = live is not None and live.metadata.uid == uid and _waits(live)
        life = Life(pod if waits else remembered(pod), at)
        (self._waiting if waits else self._over)[uid] = life
        self._budget.add(life.size)
        self._add(life, Step(at, What.SEEN))
        if gates := _gates(pod):
            self._add(life, Step(at, What.GATED, message=gates))
        return life

    def _add(self, life: Life, step: Step) -> None:
        """Add a step, and forget the lives beyond the limits."""
        size = life.size
        life.add(step)
        self._budget.add(life.size - size, entries=0)
        while len(self) > 1 and (len(self) > self._most or self._budget.is_exceeded):
            _, forgotten = (self._over or self._waiting).popitem(last=False)
            self._budget.remove(forgotten.size)

    def _end(self, uid: str, life: Life, step: Step) -> None:
        self._add(life, step)
        if step.what is What.DELETED:
            life.pod = remembered(life.pod)
        if self._waiting.pop(uid, None) is not None:
            self._over[uid] = life

    def __iter__(self) -> Iterator[Life]:
        yield from self._waiting.values()
        yield from self._over.values()


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.is_terminal


def unscheduled(pod: Pod) -> Condition | None:
    """Return kube-scheduler's condition that explains why a pod is not placed, None if there is none."""
    return next(
        (found for found in pod.status.conditions if (found.type, found.status) == ("PodScheduled", "False")),
        None,
    )


def created(pod: Pod) -> datetime | None:
    """Return the creation time of a pod."""
    text = pod.metadata.creation_timestamp
    return parse_time(text) if text else None


def _gates(pod: Pod) -> str:
    return ", ".join(gate.name for gate in pod.spec.scheduling_gates)


def _size(step: Step) -> int:
    return 300 + len(step.message) + 100 * len(step.refused)
