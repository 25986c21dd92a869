"""The last rounds of the descheduler, with each plugin's decisions: every eviction can be explained.

The models are plain JSON data: debug endpoints and the console show them unchanged. What all rounds hold is
bounded in bytes.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import count
from typing import Final

from pydantic import BaseModel, SerializeAsAny

from koordpy.api.core import Pod
from koordpy.api.output_model import OutputModel
from koordpy.descheduling.report import Report, held_bytes
from koordpy.lib.byte_budget import ByteBudget

from .candidates import LONGEST_REASON, Candidate, Candidates, NotEvictedCount, Reason

KEPT_ROUNDS = 20
"""The last rounds, whatever happened in them."""

KEPT_WITH_ATTEMPTS: Final = 100
"""Earlier rounds with attempts to evict a pod."""

_ALWAYS_KEPT: Final = 3
"""The last rounds, which earlier ones with attempts do not displace while memory is short."""

MAX_BYTES: Final = 48 << 20
"""The budget of all rounds."""

MOST_ATTEMPTS: Final = 2000
"""Attempts of a run that are kept; the others are counted."""

_RECORD_BYTES: Final = 900
"""Memory of a recorded pod without its texts, by measurement."""


class Outcome(StrEnum):
    """How an attempt to evict a pod ended."""

    EVICTED = "evicted"
    DRY_RUN = "dryRun"
    """The pod would have been evicted; counted against the limits."""
    LIMITED = "limited"
    REFUSED = "refused"
    """The evict plugin, or the API server behind it, did not evict the pod."""
    UNPROVED = "unproved"
    """Scheduling would not place the pod on a node where the plugin leaves it alone."""
    RECENTLY_MOVED = "recentlyMoved"
    """The plugin moved the pod within its profile's window, and its node has not changed since."""


class EvictionDecision(OutputModel):
    """One attempt to evict a pod."""

    pod: str
    node: str
    plugin: str
    reason: str
    outcome: Outcome
    detail: str = ""
    """Why it was not evicted: the limit that stopped it, why the eviction could not be proved, or the evict
    plugin's or API server's reason."""
    target: str = ""
    """The node that the proof named."""


class OutcomeCount(OutputModel):
    """How many attempts of a run ended so."""

    outcome: Outcome
    pods: int


class PluginRun(OutputModel):
    """One plugin at one point in one round."""

    profile: str
    plugin: str
    point: str
    nodes: int
    error: str = ""
    evictions: list[EvictionDecision] = []
    """The first attempts; `attempts` counts all."""
    attempts: list[OutcomeCount] = []
    not_evicted: list[Candidate] = []
    """Some of the candidates that the plugin did not try to evict; `not_evicted_counts` counts all."""
    not_evicted_counts: list[NotEvictedCount] = []
    details: list[SerializeAsAny[BaseModel]] = []
    """The plugin's own report."""

    def held_bytes(self) -> int:
        """Return the memory that the run holds, by estimate."""
        attempts = sum(_RECORD_BYTES + len(item.reason) + len(item.detail) for item in self.evictions)
        others = sum(_RECORD_BYTES + len(item.reason) for item in self.not_evicted)
        reports = sum(
            each.held_bytes() if isinstance(each, Report) else held_bytes(each) for each in self.details
        )
        return _RECORD_BYTES + len(self.error) + attempts + others + reports


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

    @property
    def has_attempts(self) -> bool:
        """Whether the round tried to evict a pod."""
        return any(run.evictions for run in self.runs)


@dataclass(slots=True)
class _Run:
    """A run that is being recorded."""

    record: PluginRun
    candidates: Candidates = field(default_factory=Candidates)
    attempts: Counter[Outcome] = field(default_factory=Counter)


class Decisions:
    """Keeps the last rounds, and earlier ones with attempts; the framework records here while a round runs.

    `keep`, `keep_with_attempts` and `max_bytes` bound the finished rounds; the last one stays, whatever its
    size.
    """

    def __init__(
        self,
        keep: int = KEPT_ROUNDS,
        max_bytes: int = MAX_BYTES,
        *,
        keep_with_attempts: int = KEPT_WITH_ATTEMPTS,
    ) -> None:
        self.rounds: deque[Round] = deque()
        """Oldest first; the last one may still be running."""
        self._keep, self._keep_with_attempts = keep, keep_with_attempts
        self._sizes: deque[int] = deque()
        self._budget = ByteBudget("descheduling rounds", max_bytes)
        self._numbers = count(1)
        self._waiting: set[asyncio.Future[None]] = set()
        # A plugin may run the others from a loop of its own, while a cycle runs: each task has its own run.
        self._run: ContextVar[_Run | None] = ContextVar("run", default=None)

    def begin(self, started: datetime, *, dry_run: bool) -> Round:
        """Start a round."""
        current = Round(number=next(self._numbers), started=started, dry_run=dry_run)
        self.rounds.append(current)
        self._sizes.append(0)
        self._forget()
        return current

    def end(self, current: Round, ended: datetime) -> None:
        """Finish the last round, and forget old ones beyond the bounds."""
        current.ended = ended
        if self.rounds and self.rounds[-1] is current:
            size = sum(run.held_bytes() for run in current.runs)
            self._sizes[-1] = size
            self._budget.add(size)
            self._forget()
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_result(None)

    async def next_end(self, seconds: float) -> bool:
        """Return true when a round ends, false if none does within the time."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            async with asyncio.timeout(seconds):
                await waiting
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(waiting)
        return True

    def _forget(self) -> None:
        while (found := self._superfluous()) is not None:
            del self.rounds[found]
            self._budget.remove(self._sizes[found])
            del self._sizes[found]

    def _superfluous(self) -> int | None:
        """Return the position of a round to forget: the oldest without attempts, else the oldest."""
        quiet = (at for at, each in enumerate(self.rounds) if not each.has_attempts)
        first = next(quiet, len(self.rounds))
        if first < len(self.rounds) - self._keep:
            return first
        if len(self.rounds) > self._keep + self._keep_with_attempts:
            return 0
        if self._budget.is_exceeded and len(self.rounds) > 1:
            return first if first < len(self.rounds) - _ALWAYS_KEPT else 0
        return None

    def begin_run(self, run: PluginRun) -> None:
        """Start a plugin's run in the current round; between two rounds it belongs to none."""
        if self.rounds and self.rounds[-1].ended is None:
            self.rounds[-1].runs.append(run)
        self._run.set(_Run(run))

    def end_run(self) -> None:
        """Finish the record of the current run."""
        if (run := self._run.get()) is None:
            return
        self._run.set(None)
        run.record.attempts = [
            OutcomeCount(outcome=outcome, pods=pods) for outcome, pods in run.attempts.most_common()
        ]
        run.record.not_evicted = run.candidates.named
        run.record.not_evicted_counts = run.candidates.counts()

    def report(self, details: BaseModel) -> None:
        """Record the running plugin's own report; dropped outside a run."""
        if (run := self._run.get()) is not None:
            run.record.details.append(details)

    def evicting(self, decision: EvictionDecision) -> None:
        """Record an attempt of the running plugin; dropped outside a run."""
        if (run := self._run.get()) is None:
            return
        run.attempts[decision.outcome] += 1
        if len(run.record.evictions) < MOST_ATTEMPTS:
            decision.reason, decision.detail = (
                decision.reason[:LONGEST_REASON],
                decision.detail[:LONGEST_REASON],
            )
            run.record.evictions.append(decision)

    def filtered(self, pod: Pod, by: str, reason: Callable[[Pod], str | None]) -> None:
        """Record a candidate of the running plugin that a filter plugin refuses; dropped outside a run."""
        if (run := self._run.get()) is not None:
            run.candidates.filtered(pod, by, reason)

    def skipped(self, pods: Sequence[Pod], by: str, reason: Reason) -> None:
        """Record candidates that the running plugin does not try to evict; dropped outside a run."""
        if (run := self._run.get()) is not None:
            run.candidates.skipped(pods, by, reason)
