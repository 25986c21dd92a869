"""Results on disk and in the documentation.

A result is a table: rows are what was measured, columns quantities, a cell the values of all rounds. Shown
are the median and, below it, the range. `docs/performance.md` has a marked place for each table.
"""

import statistics
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import machine
from bench.machine import Machine

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


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
    """What one benchmark found."""

    benchmark: str
    date: str
    machine: Machine
    load_average: float
    """Before the benchmark; more than about 0.3 means that others were at work."""
    columns: dict[str, str]
    """Column keys and their headings."""
    rows: list[Row] = []
    notes: list[str] = []

    @classmethod
    def begin(cls, benchmark: str, **columns: str) -> "Result":
        """Begin to collect."""
        return cls(
            benchmark,
            datetime.now(UTC).strftime("%Y-%m-%d"),
            machine.this(),
            machine.load_average(),
            columns,
        )

    def row(self, label: str, compare: str = "") -> Row:
        """Return the row with a label, adding it at the end when it is new."""
        for row in self.rows:
            if row.label == label:
                return row
        self.rows.append(Row(label, {}, compare))
        return self.rows[-1]

    def save(self) -> None:
        """Write the result's file, and its table into the documentation."""
        RESULTS.mkdir(exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(self), indent=1)
        (RESULTS / f"{self.benchmark}.json").write_bytes(text + b"\n")
        _replace(self.benchmark, self.markdown())

    def markdown(self) -> str:
        """Return the table with its heading line."""
        with_compare = any(row.compare for row in self.rows)
        headings = ["", *self.columns.values(), *(["for comparison"] if with_compare else [])]
        lines = [_line(headings), _line(["---", *["---:"] * len(self.columns), *["---"] * with_compare])]
        for row in self.rows:
            cells = [shown(row.cells.get(column, [])) for column in self.columns]
            lines.append(_line([row.label, *cells, *([row.compare] if with_compare else [])]))
        rounds = max((len(values) for row in self.rows for values in row.cells.values()), default=0)
        about = (
            f"{self.date}, {self.machine}; load average before: {self.load_average}; "
            f"{rounds} round{'s' if rounds != 1 else ''}, median (range)."
        )
        return "\n".join([about, "", *lines, *(["", *self.notes] if self.notes else [])])


def shown(values: list[float]) -> str:
    """Return the median and the range of some values."""
    if not values:
        return ""
    low, middle, high = (_number(f(values)) for f in (min, statistics.median, max))
    return middle if low == high else f"{middle} ({low} to {high})"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _replace(benchmark: str, table: str) -> None:
    """Put a table between its marks. Raises ValueError when the page has no place for it."""
    begin, end = f"<!-- bench:{benchmark} -->", f"<!-- end:{benchmark} -->"
    page = PAGE.read_text(encoding="utf-8")
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{PAGE} has no lines {begin} and {end}")
    PAGE.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
