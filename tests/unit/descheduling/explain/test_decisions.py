"""The record of rounds: bounded in number and bytes, whatever the rounds contain."""

from datetime import UTC, datetime

from pydantic import BaseModel

from koordpy.api.core import Pod, PodSpec
from koordpy.api.meta import ObjectMeta
from koordpy.descheduling.explain.decisions import (
    MOST_ATTEMPTS,
    Decisions,
    EvictionDecision,
    Outcome,
    PluginRun,
    Round,
)
from koordpy.descheduling.explain.extracts import eventful
from koordpy.descheduling.report import Report
from koordpy.lib import byte_budget

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Sized(Report):
    size: int

    def held_bytes(self) -> int:
        return self.size


class Plain(BaseModel):
    text: str


def attempt(name: str, outcome: Outcome = Outcome.LIMITED) -> EvictionDecision:
    return EvictionDecision(pod=f"a/{name}", node="n1", plugin="P", reason="r", outcome=outcome)


def record(decisions: Decisions, *details: BaseModel, attempts: int = 0) -> Round:
    current = decisions.begin(NOW, dry_run=False)
    decisions.begin_run(PluginRun(profile="p", plugin="P", point="Balance", nodes=2))
    for each in details:
        decisions.report(each)
    for number in range(attempts):
        decisions.evicting(attempt(str(number)))
    decisions.end_run()
    decisions.end(current, NOW)
    return current


def numbers(decisions: Decisions) -> list[int]:
    return [item.number for item in decisions.rounds]


def test_old_rounds_go_when_the_bytes_are_used_up() -> None:
    decisions = Decisions(max_bytes=100_000)
    for size in (30_000, 30_000, 60_000):
        record(decisions, Sized(size=size))
    assert numbers(decisions) == [2, 3]
    record(decisions, Sized(size=500_000))  # the last one stays, whatever its size
    assert numbers(decisions) == [4]
    record(decisions, Plain(text="x" * 1000))
    assert numbers(decisions) == [5]


def test_rounds_with_attempts_are_kept_longer() -> None:
    decisions = Decisions(keep=3, keep_with_attempts=2)
    for attempts in (1, 0, 1, 1, 0, 0, 0, 0):
        record(decisions, attempts=attempts)
    assert numbers(decisions) == [3, 4, 6, 7, 8]


def test_rounds_without_attempts_go_first_when_the_bytes_are_used_up() -> None:
    decisions = Decisions(max_bytes=100_000)
    for attempts in (0, 1, 0, 0, 0, 0):
        record(decisions, Sized(size=23_000), attempts=attempts)
    assert numbers(decisions) == [2, 4, 5, 6]
    record(decisions, Sized(size=60_000))  # the last three stay, even without attempts
    assert numbers(decisions) == [6, 7]


def test_a_story_has_the_newest_round_and_others_with_attempts() -> None:
    decisions = Decisions()
    for attempts in (1, 0, 1, 0, 0):
        record(decisions, attempts=attempts)
    chosen, quiet = eventful(list(decisions.rounds), 2)
    assert ([each.number for each in chosen], quiet) == ([5, 3], 2)


def test_what_rounds_hold_is_among_the_byte_budgets() -> None:
    decisions = Decisions()
    before = byte_budget.usage()["descheduling rounds"].held
    record(decisions, Sized(size=70_000))
    assert byte_budget.usage()["descheduling rounds"].held - before >= 70_000
    for _ in range(30):
        record(decisions, Sized(size=1000))
    assert byte_budget.usage()["descheduling rounds"].held - before < 70_000


def test_attempts_beyond_the_first_ones_are_only_counted() -> None:
    [run] = record(Decisions(), attempts=MOST_ATTEMPTS + 10).runs
    assert len(run.evictions) == MOST_ATTEMPTS
    assert [(item.outcome, item.pods) for item in run.attempts] == [("limited", MOST_ATTEMPTS + 10)]


def test_nothing_is_recorded_outside_a_run() -> None:
    decisions = Decisions()
    current = record(decisions)
    pod = Pod(metadata=ObjectMeta(namespace="a", name="p"), spec=PodSpec(node_name="n1"))
    decisions.skipped((pod,), "P", "r")
    decisions.evicting(attempt("p"))
    assert current.runs[0].not_evicted == []
    assert current.evictions == []
