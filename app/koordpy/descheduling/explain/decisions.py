"""The last rounds of the descheduler, with each plugin's decisions: every eviction can be explained.

The models are plain JSON data: debug endpoints and the console show them unchanged.
"""

from collections import deque
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from itertools import count

from pydantic import BaseModel, SerializeAsAny

from koordpy.api.output_model import OutputModel

KEPT_ROUNDS = 20


class Outcome(StrEnum):
    """How an attempt to evict a pod ended."""

    EVICTED = "evicted"
    DRY_RUN = "dryRun"
    """The pod would have been evicted; counted against the limits."""
    LIMITED = "limited"
    REFUSED = "refused"
    """The evict plugin, or the API server behind it, did not evict the pod."""


class EvictionDecision(OutputModel):
    """One attempt to evict a pod."""

    pod: str
    node: str
    plugin: str
    reason: str
    outcome: Outcome
    detail: str = ""
    """The limit that stopped it."""


class PluginRun(OutputModel):
    """One plugin at one point in one round."""

    profile: str
    plugin: str
    point: str
    nodes: int
    error: str = ""
    evictions: list[EvictionDecision] = []
    details: list[SerializeAsAny[BaseModel]] = []
    """The plugin's own report."""


class Round(OutputModel):
    """One cycle."""

    number: int
    started: datetime
    ended: datetime | None = None
    dry_run: bool = False
    nodes: int = 0
    """The number of ready nodes in the cycle."""
    error: str = ""
    """Why the cycle did not run, or the errors of its plugins."""
    runs: list[PluginRun] = []

    @property
    def evictions(self) -> list[EvictionDecision]:
        """All attempts of the round in order."""
        return [eviction for run in self.runs for eviction in run.evictions]


class Decisions:
    """Keeps the last rounds; the framework records here while a round runs."""

    def __init__(self, keep: int = KEPT_ROUNDS) -> None:
        self.rounds: deque[Round] = deque(maxlen=keep)
        """Oldest first; the last one may still be running."""
        self._numbers = count(1)
        # A plugin may run the others from a loop of its own, while a cycle runs: each task has its own run.
        self._run: ContextVar[PluginRun | None] = ContextVar("run", default=None)

    def begin(self, started: datetime, *, dry_run: bool) -> Round:
        """Start a round."""
        current = Round(number=next(self._numbers), started=started, dry_run=dry_run)
        self.rounds.append(current)
        return current

    def begin_run(self, run: PluginRun) -> None:
        """Start a plugin's run in the current round; between two rounds it belongs to none."""
        if self.rounds and self.rounds[-1].ended is None:
            self.rounds[-1].runs.append(run)
        self._run.set(run)

    def end_run(self) -> None:
        """Stop adding to the current run."""
        self._run.set(None)

    def report(self, details: BaseModel) -> None:
        """Record the running plugin's own report; dropped outside a run."""
        if (run := self._run.get()) is not None:
            run.details.append(details)

    def evicting(self, decision: EvictionDecision) -> None:
        """Record an attempt of the running plugin; dropped outside a run."""
        if (run := self._run.get()) is not None:
            run.evictions.append(decision)
