"""What a benchmark found in one run: a table of rows (what was measured) and columns (quantities).

A cell holds the values of all rounds; shown are their median and range. `bench.kept` keeps runs on disk,
`bench.pages` shows them in the documentation.
"""

import statistics
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from bench import machine, provenance
from bench.machine import Machine
from bench.provenance import Provenance


class Row(msgspec.Struct):
    """One line: what was measured, the values of each round by column, and what to compare it with."""

    label: str
    cells: dict[str, list[float]]
    compare: str = ""

    def add(self, **values: float) -> None:
        """Add a round's values."""
        for column, value in values.items():
            self.cells.setdefault(column, []).append(value)


class Result(msgspec.Struct):
    """One run of a benchmark."""

    benchmark: str
    date: str
    """Day and minute, UTC; of runs of an unknown commit the day alone."""
    machine: Machine
    load_average: float
    """Before the benchmark; more than about 0.3 means that others were at work."""
    columns: dict[str, str]
    """Column keys and their headings."""
    rows: list[Row] = []
    notes: list[str] = []
    sources: Provenance = Provenance()

    @classmethod
    def begin(cls, benchmark: str, **columns: str) -> "Result":
        """Begin to collect."""
        return cls(
            benchmark,
            datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
            machine.this(),
            machine.load_average(),
            columns,
            sources=provenance.this(),
        )

    def row(self, label: str, compare: str = "") -> Row:
        """Return the row with a label, adding it at the end when it is new."""
        for row in self.rows:
            if row.label == label:
                return row
        self.rows.append(Row(label, {}, compare))
        return self.rows[-1]

    @property
    def about(self) -> str:
        """What was measured, where and when."""
        rounds = max((len(values) for row in self.rows for values in row.cells.values()), default=0)
        return (
            f"{self.sources}, {self.date}, {self.machine}; load average before: {self.load_average}; "
            f"{rounds} round{'s' if rounds != 1 else ''}"
        )


def table(runs: Sequence[Result]) -> str:
    """Return one table of all runs of a benchmark, the latest first: a line for each row of each run.

    Columns and notes are those of the latest run. There has to be a run.
    """
    latest = runs[0]
    rows = {run: {row.label: row for row in runs[run].rows} for run in range(len(runs))}
    labels = list(dict.fromkeys(label for of_run in rows.values() for label in of_run))
    compares = {row.label: row.compare for run in reversed(runs) for row in run.rows if row.compare}
    several = ["run"] if len(runs) > 1 else []
    with_compare = ["for comparison"] if compares else []
    headings = ["", *several, *latest.columns.values(), *with_compare]
    align = ["---", *["---:" for _ in (*several, *latest.columns)], *["---" for _ in with_compare]]
    lines = [_line(headings), _line(align)]
    for label in labels:
        for run, of_run in rows.items():
            if label in of_run:
                cells = [shown(of_run[label].cells.get(column, [])) for column in latest.columns]
                number = [str(run + 1)] if several else []
                lines.append(
                    _line([label, *number, *cells, *[compares.get(label, "") for _ in with_compare]])
                )
    return "\n".join([*_abouts(runs), "", *lines, *(["", *latest.notes] if latest.notes else [])])


def _abouts(runs: Sequence[Result]) -> Iterable[str]:
    if len(runs) == 1:
        return [f"{runs[0].about}. Cells: median (range)."]
    listed = [f"{number}. {run.about}" for number, run in enumerate(runs, 1)]
    return ["Runs; cells are median (range) of one.", "", *listed]


def shown(values: Sequence[float]) -> str:
    """Return the median and the range of some values."""
    if not values:
        return ""
    low, middle, high = (number(f(values)) for f in (min, statistics.median, max))
    return middle if low == high else f"{middle} ({low} to {high})"


def number(value: float) -> str:
    """Return a value with three digits, or all that it has before the point."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
