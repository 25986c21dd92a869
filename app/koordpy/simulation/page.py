"""Results as one HTML file: tables and plots, without any other file, script or request."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from . import plots, report
from .result import Result

FORMATS: Final = (".html", ".htm")

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1180px; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
.about { margin: .2rem 0 1rem; opacity: .75; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .8rem 0; padding: 0; list-style: none; }
.legend i { border-radius: 2px; display: inline-block; height: .8em; margin-right: .4em; width: 1.4em; }
.plots { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); }
.plots svg { display: block; height: auto; width: 100%; }
.plots svg text { font-family: system-ui, sans-serif !important; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; text-align: left; white-space: normal; }
td { font-variant-numeric: tabular-nums; }
tbody tr:hover { background: var(--soft); }
@media (max-width: 600px) {
  body { font-size: 14px; padding: .7rem; }
  th, td { padding: .3rem .35rem; white-space: normal; }
  th:first-child, td:first-child { min-width: 8.5rem; }
}
"""


def write(results: Sequence[Result], path: Path) -> None:
    """Write the page of results of one scenario. Raises PlotError, OSError."""
    plots.check(path, FORMATS)
    path.write_text("".join(_page(results)), encoding="utf-8")


def _page(results: Sequence[Result]) -> Iterator[str]:
    name = escape(results[0].scenario)
    yield head(name)
    yield f'<h1>{name}</h1>\n<p class="about">{escape(report.heading(results))}</p>\n'
    yield '<ul class="legend">'
    for scheduler, colour in plots.colours(results):
        yield f'<li><i style="background:{colour}"></i>{escape(scheduler)}</li>'
    yield "<li>solid: used, dashed: requested</li></ul>\n"
    yield '<div class="plots">\n'
    for panel in plots.vector_panels(results):
        yield f"<div>{panel}</div>\n"
    yield "</div>\n"
    for title, rows in report.tables(results):
        if rows:
            yield from table(title, [result.scheduler for result in results], rows)
    notes = [(result.scheduler, note) for result in results for note in result.notes]
    problems = [(result.scheduler, problem) for result in results for problem in result.problems]
    for title, messages in (("Notes", notes), ("Problems", problems)):
        if messages:
            yield f"<h2>{title}</h2>\n<ul>\n"
            for scheduler, message in messages:
                yield f"<li><b>{escape(scheduler)}</b>: {escape(message)}</li>\n"
            yield "</ul>\n"
    yield "</body>\n</html>\n"


def head(name: str) -> str:
    """Return the beginning of a page, up to its body; the name is HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: simulation</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )


def table(title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """Yield a table of rows with a name and a value for each column."""
    yield f'<h2>{escape(title)}</h2>\n<div class="wide"><table>\n<thead><tr><th></th>'
    yield "".join(f"<th>{escape(name)}</th>" for name in columns) + "</tr></thead>\n<tbody>\n"
    for name, values in rows:
        cells = "".join(f"<td>{escape(value)}</td>" for value in values)
        indent = "&emsp;" if name.startswith(" ") else ""
        yield f"<tr><td>{indent}{escape(name.strip())}</td>{cells}</tr>\n"
    yield "</tbody></table></div>\n"
