"""How `koordpy why` prints attempts."""

import io
from typing import Any

import pytest
from rich.console import Console

from koordpy.commands import why

ATTEMPT: dict[str, Any] = {
    "namespace": "default",
    "pod": "web",
    "profile": "default-scheduler",
    "outcome": "bound",
    "node": "n1",
    "message": "",
    "allocatedReservation": "",
    "evaluatedNodes": 3,
    "feasibleNodes": 3,
    "rejections": [],
    "topNodes": [],
    "evaluatedFor": "",
    "milliseconds": {},
    "started": "2026-11-28T23:36:31.976992Z",
}


@pytest.mark.parametrize(("outcome", "said"), [("bound", "bound to n1"), ("failed", "failed on n1")])
def test_an_outcome_names_its_node(outcome: str, said: str) -> None:
    out = io.StringIO()
    why.show(Console(file=out, width=200, color_system=None), [{**ATTEMPT, "outcome": outcome}])
    assert out.getvalue().splitlines()[0] == f"  pod default/web (profile default-scheduler): {said}"
