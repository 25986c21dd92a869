"""How rounds of the descheduler are printed."""

from datetime import UTC, datetime
from io import StringIO

from rich.console import Console

from koordpy.commands import descheduling
from koordpy.descheduling.explain.decisions import EvictionDecision, Outcome, PluginRun, Round

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def printed(run: PluginRun, *reports: descheduling.Document) -> str:
    whole = Round(number=1, started=NOW, ended=NOW, nodes=2, runs=[run]).model_dump(
        mode="json", by_alias=True
    )
    whole["runs"][0]["details"] = list(reports)
    to = Console(file=StringIO(), width=200)
    descheduling.show_round(to, whole)
    assert isinstance(to.file, StringIO)
    return to.file.getvalue()


def run(**given: object) -> PluginRun:
    return PluginRun.model_validate(
        {"profile": "p", "plugin": "LowNodeLoad", "point": "Balance", "nodes": 2, **given}
    )


def test_the_node_that_the_proof_named_is_called_that() -> None:
    """The pod may run elsewhere."""
    moved = EvictionDecision(
        pod="a/p", node="n1", plugin="P", reason="r", outcome=Outcome.EVICTED, target="n2"
    )
    assert "evicted a/p of n1, proved for n2: r" in printed(run(evictions=[moved]))


def test_usage_has_units() -> None:
    figures = {
        "nodeClass": "source",
        "usage": {"cpu": 12124, "memory": 9116724431, "pods": 12},
        "high": {"cpu": 10400, "memory": 54975581388},
    }
    pool = {
        "kind": "LowNodeLoadPool",
        "name": "default",
        "outcome": "balanced",
        "abnormal": ["n1"],
        "unmeasured": [],
        "nodes": {"n1": figures},
    }
    assert "cpu 12.1 cores/10.4 cores, memory 8.5 GiB/51.2 GiB" in printed(run(), pool)
    others = {key: {"cpu": 500} for key in ("low", "prodUsage", "prodLow", "prodHigh")}
    node = {
        "kind": "LowNodeLoadNode",
        "pool": "default",
        "outcome": "balanced",
        "abnormal": True,
        "figures": figures | others,
    }
    text = " ".join(printed(run(), node).split())
    assert "cpu 12.1 cores 0.5 cores 10.4 cores" in text
    assert "memory 8.5 GiB 51.2 GiB pods 12" in text
