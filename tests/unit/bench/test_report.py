import msgspec
import pytest

from bench import report
from bench.report import Result


def result(**columns):
    return Result.begin("example", **columns)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        ([0.4567], "0.457"),
        ([2.0, 1.0, 4.0], "2 (1 to 4)"),
        ([1234.5, 999.4], "1,117 (999 to 1,234)"),
    ],
)
def test_a_cell_shows_median_and_range(values, text):
    assert report.shown(values) == text


def test_rows_of_one_label_collect_rounds():
    found = result(rate="pods/s")
    found.row("ours").add(rate=1.0)
    found.row("ours").add(rate=3.0)
    assert "| ours | 2 (1 to 3) |" in found.markdown()


def test_comparison_column_appears_only_with_comparisons():
    found = result(rate="pods/s")
    found.row("ours").add(rate=1.0)
    assert "for comparison" not in found.markdown()
    found.row("theirs", "a rival: 2/s").add(rate=1.0)
    assert "| theirs | 1 | a rival: 2/s |" in found.markdown()


def test_saving_puts_the_table_between_its_marks(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench:example -->\nold\n<!-- end:example -->\nafter\n")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    found = result(rate="pods/s")
    found.row("ours").add(rate=1.0)
    found.save()
    text = page.read_text()
    assert text.startswith("before\n<!-- bench:example -->\n")
    assert text.endswith("\n<!-- end:example -->\nafter\n")
    assert found.markdown() in text
    assert "old" not in text


def test_a_page_without_a_place_is_an_error(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "RESULTS", tmp_path / "results")
    with pytest.raises(ValueError, match="bench:example"):
        result(rate="pods/s").save()


def test_tables_in_the_documentation_are_those_of_the_results():
    page = report.PAGE.read_text(encoding="utf-8")
    files = sorted(report.RESULTS.glob("*.json"))
    assert files
    for file in files:
        assert msgspec.json.decode(file.read_bytes(), type=Result).markdown() in page, file.name
