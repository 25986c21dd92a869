"""What proofs of evictions are for: a week of a cluster with hot spots, without descheduler and with it.

The scenario is `examples/scenarios/hot-spots.yaml`; with the same seed every run has the same result. The run
also draws the picture of `docs/descheduling.md`, `docs/hot-spots.svg`.
"""

from html import escape
from itertools import accumulate
from pathlib import Path

from prometheus_client import REGISTRY

from bench.report import Result
from koordpy.simulation import scenario, simulation
from koordpy.simulation.result import Result as Simulated

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "examples" / "scenarios" / "hot-spots.yaml"
PICTURE = ROOT / "docs" / "hot-spots.svg"

_WIDTH, _HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 92, 40
_LANDINGS = "koordpy_descheduler_landings_total"
_WHERE = ("proved", "acceptable", "other")


def run(rounds: int = 1) -> Result:
    """Simulate every setup, and draw the time that nodes have been hot."""
    told = scenario.load(SCENARIO)
    result = Result.begin(
        "hotspots",
        evicted="evictions",
        repeated="again within an hour",
        hot="hot node-hours",
        moved="proved evictions",
        landed="on the named node or one as good, %",
        acceptable="on a node without objection, %",
    )
    found = []
    for setup in told.schedulers:
        before = {node: _landings(node) for node in _WHERE}
        simulated = simulation.simulate(told, setup, SCENARIO.parent)
        found.append(simulated)
        proved, acceptable, other = (_landings(node) - before[node] for node in _WHERE)
        row = result.row(simulated.scheduler)
        row.add(
            evicted=simulated.pods.evicted,
            repeated=simulated.pods.evicted_repeatedly,
            hot=_hot(simulated)[-1],
        )
        if moved := proved + acceptable + other:
            row.add(
                moved=moved,
                landed=100 * proved / moved,
                acceptable=100 * (proved + acceptable) / moved,
            )
    PICTURE.write_text(picture(found), encoding="utf-8")
    return result


def _landings(node: str) -> float:
    return REGISTRY.get_sample_value(_LANDINGS, {"node": node}) or 0.0


def _hot(simulated: Simulated) -> list[float]:
    """Return the node-hours that were hot up to each sample."""
    times = simulated.series.times
    lengths = [later - earlier for earlier, later in zip(times, [*times[1:], times[-1]], strict=True)]
    hot = simulated.series.hot
    return list(accumulate(nodes * length / 3600 for nodes, length in zip(hot, lengths, strict=True)))


def picture(found: list[Simulated]) -> str:
    """Return an SVG of the node-hours that were hot so far, for light and dark pages."""
    seconds = found[0].simulated_seconds
    curves = [_hot(simulated) for simulated in found]
    most = max(curve[-1] for curve in curves) or 1.0
    step = next(size for size in (1, 5, 10, 25, 50, 100, 250, 500, 1000, 5000) if most / size <= 6)

    def x(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * at / seconds, 1)

    def y(hours: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * hours / most, 1)

    body = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(n)}" y2="{y(n)}"/>'
        f'<text class="tick" x="{_LEFT - 8}" y="{y(n) + 4}" text-anchor="end">{n}</text>'
        for n in range(0, int(most) + 1, step)
    ]
    days = int(seconds / 86400)
    body += [
        f'<text class="tick" x="{x(86400 * n)}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="end">day {n}</text>'
        for n in range(1, days + 1)
    ]
    for index, (simulated, curve) in enumerate(zip(found, curves, strict=True)):
        points = " ".join(
            f"{x(at)},{y(hours)}"
            for at, hours in list(zip(simulated.series.times, curve, strict=True))[
                :: max(1, len(curve) // 300)
            ]
        )
        body.append(f'<polyline class="s{index}" points="{points}"/>')
        column, line = index % 2, index // 2
        left, top = _LEFT + 350 * column, 42 + 20 * line
        pods = simulated.pods
        text = f"{simulated.scheduler}: {pods.evicted} evictions, {pods.evicted_repeatedly} of them repeated"
        body.append(f'<line class="s{index}" x1="{left}" x2="{left + 16}" y1="{top - 4}" y2="{top - 4}"/>')
        body.append(f'<text x="{left + 22}" y="{top}">{escape(text)}</text>')
    title = f"Hours that nodes were hot (CPU above 75%), summed over {found[0].nodes} nodes"
    return _SVG.format(width=_WIDTH, height=_HEIGHT, title=escape(title), left=_LEFT, body="\n".join(body))


_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
  aria-label="{title}">
<style>
text {{ font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }}
.title {{ font-weight: 600; font-size: 14px; }}
.tick {{ font-size: 12px; fill: #59636e; }}
.grid {{ stroke: #d1d9e0; stroke-width: 1; }}
polyline, line {{ fill: none; stroke-width: 2; }}
.s0 {{ stroke: #59636e; stroke-dasharray: 5 4; }}
.s1 {{ stroke: #d1242f; }}
.s2 {{ stroke: #0969da; }}
.s3 {{ stroke: #1a7f37; }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #f0f6fc; }}
.tick {{ fill: #9198a1; }}
.grid {{ stroke: #3d444d; }}
.s0 {{ stroke: #9198a1; }}
.s1 {{ stroke: #f85149; }}
.s2 {{ stroke: #4493f8; }}
.s3 {{ stroke: #3fb950; }}
}}
</style>
<text class="title" x="{left}" y="18">{title}</text>
{body}
</svg>
"""
