"""What a decision shows of a pod that is bound."""

import io
from datetime import UTC, datetime

from rich.console import Console

from koordpy.commands.why import show
from koordpy.scheduling.explain.decisions import MOST_REMARKS, Decision
from koordpy.testing.objects import pod


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
