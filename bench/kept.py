"""The runs of benchmarks that are kept: `results/NAME.json` holds the last few of one, the latest first.

What goes is decided by age alone, never by what a run shows. Runs of an unknown commit go as soon as there is
one of a known commit.
"""

from pathlib import Path

import msgspec

from bench.report import Result

RESULTS = Path(__file__).parent / "results"

MOST = 3
"""Runs of one benchmark that are kept."""


def names() -> list[str]:
    """Return the benchmarks of which runs are kept."""
    return sorted(file.stem for file in RESULTS.glob("*.json"))


def runs(name: str) -> list[Result]:
    """Return the kept runs of a benchmark, the latest first; none where there are none."""
    try:
        return msgspec.json.decode((RESULTS / f"{name}.json").read_bytes(), type=list[Result])
    except FileNotFoundError:
        return []


def keep(result: Result) -> None:
    """Keep a run, and let go of the oldest ones beyond `MOST`."""
    found = [result, *runs(result.benchmark)]
    if result.sources.commit:
        found = [run for run in found if run.sources.commit]
    text = msgspec.json.format(msgspec.json.encode(found[:MOST]), indent=1)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{result.benchmark}.json").write_bytes(text + b"\n")
