"""The documentation shows what the kept runs say, and no other figures."""

from pathlib import Path

import pytest

from bench import kept, pages
from bench.extender import PAUSE
from bench.provenance import Provenance
from bench.report import Result, table

NO_MEASUREMENTS = {f"{PAUSE * 1000:g} ms"}
"""What the benchmarks are set to, not what they found."""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    monkeypatch.setattr(kept, "RESULTS", tmp_path)
    for commit, value in (("a" * 40, 4100.0), ("b" * 40, 4383.4)):
        result = Result.begin("example", rate="pods/s")
        result.sources = Provenance(commit)
        result.row("ours, 3 of them").add(rate=value)
        result.row("theirs").add(rate=7.0)
        kept.keep(result)
    return kept.runs("example")


def test_a_table_is_put_between_its_marks(runs: list[Result]) -> None:
    page = "before\n<!-- bench:example -->\nold\n<!-- end:example -->\nafter\n"
    new = pages.rendered(page)
    assert new == f"before\n<!-- bench:example -->\n{table(runs)}\n<!-- end:example -->\nafter\n"
    assert pages.rendered(new) == new


def test_a_figure_is_the_median_of_each_run(runs: list[Result]) -> None:
    page = (
        "<!-- runs:example --><!-- / -->: <!-- figure:example|ours, 3 of them|rate -->1<!-- / --> pods/s, "
        "<!-- figure:example|theirs|rate --><!-- / -->"
    )
    assert pages.rendered(page) == (
        "<!-- runs:example -->`bbbbbbbbb`, `aaaaaaaaa`<!-- / -->: "
        "<!-- figure:example|ours, 3 of them|rate -->4,100 to 4,383<!-- / --> pods/s, "
        "<!-- figure:example|theirs|rate -->7<!-- / -->"
    )


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (
            "<!-- figure:example|theirs|rate --><!-- / -->",
            "neither the table nor the commits of example",
        ),
        (
            "<!-- runs:example --><!-- / --><!-- figure:example|gone|rate --><!-- / -->",
            r"figure:example\|gone\|rate: no kept run has it",
        ),
        ("<!-- runs:other --><!-- / -->", "runs:other: no run is kept"),
    ],
)
def test_a_place_of_nothing_kept_is_an_error(runs: list[Result], page: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        pages.rendered(page)


def test_a_benchmark_that_was_not_run_has_a_place_all_the_same() -> None:
    page = "<!-- bench:never -->\n<!-- end:never -->\n"
    assert pages.rendered(page) == "<!-- bench:never -->\nNo run is kept.\n<!-- end:never -->\n"


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.name)
def test_pages_are_what_the_kept_runs_render(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert pages.rendered(text) == text, "run python -m bench --render"


def test_every_kept_benchmark_has_its_table() -> None:
    text = (pages.ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert kept.names()
    assert [name for name in kept.names() if f"<!-- bench:{name} -->" not in text] == []


def test_measured_figures_in_the_text_come_from_kept_runs() -> None:
    text = (pages.ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert set(pages.loose_figures(text)) <= NO_MEASUREMENTS
    assert list(pages.loose_figures("kept 0.64 of it, 14 to 19 ms, 500 pods/s")) == [
        "0.64",
        "14 to 19 ms",
        "500 pods/s",
    ]
