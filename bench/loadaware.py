"""What LoadAwareScheduling is for: the same pods on the same nodes, placed with koordpy and without.

The scenario is `examples/scenarios/load-aware.yaml`; with the same seed every run has the same result. The
run also draws the picture of README, `docs/load-aware.svg`.
"""

from html import escape
from pathlib import Path

from bench.report import Result
from koordpy.simulation import scenario, simulation
from koordpy.simulation.result import Result as Simulated

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "examples" / "scenarios" / "load-aware.yaml"
PICTURE = ROOT / "docs" / "load-aware.svg"

_WIDTH, _HEIGHT = 760, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 58, 40


def run(rounds: int = 1) -> Result:
    """Simulate both schedulers, and draw the hot nodes over time."""
    told = scenario.load(SCENARIO)
    found = [simulation.simulate(told, setup, SCENARIO.parent) for setup in told.schedulers]
    result = Result.begin(
        "loadaware", hot="node time that is hot, %", bound="pods given a node", nodes="nodes"
    )
    for simulated in found:
        result.row(simulated.scheduler).add(
            hot=simulated.hot.share, bound=simulated.pods.bound, nodes=simulated.nodes
        )
    PICTURE.write_text(picture(found), encoding="utf-8")
    return result


def picture(found: list[Simulated]) -> str:
    """Return an SVG of the number of hot nodes over time, for light and dark pages."""
    hours = found[0].simulated_seconds / 3600
    most = max(max(simulated.series.hot) for simulated in found)

    def x(seconds: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / 3600 / hours, 1)

    def y(nodes: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * nodes / most, 1)

    marks = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(n)}" y2="{y(n)}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y(n) + 4}" text-anchor="end">{n}</text>'
        for n in range(0, most + 1, 2)
    ]
    marks += [
        f'<text class="tick" x="{x(3600 * n)}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{n} h</text>'
        for n in range(int(hours) + 1)
    ]
    curves = []
    for simulated, name in zip(found, ("without", "with"), strict=True):
        steps, last = [f"M{x(0)},{y(0)}"], 0
        for seconds, nodes in zip(simulated.series.times, simulated.series.hot, strict=True):
            if nodes != last:
                steps.append(f"H{x(seconds)}V{y(nodes)}")
                last = nodes
        steps.append(f"H{x(3600 * hours)}V{y(0)}Z")
        curves.append(f'<path class="{name}" d="{"".join(steps)}"/>')
    legend = []
    for index, (simulated, name, label) in enumerate(
        zip(found, ("without", "with"), ("kube-scheduler alone", "with koordpy"), strict=True)
    ):
        left = _LEFT + 330 * index
        text = f"{label}: {simulated.hot.share:.1f}% of all node time"
        legend.append(f'<rect class="{name}" x="{left}" y="30" width="14" height="14" rx="2"/>')
        legend.append(f'<text x="{left + 20}" y="42">{escape(text)}</text>')
    title = f"Hot nodes (CPU above 65%) of {found[0].nodes}, the same {found[0].pods.created} pods"
    return _SVG.format(
        width=_WIDTH,
        height=_HEIGHT,
        title=escape(title),
        left=_LEFT,
        body="\n".join([*marks, *curves, *legend]),
    )


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
  aria-label="{title}">
<style>
text {{ font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }}
.title {{ font-weight: 600; font-size: 14px; }}
.tick {{ font-size: 12px; fill: #59636e; }}
.grid {{ stroke: #d1d9e0; stroke-width: 1; }}
.without {{ fill: #d1242f; fill-opacity: 0.28; stroke: #d1242f; stroke-width: 1.5; }}
.with {{ fill: #0969da; fill-opacity: 0.45; stroke: #0969da; stroke-width: 1.5; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #f0f6fc; }}
.tick {{ fill: #9198a1; }}
.grid {{ stroke: #3d444d; }}
.without {{ fill: #f85149; stroke: #f85149; }}
.with {{ fill: #4493f8; stroke: #4493f8; }}
}}
</style>
<text class="title" x="{left}" y="18">{title}</text>
{body}
</svg>
"""
