"""What a decision shows of a pod that is bound."""

import io
from datetime import UTC, datetime

import numpy as np
import pytest
from rich.console import Console

from koordpy.commands.why import show
from koordpy.scheduling.explain.decision_stream import DecisionStreams
from koordpy.scheduling.explain.decisions import KEPT, MOST_REMARKS, Decision, Decisions
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.testing.objects import pod
from tests.unit.scheduling.worlds import node, world


def test_remarks_of_plugins_are_shown_and_bounded() -> None:
    decision = Decision(pod("p"), "default-scheduler", datetime(2026, 3, 1, tzinfo=UTC), {})
    long = "x" * 5000
    decision.bound("n", {}, ["FGD chose GPU 3", long, *map(str, range(100))])
    decision.condense()
    found = decision.model()
    assert found.remarks[0] == "FGD chose GPU 3"
    assert len(found.remarks[1]) < len(long)
    assert len(found.remarks) == MOST_REMARKS
    to = Console(file=io.StringIO(), record=True, width=200)
    show(to, [found.model_dump(mode="json", by_alias=True)])
    assert "  FGD chose GPU 3\n" in to.export_text()


@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_still_holds_forgotten_attempts_does_not_hold_their_arrays(is_streamed: bool) -> None:
    nodes = world([node("n")]).nodes.all()
    decisions = Decisions()
    if is_streamed:
        DecisionStreams(decisions).open()
    ended, under_way = [
        Decision(pod(name), "default-scheduler", datetime(2026, 3, 1, tzinfo=UTC), {})
        for name in ("ended", "under-way")
    ]
    for decision in (ended, under_way):
        decisions.begin(decision)
        decisions.filtered(decision, FilterOutcome(nodes, np.ones(1, np.bool_)))
    ended.become("bound", "n")
    for i in range(KEPT):
        decisions.begin(Decision(pod(f"p{i}"), "default-scheduler", ended.started, {}))
        decisions.tidy()
    assert under_way.outcome is None
    assert (ended.outcome is None) == is_streamed  # else nothing holds it
    assert under_way.model().feasible_nodes == ended.model().feasible_nodes == 1
