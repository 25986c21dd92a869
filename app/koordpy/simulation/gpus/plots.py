"""A page of plots of runs, as PNG or SVG: unallocated GPUs and fragments against the arrived load."""

import io
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koordpy.simulation import plots

from . import report
from .experiment import Run
from .scenario import GPUFillScenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#6b6b6b", "#8a6d1a", "#a83279", "#2f8f4e", "#d9822b", "#1f5fa8")
_STYLE: dict[Any, Any] = {"svg.hashsalt": "koordpy", "axes.grid": True, "grid.alpha": 0.3}
_PANELS = (
    ("Unallocated GPUs, %", "allocated", (70, 130)),
    ("Allocated GPUs, %", "allocated", (0, 130)),
    ("Fragment rate, % of the unallocated GPUs", "fragment_rate", (0, 130)),
    ("Fragments, % of all GPUs", "fragments", (0, 130)),
)


def draw(told: GPUFillScenario, runs: Sequence[Run], path: Path) -> None:
    """Draw medians with the range of all seeds. Raises PlotError, OSError."""
    plots.check(path)
    import matplotlib

    # Without its date and random names a file of the same results is the same file.
    metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
    with matplotlib.rc_context(_STYLE):
        _figure(told, runs).savefig(path, dpi=110, metadata=metadata)


def vector(told: GPUFillScenario, runs: Sequence[Run]) -> str:
    """Return the page as an SVG element."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        _figure(told, runs).savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :]


def _figure(told: GPUFillScenario, runs: Sequence[Run]) -> "Figure":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 8), layout="constrained")
    for axes, (title, curve, limits) in zip(figure.subplots(2, 2).flat, _PANELS, strict=True):
        _panel(axes, runs, curve, reverse=title.startswith("Unallocated"))
        axes.set_title(title, loc="left", fontsize=11)
        axes.set_xlabel("arrived load, % of all GPUs")
        axes.set_xlim(*limits)
        axes.set_ylim(bottom=0)
        if title.startswith("Unallocated"):
            axes.set_ylim(0, 30)
    seeds = f"{len(told.seeds)} seeds: median and range" if len(told.seeds) > 1 else f"seed {told.seeds[0]}"
    figure.suptitle(f"{told.name}, {seeds}")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure


def _panel(axes: "Axes", runs: Sequence[Run], curve: str, *, reverse: bool) -> None:
    policies = report.by_policy(runs)
    for (policy, of), colour in zip(policies.items(), _COLOURS * len(policies), strict=False):
        loads = report.loads_of(of)
        values = [[getattr(run.curves, curve)[load] for run in of] for load in loads]
        if reverse:
            values = [[100 - value for value in at] for at in values]
        axes.plot(loads, [statistics.median(at) for at in values], color=colour, label=policy)
        if len(of) > 1:
            low, high = [min(at) for at in values], [max(at) for at in values]
            axes.fill_between(loads, low, high, color=colour, alpha=0.15, linewidth=0)
