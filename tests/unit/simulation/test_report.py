"""Tables and plots of results."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from koordpy.simulation import plots, report, simulation
from koordpy.simulation.result import Result, Spread

from .scenarios import load


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    folder = tmp_path_factory.mktemp("scenario")
    schedulers: list[dict[str, Any]] = [
        {"name": name, "koordpy": False, "webhooks": False, "controllers": []} for name in ("one", "other")
    ]
    told = load(folder, schedulers=schedulers)
    return [simulation.simulate(told, setup, folder) for setup in told.schedulers]


def test_tables_have_a_column_for_each_scheduler(results: list[Result]) -> None:
    to = Console(record=True, width=200, file=io.StringIO())
    report.show(to, results)
    lines = to.export_text().splitlines()
    [heading] = [line for line in lines if line.split()[:2] == ["created", "10"]]
    assert heading.split() == ["created", "10", "10"]
    assert sum(line.split() == ["one", "other"] for line in lines) == 4
    assert any(line.startswith("cpu requested") for line in lines)


def test_the_document_is_plain_and_lists_placements_only_on_request(results: list[Result]) -> None:
    document = json.loads(json.dumps(report.document(results)))
    assert [result["scheduler"] for result in document["results"]] == ["one", "other"]
    assert "placements" not in document["results"][0]
    assert document["results"][0]["speed_up"] > 1
    whole = report.document(results, placements=True)
    assert len(whole["results"][1]["placements"]) == 10


@pytest.mark.parametrize(("name", "begin"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_plots_are_files_of_their_format(
    results: list[Result], tmp_path: Path, name: str, begin: bytes
) -> None:
    plots.draw(results, tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert data.startswith(begin)
    assert len(data) > 10_000


def test_an_svg_names_what_it_shows(results: list[Result], tmp_path: Path) -> None:
    plots.draw(results[:1], tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for shown in ("small on 3 nodes, seed 0", "cpu, % of all nodes", "pods without a node", "one"):
        assert f"<!-- {shown} -->" in text


def test_a_plot_of_another_format_is_refused() -> None:
    with pytest.raises(plots.PlotError, match=r"expected a name that ends in \.png or \.svg"):
        plots.check(Path("a.gif"))


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(plots.PlotError, match=r"pip install 'koordpy\[plots\]'"):
        plots.check(Path("a.png"))


def test_a_spread_of_nothing_is_zero() -> None:
    assert Spread.of([]) == Spread()
    assert Spread.of([1.0, 2.0, 9.0]) == Spread(4.0, 2.0, 9.0, 9.0)
