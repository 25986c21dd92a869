from pathlib import Path

import pytest

from bench import kept
from bench.provenance import Provenance
from bench.report import Result


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def run(commit: str, value: float = 1.0, dirty: bool = False) -> Result:
    result = Result.begin("example", rate="pods/s")
    result.sources = Provenance(commit, dirty)
    result.row("ours").add(rate=value)
    return result


def test_runs_are_read_as_they_were_kept() -> None:
    first, second = run("a", 1.0), run("b", 2.0, dirty=True)
    kept.keep(first)
    kept.keep(second)
    assert kept.runs("example") == [second, first]
    assert kept.names() == ["example"]
    assert kept.runs("other") == []


def test_the_oldest_run_goes_whatever_it_shows() -> None:
    for value in range(5):
        kept.keep(run(str(value), float(-value)))
    assert [found.sources.commit for found in kept.runs("example")] == ["4", "3", "2"]


def test_runs_of_an_unknown_commit_stay_until_one_is_known() -> None:
    kept.keep(run(""))
    kept.keep(run(""))
    assert len(kept.runs("example")) == 2
    kept.keep(run("a"))
    assert [found.sources.commit for found in kept.runs("example")] == ["a"]
