"""Runs as one HTML file: tables and plots, without any other file, script or request."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from koordpy.simulation import page, plots

from . import plots as drawing
from . import report
from .experiment import Run
from .scenario import GPUFillScenario


def write(told: GPUFillScenario, runs: Sequence[Run], path: Path) -> None:
    """Write the page of the runs of a scenario. Raises PlotError, OSError."""
    plots.check(path, page.FORMATS)
    path.write_text("".join(_page(told, runs)), encoding="utf-8")


def _page(told: GPUFillScenario, runs: Sequence[Run]) -> Iterator[str]:
    name = escape(told.name)
    yield page.head(name)
    yield f'<h1>{name}</h1>\n<p class="about">{escape(told.description or report.heading(told))}</p>\n'
    yield f'<div class="plots" style="display: block">{drawing.vector(told, runs)}</div>\n'
    for title, columns, rows in report.tables(told, runs):
        yield from page.table(title, columns, rows)
    yield "</body>\n</html>\n"
