"""Why a pod went where it went: the last scheduling attempts, explained on demand.

Recording keeps references to what the attempt computed anyway; texts and tables are rendered on request, so
explaining costs a cycle next to nothing.

Observers of attempts (streams, the monitor, debug tables) register here and are called at each step of an
attempt, while it happens.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal, get_args

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.meta import format_micro_time
from koordpy.api.output_model import OutputModel
from koordpy.api.reservation_annotations import allocated_name
from koordpy.api.reserve_pod import is_reserve_pod, reservation_name_of
from koordpy.lib.byte_budget import ByteBudget
from koordpy.lib.cut import cut
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores
from koordpy.scheduling.interface.status import Status

from .explained import Best, NodeScore, Rejected, Rejection, rejected, rejections
from .remembered_pod import POD_FACTOR, remembered

log = logging.getLogger(__name__)

Outcome = Literal["filtered", "unschedulable", "error", "binding", "waiting", "bound", "failed", "superseded"]
"""The progress of an attempt. `filtered`: nodes were found, and no bind call has come yet."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

ENDS: frozenset[str] = frozenset(("unschedulable", "error", "bound", "failed", "superseded"))
"""Outcomes after which nothing more happens to an attempt."""

Step = Literal["begun", "scored"] | Outcome
"""What happens to an attempt. `filtered` is reported whenever filters have run; the outcome follows."""

Listener = Callable[["Decision", Step], None]
"""Called at each step. It must be quick."""

MOST_REJECTIONS = 200
"""Distinct rejections that are kept of an attempt that is condensed."""

MOST_REMARKS = 16
"""Remarks of plugins that are kept of an attempt."""

KEPT = 200
"""Attempts that are remembered by default."""

NODE_BYTES = 60
"""Of an attempt's arrays, for each node."""

MAX_BYTES = 32 << 20
"""The budget of attempts whose pods and arrays are kept; older attempts are reduced to what is shown of them.
That takes time, which is saved where attempts are small: these are forgotten before their turn comes."""


class DecisionModel(OutputModel):
    """One scheduling attempt."""

    namespace: str
    pod: str
    uid: str
    profile: str
    started: str
    outcome: Outcome
    node: str
    message: str
    evaluated_nodes: int
    feasible_nodes: int
    rejections: list[Rejection]
    weights: dict[str, int]
    top_nodes: list[NodeScore]
    """The best of the evaluated nodes. The chosen one comes last if it is not among them."""
    chosen_by: str
    """What chose among the nodes that fit: kube-scheduler, which adds its own scores, or koordpy."""
    evaluated_for: str
    """The pod of the same signature for which the nodes were evaluated; empty for this one."""
    reservation: str
    """The Reservation to be placed, whose UID is the pod's name; empty for a pod."""
    allocated_reservation: str
    """The Reservation whose resources the pod was bound with; empty for none."""
    remarks: list[str]
    """What plugins say of what they allocated: who chose it, say."""
    milliseconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is kept of an attempt's arrays. Every cycle pays for this, so models are built later."""

    evaluated: int = 0
    feasible: int = 0
    message: str = ""
    rejected: Sequence[Rejected] = ()
    best: Best | None = None


class Decision:
    """One scheduling attempt in progress."""

    def __init__(
        self, pod: Pod, profile: str, started: datetime, weights: dict[str, int], *, pod_bytes: int = 4096
    ) -> None:
        """`pod_bytes` is about the length of the pod's JSON text."""
        self.number = 0
        """The sequence number of the attempt in this process."""
        self.size = POD_FACTOR * pod_bytes
        """Bytes, by estimate, until it is condensed."""
        self.pod = pod
        """The pod; once the decision is condensed only its identity, see `remembered_pod`."""
        self.profile = profile
        self.started = started
        self.weights = weights
        self.outcome: FilterOutcome | None = None
        self.scores: Scores | None = None
        self.state: CycleState | None = None
        """The cycle state of the attempt; None once it has ended."""
        self.result: Outcome = "filtered"
        self.node = ""
        self.message = ""
        self.chosen_by = "kube-scheduler"
        self.chosen = ""
        """The only node that filter returned to kube-scheduler; empty if koordpy did not choose."""
        self.evaluated_for = ""
        self.allocated_reservation = ""
        self.remarks: Sequence[str] = ()
        self.milliseconds: dict[str, float] = {}
        self._condensed: _Facts | None = None
        self._tell: Listener = _ignore

    @property
    def reservation(self) -> str:
        """The name of the Reservation to be placed; empty for a pod."""
        return reservation_name_of(self.pod) if is_reserve_pod(self.pod) else ""

    def become(self, result: Outcome, node: str = "") -> None:
        """Record the progress of the attempt, and its node if there is one."""
        self.result = result
        self.node = node or self.node
        self._tell(self, result)
        if result in ENDS:
            self.state = None

    def bound(self, node: str, annotations: Mapping[str, str], remarks: Sequence[str] = ()) -> None:
        """Record that the pod is bound with these annotations, and what plugins remark."""
        self.allocated_reservation = allocated_name(annotations)
        self.remarks = tuple(cut(remark) for remark in remarks[:MOST_REMARKS])
        self.become("bound", node)

    def fail(self, result: Outcome, status: Status) -> None:
        """Record how the attempt ended without a binding."""
        self.message = f"{status.plugin}: {status.message}" if status.plugin else status.message
        self.become(result)

    def scored(self, scores: Scores) -> None:
        """Record the scores of the feasible nodes."""
        self.scores = scores
        self._tell(self, "scored")

    def listened_to(self, listener: Listener) -> None:
        """Call a listener at each step from now on."""
        self._tell = listener

    def took(self, verb: str, seconds: float) -> None:
        """Record how long a verb took."""
        self.milliseconds[verb] = round(seconds * 1000, 3)

    def condense(self) -> None:
        """Drop the pod and the arrays, keeping what will be shown of them."""
        self._condensed = self._facts()
        self.outcome = self.scores = self.state = None
        self.pod = remembered(self.pod)
        self.message = cut(self.message)

    def _facts(self) -> _Facts:
        if self._condensed is not None:
            return self._condensed
        outcome = self.outcome
        if outcome is None:
            return _Facts()
        return _Facts(
            len(outcome.nodes),
            int(np.count_nonzero(outcome.feasible)),
            cut(outcome.message()) if self.result == "unschedulable" else "",
            list(islice(rejected(outcome), MOST_REJECTIONS)),
            Best.of(self.scores, chosen=self.chosen) if self.scores is not None else None,
        )

    def model(self) -> DecisionModel:
        """Return the explanation."""
        meta, facts = self.pod.metadata, self._facts()
        return DecisionModel(
            namespace=meta.namespace,
            pod=meta.name,
            uid=meta.uid,
            profile=self.profile,
            started=format_micro_time(self.started),
            outcome=self.result,
            node=self.node,
            message=self.message or facts.message,
            evaluated_nodes=facts.evaluated,
            feasible_nodes=facts.feasible,
            rejections=rejections(facts.rejected),
            weights=self.weights,
            top_nodes=facts.best.models() if facts.best is not None else [],
            chosen_by=self.chosen_by,
            evaluated_for=self.evaluated_for,
            reservation=self.reservation,
            allocated_reservation=self.allocated_reservation,
            remarks=list(self.remarks),
            milliseconds=self.milliseconds,
        )


class Decisions:
    """The last attempts of a process, newest last."""

    def __init__(self, kept: int = KEPT) -> None:
        self._decisions: deque[Decision] = deque(maxlen=kept)
        self._in_full: deque[Decision] = deque()
        self._budget = ByteBudget("decisions", MAX_BYTES)
        self._listeners: tuple[Listener, ...] = ()
        self._keeping = 0
        """The listeners that may keep decisions that have ended."""
        self._begun = 0

    def listen(self, listener: Listener, *, keeps: bool = False) -> Callable[[], None]:
        """Call a listener at every step of every attempt; return a function that removes it.

        `keeps` says that it may keep decisions that have ended, so that they must not keep their arrays.
        """
        self._listeners = (*self._listeners, listener)
        self._keeping += keeps

        def end() -> None:
            left = tuple(other for other in self._listeners if other is not listener)
            if len(left) < len(self._listeners):
                self._listeners = left
                self._keeping -= keeps

        return end

    def begin(self, decision: Decision) -> None:
        """Remember a new attempt, forgetting the oldest."""
        self._begun += 1
        decision.number = self._begun
        decision.listened_to(self._tell)
        self._decisions.append(decision)
        self._in_full.append(decision)
        self._budget.add(decision.size)
        self._tidy_if_urgent()
        self._tell(decision, "begun")

    def _tell(self, decision: Decision, step: Step) -> None:
        for listener in self._listeners:
            try:
                listener(decision, step)
            except Exception:
                log.exception("a listener raised at step %s of pod %s", step, decision.pod.metadata.key)

    def filtered(self, decision: Decision, outcome: FilterOutcome, state: CycleState | None = None) -> None:
        """Record the result of an attempt's filters, and its cycle state."""
        decision.outcome, decision.state = outcome, state
        if decision.number and not decision.evaluated_for:  # else the arrays are another attempt's
            arrays = NODE_BYTES * len(outcome.nodes)
            decision.size += arrays
            self._budget.add(arrays, entries=0)
        self._tidy_if_urgent()
        self._tell(decision, "filtered")

    def _tidy_if_urgent(self) -> None:
        most = self._decisions.maxlen or 1
        if self._budget.held > 2 * self._budget.limit or len(self._in_full) > 2 * most:
            self.tidy()

    def tidy(self) -> None:
        """Reduce old attempts, but not the latest, to what is shown; call it when no request is waiting."""
        most = self._decisions.maxlen or 0
        while len(self._in_full) > 1 and (self._budget.is_exceeded or len(self._in_full) > most):
            decision = self._in_full.popleft()
            self._budget.remove(decision.size)
            is_forgotten = len(self._in_full) >= most
            if not is_forgotten or self._keeping or decision.result not in ENDS:
                decision.condense()  # else nothing refers to it any more

    def recent(
        self, limit: int = 50, wanted: Callable[[Decision], bool] = lambda _: True
    ) -> list[DecisionModel]:
        """Return the latest matching attempts, newest first."""
        newest = (decision for decision in reversed(self._decisions) if wanted(decision))
        return [decision.model() for decision in islice(newest, max(limit, 0))]

    def of(self, namespace: str, name: str) -> list[DecisionModel]:
        """Return the remembered attempts of one pod, newest first; empty when there are none."""
        return [
            decision.model()
            for decision in reversed(self._decisions)
            if decision.pod.metadata.name == name and decision.pod.metadata.namespace == namespace
        ]


def _ignore(decision: Decision, step: Step) -> None:
    """Ignore all steps."""
