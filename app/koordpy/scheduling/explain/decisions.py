"""Why a pod went where it went: the last scheduling attempts, explained on demand.

Recording keeps references to what the attempt worked out anyway; words and tables are made when somebody
asks, so a cycle pays next to nothing for being explainable.

Whoever wants to follow attempts (streams, the monitor, debug tables) listens here: each is told what happens
to an attempt, step by step, while it happens.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Literal, get_args

from pydantic import BaseModel

from koordpy.api.core import Pod
from koordpy.api.meta import format_micro_time
from koordpy.api.reservation_annotations import allocated_name
from koordpy.api.reserve_pod import is_reserve_pod, reservation_name_of
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores
from koordpy.scheduling.interface.status import Status

from .explained import Best, NodeScore, Rejected, Rejection, rejected, rejections

log = logging.getLogger(__name__)

Outcome = Literal["filtered", "unschedulable", "error", "binding", "waiting", "bound", "failed", "superseded"]
"""How far an attempt has come. `filtered`: nodes were found, and kube-scheduler has not asked for one yet."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

ENDS: frozenset[str] = frozenset(("unschedulable", "error", "bound", "failed", "superseded"))
"""Outcomes after which nothing more happens to an attempt."""

Step = Literal["begun", "scored"] | Outcome
"""What happens to an attempt. `filtered` is told whenever filters have run; what that means follows."""

Listener = Callable[["Decision", Step], None]
"""Told of steps while they happen. It must be quick, and keep no decision for long that has ended."""

KEPT = 200
"""Attempts that are remembered by default."""

NODES_IN_FULL = 500_000
"""Nodes of attempts whose arrays are kept, some 60 bytes each; older attempts are cut down to what is shown
of them. That takes time, and at a few hundred nodes an attempt is forgotten before its turn comes."""


class DecisionModel(BaseModel):
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
    """The best of the nodes that were looked at. The chosen one comes last if it is none of them."""
    chosen_by: str
    """Who chose among the nodes that fit: kube-scheduler, which adds scores of its own, or koordpy."""
    evaluated_for: str
    """The pod of the same signature for which the nodes were evaluated; empty for this one."""
    reservation: str
    """The Reservation that is to be placed, whose UID is the pod's name; empty for a pod."""
    allocated_reservation: str
    """The Reservation whose resources the pod was bound with; empty for none."""
    milliseconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is kept of an attempt's arrays. Every cycle pays for this, so models are made later."""

    evaluated: int = 0
    feasible: int = 0
    message: str = ""
    rejected: Sequence[Rejected] = ()
    best: Best | None = None


class Decision:
    """One scheduling attempt, as it goes on."""

    def __init__(self, pod: Pod, profile: str, started: datetime, weights: dict[str, int]) -> None:
        self.number = 0
        """How many attempts of the process have begun until this one."""
        self.pod = pod
        self.profile = profile
        self.started = started
        self.weights = weights
        self.outcome: FilterOutcome | None = None
        self.scores: Scores | None = None
        self.state: CycleState | None = None
        """What plugins remember of the attempt; None when it has ended."""
        self.result: Outcome = "filtered"
        self.node = ""
        self.message = ""
        self.chosen_by = "kube-scheduler"
        self.chosen = ""
        """The node that koordpy named as the only one to kube-scheduler; empty where it did not."""
        self.evaluated_for = ""
        self.allocated_reservation = ""
        self.milliseconds: dict[str, float] = {}
        self._condensed: _Facts | None = None
        self._tell: Listener = _nobody

    @property
    def reservation(self) -> str:
        """The name of the Reservation that is to be placed; empty for a pod."""
        return reservation_name_of(self.pod) if is_reserve_pod(self.pod) else ""

    def become(self, result: Outcome, node: str = "") -> None:
        """Note how far the attempt has come, and with which node where there is one."""
        self.result = result
        self.node = node or self.node
        self._tell(self, result)
        if result in ENDS:
            self.state = None

    def bound(self, node: str, annotations: Mapping[str, str]) -> None:
        """Note that the pod is bound, with these annotations."""
        self.allocated_reservation = allocated_name(annotations)
        self.become("bound", node)

    def fail(self, result: Outcome, status: Status) -> None:
        """Note how the attempt ended without a binding."""
        self.message = f"{status.plugin}: {status.message}" if status.plugin else status.message
        self.become(result)

    def scored(self, scores: Scores) -> None:
        """Note the scores of the nodes that are left."""
        self.scores = scores
        self._tell(self, "scored")

    def listened_to(self, listener: Listener) -> None:
        """Tell a listener what happens from now on."""
        self._tell = listener

    def took(self, verb: str, seconds: float) -> None:
        """Note how long a verb took."""
        self.milliseconds[verb] = round(seconds * 1000, 3)

    def condense(self) -> None:
        """Let go of the arrays, keeping what will be shown of them."""
        self._condensed = self._facts()
        self.outcome = self.scores = self.state = None

    def _facts(self) -> _Facts:
        if self._condensed is not None:
            return self._condensed
        outcome = self.outcome
        if outcome is None:
            return _Facts()
        return _Facts(
            len(outcome.nodes),
            int(outcome.feasible.sum()),
            outcome.message() if self.result == "unschedulable" else "",
            list(rejected(outcome)),
            Best.of(self.scores, chosen=self.chosen) if self.scores is not None else None,
        )

    def model(self) -> DecisionModel:
        """Explain."""
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
            milliseconds=self.milliseconds,
        )


class Decisions:
    """The last attempts of a process, newest last."""

    def __init__(self, kept: int = KEPT) -> None:
        self._decisions: deque[Decision] = deque(maxlen=kept)
        self._in_full: deque[tuple[Decision, int]] = deque()
        self._nodes_in_full = 0
        self._listeners: tuple[Listener, ...] = ()
        self._begun = 0

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell a listener of every step of every attempt; return what ends that."""
        self._listeners = (*self._listeners, listener)

        def end() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return end

    def begin(self, decision: Decision) -> None:
        """Remember a new attempt, forgetting the oldest."""
        self._begun += 1
        decision.number = self._begun
        decision.listened_to(self._tell)
        self._decisions.append(decision)
        self._tell(decision, "begun")

    def _tell(self, decision: Decision, step: Step) -> None:
        for listener in self._listeners:
            try:
                listener(decision, step)
            except Exception:
                log.exception("a listener broke at step %s of pod %s", step, decision.pod.metadata.key)

    def filtered(self, decision: Decision, outcome: FilterOutcome, state: CycleState | None = None) -> None:
        """Note what the filters of an attempt came to, and what its plugins remember."""
        decision.outcome, decision.state = outcome, state
        nodes = 0 if decision.evaluated_for else len(outcome.nodes)  # another attempt's arrays
        self._in_full.append((decision, nodes))
        self._nodes_in_full += nodes
        if self._nodes_in_full > 2 * NODES_IN_FULL or len(self._in_full) > 2 * (self._decisions.maxlen or 1):
            self.tidy()
        self._tell(decision, "filtered")

    def tidy(self) -> None:
        """Cut old attempts down to size; call it when nobody is waiting."""
        most = self._decisions.maxlen or 0
        while self._in_full and (self._nodes_in_full > NODES_IN_FULL or len(self._in_full) > most):
            decision, nodes = self._in_full.popleft()
            self._nodes_in_full -= nodes
            if len(self._in_full) < most:
                decision.condense()

    def recent(
        self, limit: int = 50, wanted: Callable[[Decision], bool] = lambda _: True
    ) -> list[DecisionModel]:
        """Return the latest attempts, newest first, of those that are wanted."""
        newest = (decision for decision in reversed(self._decisions) if wanted(decision))
        return [decision.model() for decision in islice(newest, max(limit, 0))]

    def of(self, namespace: str, name: str) -> list[DecisionModel]:
        """Return the remembered attempts of one pod, newest first; empty when there are none."""
        return [
            decision.model()
            for decision in reversed(self._decisions)
            if decision.pod.metadata.name == name and decision.pod.metadata.namespace == namespace
        ]


def _nobody(decision: Decision, step: Step) -> None:
    """Listen to nothing."""
