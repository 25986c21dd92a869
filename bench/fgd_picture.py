"""The picture of `docs/fgd.md`: unallocated GPUs and the fragment rate by load, ours beside the paper's."""

import csv
import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from koordpy.simulation.gpus.experiment import Run

_WIDTH, _PANEL = 760, 330
_LEFT, _RIGHT, _BOTTOM = 54, 12, 44
_GAP = 34

Points = Sequence[tuple[float, float]]


def picture(runs: Mapping[str, Sequence[Run]], paper: Path) -> str:
    """Return an SVG of the medians of runs by policy, beside the authors' of a table."""
    reported = _reported(paper)
    body: list[str] = []
    for number, (title, curve, loads, most) in enumerate(
        (
            ("Unallocated GPUs, %", "allocated", (75, 130), 25),
            ("Fragment rate, % of the unallocated GPUs", "fragment_rate", (0, 120), 100),
        )
    ):
        for side, who in enumerate(("koordpy", "the paper")):
            lines = []
            for policy, of in runs.items():
                ours = [(load, _median(of, curve, load)) for load in range(loads[0], loads[1] + 1)]
                lines.append((policy, ours if side == 0 else reported[policy][number]))
            box = (side * (_WIDTH / 2), number * _PANEL)
            body += _panel(f"{title}: {who}", lines, box, loads, most)
    body += _legend(list(runs), 2 * _PANEL + 8)
    return _SVG.format(width=_WIDTH, height=2 * _PANEL + 30, body="\n".join(body))


def _median(of: Sequence[Run], curve: str, load: int) -> float:
    value: float = statistics.median(getattr(run.curves, curve)[load] for run in of)
    return 100 - value if curve == "allocated" else value


def _reported(paper: Path) -> dict[str, tuple[list[tuple[float, float]], list[tuple[float, float]]]]:
    found: dict[str, tuple[list[tuple[float, float]], list[tuple[float, float]]]] = {}
    with paper.open(newline="") as file:
        for row in csv.DictReader(file):
            unallocated, rate = found.setdefault(row["policy"], ([], []))
            unallocated.append((float(row["load"]), float(row["unallocated_gpu_pct"])))
            rate.append((float(row["load"]), float(row["fragment_rate_pct"])))
    return found


def _panel(
    title: str,
    lines: Sequence[tuple[str, Points]],
    box: tuple[float, float],
    loads: tuple[int, int],
    most: float,
) -> Iterator[str]:
    left, top = box[0] + _LEFT, box[1]
    right, bottom = box[0] + _WIDTH / 2 - _RIGHT, top + _PANEL - _BOTTOM

    def x(load: float) -> float:
        return round(left + (right - left) * (load - loads[0]) / (loads[1] - loads[0]), 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - top - _GAP) * value / most, 1)

    yield f'<text class="title" x="{left}" y="{top + 20}">{escape(title)}</text>'
    for n in range(0, int(most) + 1, int(most) // 5):
        yield f'<line class="grid" x1="{left}" x2="{right}" y1="{y(n)}" y2="{y(n)}"/>'
        yield f'<text class="tick" x="{left - 8}" y="{y(n) + 4}" text-anchor="end">{n}</text>'
    for load in range(-(-loads[0] // 20) * 20, loads[1] + 1, 20):
        yield f'<text class="tick" x="{x(load)}" y="{bottom + 18}" text-anchor="middle">{load}</text>'
    centre = (left + right) / 2
    below = f'x="{centre}" y="{bottom + 36}"'
    yield f'<text class="tick" {below} text-anchor="middle">arrived load, % of all GPUs</text>'
    for number, (_, points) in enumerate(lines):
        shown = " ".join(
            f"{x(load)},{y(value)}"
            for load, value in points
            if loads[0] <= load <= loads[1] and value <= most
        )
        yield f'<polyline class="s{number}" points="{shown}"/>'


def _legend(names: Sequence[str], y: float) -> Iterator[str]:
    for number, name in enumerate(names):
        left = _LEFT + 116 * number
        yield f'<line class="s{number}" x1="{left}" x2="{left + 16}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{left + 21}" y="{y + 4}">{escape(name)}</text>'


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
  aria-label="Unallocated GPUs and fragment rate by arrived load and policy, koordpy's beside the paper's">
<style>
text {{ font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }}
.title {{ font-weight: 600; font-size: 13px; }}
.tick {{ font-size: 12px; fill: #59636e; }}
.grid {{ stroke: #d1d9e0; stroke-width: 1; }}
polyline, line {{ fill: none; stroke-width: 2; }}
.s0 {{ stroke: #59636e; }}
.s1 {{ stroke: #9a6700; }}
.s2 {{ stroke: #8250df; }}
.s3 {{ stroke: #1a7f37; }}
.s4 {{ stroke: #d1242f; }}
.s5 {{ stroke: #0969da; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #f0f6fc; }}
.tick {{ fill: #9198a1; }}
.grid {{ stroke: #3d444d; }}
.s0 {{ stroke: #9198a1; }}
.s1 {{ stroke: #d29922; }}
.s2 {{ stroke: #ab7df8; }}
.s3 {{ stroke: #3fb950; }}
.s4 {{ stroke: #f85149; }}
.s5 {{ stroke: #4493f8; }}
}}
</style>
{body}
</svg>
"""
