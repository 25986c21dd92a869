"""Tables and plots of results."""

import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from koordpy.simulation import page, plots, report, simulation
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
    assert document["results"][0]["speedUp"] > 1
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
    for shown in ("small on 3 nodes, seed 0", "cpu, % of all nodes", "pods with a node", "one"):
        assert f"<!-- {shown} -->" in text


def test_panels_in_which_nothing_happens_are_left_out(results: list[Result], tmp_path: Path) -> None:
    plots.draw(results, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert results[0].hot.nodes == results[0].pending_seconds.max == 0
    for flat in ("hot nodes", "pods without a node", "pods that had a node within a time", "evicted"):
        assert f"<!-- {flat}" not in text


def test_waiting_is_shown_by_workload(tmp_path: Path) -> None:
    batch, web = (
        {
            "name": name,
            "pods": {"count": 8, "duration": "10m", "requests": {"cpu": 2, "memory": "1Gi"}},
        }
        for name in ("batch", "web")
    )
    told = load(tmp_path, workloads=[batch, web])
    waited = [simulation.simulate(told, told.schedulers[0], tmp_path)]
    plots.draw(waited, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    for shown in ("time to a node by workload", "batch", "web", "pods that had a node within a time"):
        assert f"<!-- {shown}" in text


def test_a_page_needs_no_other_file_and_no_request(results: list[Result], tmp_path: Path) -> None:
    page.write(results, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert text.startswith("<!doctype html>")
    assert text.count("<svg ") >= 3
    for needed in ("<table>", "<th>other</th>", "color-scheme: light dark", "viewport"):
        assert needed in text
    for foreign in ("<script", "<link", "<img", "@import", "src=", "<?xml", "<metadata"):
        assert foreign not in text
    links = set(re.findall(r"(?:href|url)[=(]['\"]?([^'\" )>]+)", text))
    assert all(link.startswith("#") for link in links)


def test_what_users_write_is_escaped_in_a_page(results: list[Result], tmp_path: Path) -> None:
    result = msgspec.structs.replace(results[0], scenario="<b>", problems=["<script>"])
    page.write([result], tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert "<b></h1>" not in text
    assert "&lt;script&gt;" in text


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
