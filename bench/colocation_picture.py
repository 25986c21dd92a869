"""The picture of `docs/simulation.md`: a day with colocation off and on, for light and dark pages."""

from collections.abc import Iterator, Sequence
from html import escape

from koordpy.simulation.result import Result

_WIDTH, _PANEL = 760, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 50, 34
_MOST_POINTS = 150

Line = tuple[str, str, Sequence[float]]
"""Class, name, and a value for each sample."""


def picture(found: Sequence[Result]) -> str:
    """Return an SVG: CPU that all nodes use, cores of best-effort pods, and pods that wait for a node."""
    off, on = found
    panels: list[tuple[str, list[Line]]] = [
        (
            f"CPU used by all pods and nodes, % of {on.nodes} nodes",
            [("s0", off.scheduler, off.series.used["cpu"]), ("s1", on.scheduler, on.series.used["cpu"])],
        ),
        (
            "Cores for best-effort pods, with colocation on",
            [
                ("s2", "offered as batch resources", on.series.batch_cores),
                ("s1", "used by best-effort pods", on.series.best_effort_cores),
            ],
        ),
        (
            "Pods without a node",
            [("s0", off.scheduler, off.series.pending), ("s1", on.scheduler, on.series.pending)],
        ),
    ]
    body = [
        element
        for row, (title, lines) in enumerate(panels)
        for element in _panel(title, lines, on.series.times, row * _PANEL)
    ]
    return _SVG.format(width=_WIDTH, height=_PANEL * len(panels), body="\n".join(body))


def _panel(title: str, lines: Sequence[Line], times: Sequence[float], top: float) -> Iterator[str]:
    most = max(max(values) for _, _, values in lines) or 1.0
    step = next(size for size in (1, 5, 10, 25, 50, 100, 250, 500, 1000) if most / size <= 6)
    end = times[-1]

    def x(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * at / end, 1)

    def y(value: float) -> float:
        return round(top + _PANEL - _BOTTOM - (_PANEL - _TOP - _BOTTOM) * value / most, 1)

    yield f'<text class="title" x="{_LEFT}" y="{top + 18}">{escape(title)}</text>'
    for n in range(0, int(most) + 1, step):
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(n)}" y2="{y(n)}"/>'
        yield f'<text class="tick" x="{_LEFT - 8}" y="{y(n) + 4}" text-anchor="end">{n}</text>'
    for hour in range(0, int(end / 3600) + 1, 4):
        place = f'x="{x(hour * 3600)}" y="{top + _PANEL - _BOTTOM + 18}"'
        yield f'<text class="tick" {place} text-anchor="middle">{hour} h</text>'
    every = max(1, len(times) // _MOST_POINTS)
    for number, (kind, name, values) in enumerate(lines):
        points = " ".join(
            f"{x(at)},{y(value)}" for at, value in list(zip(times, values, strict=True))[::every]
        )
        yield f'<polyline class="{kind}" points="{points}"/>'
        left, legend = _LEFT + 260 * number, top + 38
        yield f'<line class="{kind}" x1="{left}" x2="{left + 16}" y1="{legend - 4}" y2="{legend - 4}"/>'
        yield f'<text x="{left + 22}" y="{legend}">{escape(name)}</text>'


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
  aria-label="CPU used, cores for best-effort pods and pods without a node, with colocation off and on">
<style>
text {{ font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }}
.title {{ font-weight: 600; font-size: 14px; }}
.tick {{ font-size: 12px; fill: #59636e; }}
.grid {{ stroke: #d1d9e0; stroke-width: 1; }}
polyline, line {{ fill: none; stroke-width: 2; }}
.s0 {{ stroke: #d1242f; }}
.s1 {{ stroke: #0969da; }}
.s2 {{ stroke: #1a7f37; stroke-dasharray: 5 3; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #f0f6fc; }}
.tick {{ fill: #9198a1; }}
.grid {{ stroke: #3d444d; }}
.s0 {{ stroke: #f85149; }}
.s1 {{ stroke: #4493f8; }}
.s2 {{ stroke: #3fb950; }}
}}
</style>
{body}
</svg>
"""
