"""Tables and figures in the documentation, rendered from the runs that are kept.

A page has a place for a table, and for single figures in its text:

    <!-- bench:NAME -->...<!-- end:NAME -->
    <!-- figure:NAME|LABEL|COLUMN -->...<!-- / -->      the median of each kept run: "4,383", "4,100 to 4,383"
    <!-- runs:NAME -->...<!-- / -->                      the commits of the kept runs

Whatever stands in a place is replaced. A page with a figure also has the table or the commits of its
benchmark.
"""

import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench import kept
from bench.report import number, table

ROOT = Path(__file__).parents[1]

_TABLE = re.compile(r"<!-- bench:(?P<name>\w+) -->\n.*?<!-- end:(?P=name) -->", re.DOTALL)
_FIGURE = re.compile(r"<!-- figure:(?P<name>\w+)\|(?P<label>[^|]+)\|(?P<column>\w+) -->.*?<!-- / -->")
_RUNS = re.compile(r"<!-- runs:(?P<name>\w+) -->.*?<!-- / -->")

_LOOSE = re.compile(
    r"\d[\d.,]*(?: to \d[\d.,]*)? ?(?:µs|ms|MB|MiB|pods/s|requests/s|events/s|/s)\b|\b0\.\d\d\b"
)


def pages() -> list[Path]:
    """Return the pages that may have places."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def render() -> list[Path]:
    """Render all pages; return those that changed. Raises ValueError, naming page and place."""
    changed = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        try:
            new = rendered(text)
        except ValueError as error:
            raise ValueError(f"{page.name}: {error}") from None
        if new != text:
            page.write_text(new, encoding="utf-8")
            changed.append(page)
    return changed


def rendered(text: str) -> str:
    """Return the text of a page with all its places filled. Raises ValueError for a place of nothing kept."""
    text = _TABLE.sub(_table, text)
    text = _FIGURE.sub(_figure, text)
    text = _RUNS.sub(lambda place: f"<!-- runs:{place['name']} -->{_commits(place['name'])}<!-- / -->", text)
    for place in _FIGURE.finditer(text):
        name = place["name"]
        if f"<!-- bench:{name} -->" not in text and f"<!-- runs:{name} -->" not in text:
            raise ValueError(f"figure:{name}: the page has neither the table nor the commits of {name}")
    return text


def loose_figures(text: str) -> Iterator[str]:
    """Yield what looks like a measured figure in the prose of a page but is in no place of its own."""
    for place in (_TABLE, _FIGURE, _RUNS):
        text = place.sub("", text)
    for line in text.splitlines():
        if not line.startswith(("|", "```")):
            yield from (match[0] for match in _LOOSE.finditer(line))


def _table(place: re.Match[str]) -> str:
    runs = kept.runs(place["name"])
    content = table(runs) if runs else "No run is kept."
    return f"<!-- bench:{place['name']} -->\n{content}\n<!-- end:{place['name']} -->"


def _figure(place: re.Match[str]) -> str:
    medians = [
        statistics.median(row.cells[place["column"]])
        for run in kept.runs(place["name"])
        for row in run.rows
        if row.label == place["label"] and row.cells.get(place["column"])
    ]
    what = f"{place['name']}|{place['label']}|{place['column']}"
    if not medians:
        raise ValueError(f"figure:{what}: no kept run has it")
    low, high = number(min(medians)), number(max(medians))
    return f"<!-- figure:{what} -->{low if low == high else f'{low} to {high}'}<!-- / -->"


def _commits(name: str) -> str:
    runs = kept.runs(name)
    if not runs:
        raise ValueError(f"runs:{name}: no run is kept")
    return ", ".join(dict.fromkeys(str(run.sources) for run in runs))
