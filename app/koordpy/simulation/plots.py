"""A page of plots of one or several results, as PNG or SVG. Needs matplotlib, the extra `koordpy[plots]`."""

import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from koordpy.lib.counting import counted

from .result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")

_UNITS = ((86400.0 * 3, 86400.0, "days"), (3600.0 * 3, 3600.0, "hours"), (180.0, 60.0, "minutes"))
_COLOURS = ("#1f5fa8", "#d9822b", "#2f8f4e", "#a83279", "#6b6b6b", "#8a6d1a")
_MOST_RESOURCES = 6
_MOST_WORKLOADS = 12
_MOST_QUOTAS = 6

Panel = Callable[["Axes"], None]


class PlotError(RuntimeError):
    """A plot cannot be drawn; the message says what to do about it."""


def check(path: Path, formats: Sequence[str] = FORMATS) -> None:
    """Raise PlotError unless a plot can be written to a file of this name."""
    if path.suffix.lower() not in formats:
        raise PlotError(f"{path}: expected a name that ends in {' or '.join(formats)}")
    if not path.parent.is_dir():
        raise PlotError(f"{path}: folder {path.parent} does not exist")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PlotError(f"{path}: not writable")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError(
            "plots need matplotlib, which is not installed: pip install 'koordpy[plots]'"
        ) from None


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw results of one scenario into a file. Raises PlotError, OSError."""
    check(path)
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    page = _Page(results)
    panels = page.panels()
    lines = -(-len(panels) // 2)
    with pyplot.rc_context(_STYLE):
        figure, axes = pyplot.subplots(
            lines, 2, figsize=(13, 3.4 * lines + 0.9), layout="constrained", squeeze=False
        )
        for panel, place in zip(panels, axes.flat, strict=False):
            panel(place)
        for place in axes.flat[len(panels) :]:
            place.axis("off")
        first = results[0]
        figure.suptitle(
            f"{first.scenario} on {counted(first.nodes, 'node')}, seed {first.seed}",
            fontsize=14,
        )
        figure.legend(*page.legend(axes.flat[0]), loc="outside lower center", ncols=min(len(results) + 2, 6))
        # Without its date a file of the same results is the same file.
        metadata: dict[str, Any] = {"Date": None} if path.suffix.lower() == ".svg" else {}
        figure.savefig(path, dpi=110, metadata=metadata)
        pyplot.close(figure)


def vector_panels(results: Sequence[Result]) -> list[str]:
    """Return the panels as SVG elements for a page of HTML; black is the colour of the page's text."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    found = []
    for number, panel in enumerate(_Page(results).panels()):
        inks = dict.fromkeys(_INKED, _INK)
        style: dict[Any, Any] = {
            **_STYLE,
            **inks,
            "grid.alpha": 0.14,
            "svg.fonttype": "none",
            "svg.hashsalt": f"koordpy-{number}",
        }
        with pyplot.rc_context(style):
            figure, axes = pyplot.subplots(figsize=(6.2, 3.5), layout="constrained")
            panel(axes)
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
            pyplot.close(figure)
        text = file.getvalue()
        text = re.sub(r' id="[a-z_]+_\d+"', "", text[text.index("<svg") :]).replace(_INK, "currentColor")
        text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
        found.append(re.sub(r'<svg ([^>]*?)height="[^"]*"([^>]*?)width="[^"]*"', r"<svg \1\2", text, count=1))
    return found


def colours(results: Sequence[Result]) -> list[tuple[str, str]]:
    """Return each scheduler with its colour."""
    return [
        (result.scheduler, colour) for result, colour in zip(results, _COLOURS * len(results), strict=False)
    ]


_INK = "#123456"
_INKED = (
    "text.color",
    "axes.labelcolor",
    "axes.edgecolor",
    "axes.titlecolor",
    "xtick.color",
    "ytick.color",
    "grid.color",
)

_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "font.size": 9.5,
    "grid.alpha": 0.3,
    "svg.hashsalt": "koordpy",
}


class _Page:
    def __init__(self, results: Sequence[Result]) -> None:
        self._results = list(zip(results, _COLOURS * len(results), strict=False))
        self._unit, self._unit_name = _unit(max(result.simulated_seconds for result in results))
        # The first line is the widest, so that it is visible beneath identical ones.
        self._widths = [
            1.3 + 1.6 * (len(results) - 1 - i) / max(len(results), 1) for i in range(len(results))
        ]

    def panels(self) -> list[Panel]:
        resources = [
            name
            for name in dict.fromkeys(name for result, _ in self._results for name in result.resources)
            if any(
                result.resources[name].requested.max > 0
                for result, _ in self._results
                if name in result.resources
            )
        ][:_MOST_RESOURCES]
        all_series = [result.series for result, _ in self._results]
        waited = any(result.pending_seconds.max > 0 for result, _ in self._results)
        several = any(len(result.pending_seconds_of) > 1 for result, _ in self._results)
        choices: list[tuple[Panel, bool]] = [
            (self._waiting_of, waited and several),
            (self._waiting, waited),
            (self._pending, _is_eventful(series.pending for series in all_series)),
            (self._hot, any(max(series.hot, default=0) for series in all_series)),
            (self._busiest, _is_eventful(series.used_p95.get("cpu", ()) for series in all_series)),
            (self._pods, _is_eventful(series.running for series in all_series)),
            *(
                (
                    self._resource(name),
                    _is_eventful(
                        values.get(name, ())
                        for series in all_series
                        for values in (series.requested, series.used)
                    ),
                )
                for name in resources
            ),
            (
                self._gangs,
                any(
                    _is_eventful((series.gangs_whole, series.gangs_partly_bound, series.gangs_waiting))
                    for series in all_series
                ),
            ),
            *((self._quota(*each), True) for each in self._busy_quotas()),
            (self._best_effort, any(max(series.batch_cores, default=0) for series in all_series)),
            (self._evictions, any(result.pods.evicted for result, _ in self._results)),
            (self._per_node, any(result.pods.bound for result, _ in self._results)),
        ]
        return [panel for panel, shows_something in choices if shows_something] or [self._pods]

    def legend(self, axes: "Axes") -> tuple[list[Any], list[str]]:
        """Return handles and labels: a colour for each scheduler, a line style for requested and used."""
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], color=colour, linewidth=3) for _, colour in self._results]
        labels = [result.scheduler for result, _ in self._results]
        handles.append(Line2D([], [], color="#444444", linestyle="-"))
        handles.append(Line2D([], [], color="#444444", linestyle="--"))
        labels += ["used", "requested"]
        return handles, labels

    # --- panels ----------------------------------------------------------------------------------

    def _resource(self, name: str) -> Panel:
        def panel(axes: "Axes") -> None:
            for (result, colour), width in zip(self._results, self._widths, strict=True):
                series, times = result.series, self._times(result)
                if name in series.requested:
                    values = series.requested[name]
                    axes.plot(times[: len(values)], values, "--", color=colour, linewidth=width * 0.75)
                if name in series.used:
                    axes.plot(times, series.used[name], color=colour, linewidth=width)
            self._over_time(axes, f"{name}, % of all nodes", "%")

        return panel

    def _busiest(self, axes: "Axes") -> None:
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            if "cpu" in result.series.used_p95:
                axes.plot(self._times(result), result.series.used_p95["cpu"], color=colour, linewidth=width)
            threshold = result.hot.thresholds.get("cpu")
        if threshold is not None:
            axes.axhline(threshold, color="#d03050", linewidth=0.9, linestyle=":")
            axes.annotate(
                f"hot from {threshold:g} %",
                (0.995, threshold),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="bottom",
                fontsize=8,
                color="#d03050",
            )
        self._over_time(axes, "cpu used on the busiest nodes (95th percentile), %", "%")

    def _hot(self, axes: "Axes") -> None:
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            axes.step(self._times(result), result.series.hot, where="post", color=colour, linewidth=width)
        thresholds = self._results[0][0].hot.thresholds
        limits = ", ".join(f"{name} {limit:g} %" for name, limit in thresholds.items())
        self._over_time(axes, f"hot nodes ({limits} or more)", "nodes")
        self._whole(axes)

    def _pods(self, axes: "Axes") -> None:
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            axes.step(self._times(result), result.series.running, where="post", color=colour, linewidth=width)
        self._over_time(axes, "pods with a node", "pods")
        self._whole(axes)

    def _pending(self, axes: "Axes") -> None:
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            axes.step(self._times(result), result.series.pending, where="post", color=colour, linewidth=width)
        self._over_time(axes, "pods without a node", "pods")
        self._whole(axes)

    def _best_effort(self, axes: "Axes") -> None:
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            series, times = result.series, self._times(result)
            axes.plot(times, series.batch_cores, "--", color=colour, linewidth=width * 0.75)
            axes.plot(times, series.best_effort_cores, color=colour, linewidth=width)
        self._over_time(axes, "cores for best-effort pods: dashed offered, solid used", "cores")

    def _gangs(self, axes: "Axes") -> None:
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            series, times = result.series, self._times(result)
            for style, values in (
                ("-", series.gangs_whole), (":", series.gangs_partly_bound), ("--", series.gangs_waiting)
            ):  # fmt: skip
                axes.step(times, values, style, where="post", color=colour, linewidth=width)
        self._over_time(axes, "gangs: solid whole, dotted partly bound, dashed waiting", "gangs")
        self._whole(axes)

    def _busy_quotas(self) -> list[tuple[str, str]]:
        """Return the quotas that are used most, each with its first resource."""
        most: dict[tuple[str, str], float] = {}
        for result, _ in self._results:
            for name, resources in result.quotas.items():
                resource, use = next(iter(resources.items()))
                share = use.used.max / use.max if use.max else use.used.max
                most[name, resource] = max(most.get((name, resource), 0.0), share)
        busy = [each for each in most if most[each] > 0]
        return sorted(sorted(busy, key=lambda each: -most[each])[:_MOST_QUOTAS])

    def _quota(self, name: str, resource: str) -> Panel:
        def panel(axes: "Axes") -> None:
            scale, unit = (
                (1 << 30, "GiB") if resource == "memory" else (1, "cores" if resource == "cpu" else "")
            )
            for (result, colour), width in zip(self._results, self._widths, strict=True):
                times = self._times(result)
                for style, lines, thin in (
                    ("--", result.series.quota_runtime, 0.75), ("-", result.series.quota_used, 1.0)
                ):  # fmt: skip
                    values = lines.get(name, {}).get(resource, [])
                    scaled = np.asarray(values) / scale
                    axes.step(
                        times[: len(values)],
                        scaled,
                        style,
                        where="post",
                        color=colour,
                        linewidth=width * thin,
                    )
            self._over_time(axes, f"quota {name}, {resource}: dashed runtime, solid used", unit)

        return panel

    def _evictions(self, axes: "Axes") -> None:
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            axes.step(self._times(result), result.series.evicted, where="post", color=colour, linewidth=width)
        self._over_time(axes, "pods evicted, or lost with their node, so far", "pods")
        self._whole(axes)

    def _per_node(self, axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator

        highest = 0
        for (result, colour), width in zip(self._results, self._widths, strict=True):
            counts = Counter(pod.node for pod in result.placements if pod.node)
            of_nodes = sorted(counts.values(), reverse=True)
            of_nodes += [0] * (result.nodes - len(of_nodes))
            highest = max(highest, *of_nodes, 0)
            axes.step(range(1, len(of_nodes) + 1), of_nodes, where="mid", color=colour, linewidth=width)
        axes.set_title("pods that each node was given, busiest first")
        axes.set_xlabel("nodes")
        axes.set_ylabel("pods")
        axes.set_ylim(0, max(highest * 1.08, 1))
        axes.set_xlim(left=1)
        self._whole(axes)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    def _waiting_of(self, axes: "Axes") -> None:
        """Bars by workload and scheduler: half of the pods within the solid part, 95 % within the pale."""
        names = list(dict.fromkeys(name for result, _ in self._results for name in result.pending_seconds_of))
        longest = {
            name: max(
                result.pending_seconds_of[name].max
                for result, _ in self._results
                if name in result.pending_seconds_of
            )
            for name in names
        }
        names = sorted(names, key=lambda name: -longest[name])[:_MOST_WORKLOADS]
        unit, unit_name = _unit(max(longest[name] for name in names))
        height = 0.8 / len(self._results)
        for number, (result, colour) in enumerate(self._results):
            for row, name in enumerate(names):
                spread = result.pending_seconds_of.get(name)
                if spread is None:
                    continue
                at = row - 0.4 + (number + 0.5) * height
                axes.barh(at, spread.p95 / unit, height * 0.86, color=colour, alpha=0.35)
                axes.barh(at, spread.p50 / unit, height * 0.86, color=colour)
                axes.plot([spread.max / unit], [at], "|", color=colour, markersize=8, markeredgewidth=2)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_title("time to a node by workload: median, 95 % (pale), longest (|)")
        axes.set_xlabel(unit_name)
        axes.set_xlim(left=0)

    def _waiting(self, axes: "Axes") -> None:
        waits = [
            sorted(pod.bound - pod.created for pod in result.placements if pod.bound is not None)
            for result, _ in self._results
        ]
        longest = max((waited[-1] for waited in waits if waited), default=0.0)
        unit, name = _unit(longest)
        end = max(longest / unit * 1.05, 1.0)
        for (result, colour), waited, width in zip(self._results, waits, self._widths, strict=True):
            if waited:
                shares = 100.0 * np.arange(1, len(waited) + 1) / len(result.placements)
                times = np.asarray([waited[0], *waited, end * unit]) / unit
                axes.step(times, [0.0, *shares, shares[-1]], where="post", color=colour, linewidth=width)
        axes.set_title("pods that had a node within a time, %")
        axes.set_xlabel(f"{name} since their creation")
        axes.set_ylabel("%")
        axes.set_ylim(0, 103)
        axes.set_xlim(0, end)

    # --- axes ------------------------------------------------------------------------------------

    def _times(self, result: Result) -> Any:
        return np.asarray(result.series.times) / self._unit

    def _over_time(self, axes: "Axes", title: str, unit: str) -> None:
        axes.set_title(title)
        axes.set_xlabel(self._unit_name)
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, max(result.simulated_seconds for result, _ in self._results) / self._unit)

    @staticmethod
    def _whole(axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator

        if axes.get_ylim()[1] < 1:
            axes.set_ylim(0, 1)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def _is_eventful(lines: Iterable[Sequence[float]]) -> bool:
    """Whether some line is not flat, so that a panel of them shows something."""
    return any(len(line) > 1 and max(line) - min(line) > 1e-9 for line in lines)


def _unit(longest: float) -> tuple[float, str]:
    """Return the unit that suits times up to some seconds, and its name."""
    for least, unit, name in _UNITS:
        if longest >= least:
            return unit, name
    return 1.0, "seconds"
