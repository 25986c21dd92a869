import pytest

from bench import report
from bench.provenance import Provenance
from bench.report import Result


def result(commit: str = "a" * 40, **columns: str) -> Result:
    found = Result.begin("example", **columns)
    found.sources = Provenance(commit)
    return found


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([0.4567], "0.457"),
        ([2.0, 1.0, 4.0], "2 (1 to 4)"),
        ([1234.5, 999.4], "1,117 (999 to 1,234)"),
    ],
)
def test_a_cell_shows_median_and_range(values: list[float], text: str) -> None:
    assert report.shown(values) == text


def test_rows_of_one_label_collect_rounds() -> None:
    found = result(rate="pods/s")
    found.row("ours").add(rate=1.0)
    found.row("ours").add(rate=3.0)
    assert "| ours | 2 (1 to 3) |" in report.table([found])


def test_comparison_column_appears_only_with_comparisons() -> None:
    found = result(rate="pods/s")
    found.row("ours").add(rate=1.0)
    assert "for comparison" not in report.table([found])
    found.row("theirs", "a rival: 2/s").add(rate=1.0)
    assert "| theirs | 1 | a rival: 2/s |" in report.table([found])


def test_a_run_has_its_commit_machine_and_time() -> None:
    found = result(rate="pods/s")
    found.row("ours").add(rate=1.0)
    heading = report.table([found]).splitlines()[0]
    assert heading == f"{found.about}. Cells: median (range)."
    assert found.about.startswith(f"`aaaaaaaaa`, {found.date}, ")
    assert f"{found.machine.cores} cores" in found.about
    assert f"Python {found.machine.python}" in found.about
    assert found.about.endswith("; 1 round")


def test_every_run_has_a_line_for_each_of_its_rows() -> None:
    runs = [result(commit, rate="pods/s") for commit in ("a" * 40, "b" * 40, "")]
    for value, run in enumerate(runs, 1):
        run.row("ours", f"goal {value}").add(rate=value)
    runs[1].row("gone").add(rate=9.0)
    lines = report.table(runs).splitlines()
    assert [line.partition(",")[0] for line in lines[2:5]] == [
        "1. `aaaaaaaaa`",
        "2. `bbbbbbbbb`",
        "3. commit unknown",
    ]
    assert lines[-4:] == [
        "| ours | 1 | 1 | goal 1 |",
        "| ours | 2 | 2 | goal 1 |",
        "| ours | 3 | 3 | goal 1 |",
        "| gone | 2 | 9 |  |",
    ]
