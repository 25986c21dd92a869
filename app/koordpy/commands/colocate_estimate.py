"""`koordpy colocate estimate`: what colocation would give on a recorded cluster, and what it would cost."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from .options import Failure, output_option
from .output import Format, counted, emit
from .progress import Progress, lasting

if TYPE_CHECKING:
    from rich.console import Console

    from koordpy.simulation.estimate import BestEffortPods, Estimate


@click.command(short_help="Estimate what colocation would give on a recorded cluster.")
@click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="A recording of the cluster, as `koordpy record` writes it (read only), or any Scenario.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file with the ConfigMap slo-controller-config (default: colocation with Koordinator's defaults).",
)
@click.option("--pod", default="cpu=1,memory=2Gi", show_default=True, help="Requests of a best-effort pod.")
@click.option("--pod-duration", default="1h", show_default=True, help="How long each best-effort pod runs.")
@click.option(
    "--share",
    type=click.IntRange(0, 100),
    default=80,
    show_default=True,
    help="What best-effort pods request together, in percent of the batch CPU; 0: no such pods.",
)
@click.option("--agent-feature-gates", default="", help="Gates of node agents, such as BEMemoryEvict=true.")
@output_option
@click.pass_obj
def estimate(
    obj: dict[str, Any],
    file: Path,
    config: Path | None,
    pod: str,
    pod_duration: str,
    share: int,
    agent_feature_gates: str,
    output: Format,
) -> None:
    """Estimate how many batch cores a recorded cluster would offer, and what using them would cost.

    The recording is simulated with the SLO controllers, without best-effort pods and with some that come
    evenly over the time. Nothing is read from or written to a cluster.
    """
    from koordpy.lib import feature_gates
    from koordpy.main import set_up_logging
    from koordpy.simulation import scenario
    from koordpy.simulation.estimate import estimate as estimated
    from koordpy.simulation.setup import Source

    if obj["verbose"]:
        set_up_logging(obj["verbose"])
    pods = _pods(pod, pod_duration, share) if share else None
    recording = scenario.load(file)
    with Progress.of(output, 2 if pods else 1) as progress:
        runs = iter(("without best-effort pods", "with best-effort pods"))
        show: Callable[[float, str], None] | None = None
        last = 0.0

        def at(now: float, horizon: float) -> None:
            nonlocal show, last
            if show is None or now < last:
                show = progress.run(next(runs))
            last = now
            show(now / horizon if horizon else 0.0, f"{lasting(now)} of {lasting(max(now, horizon))}")

        found = estimated(
            recording,
            file.parent,
            config=None if config is None else Source(file=str(config.absolute())),
            pods=pods,
            gates=feature_gates.parse(agent_feature_gates),
            progress=at,
        )
    emit(msgspec.to_builtins(found), output, lambda to: _show(to, found))


def _pods(text: str, duration_text: str, share: int) -> "BestEffortPods":
    from koordpy.api import quantity
    from koordpy.lib import duration
    from koordpy.simulation.estimate import BestEffortPods

    amounts: dict[str, str] = {}
    for part in text.split(","):
        name, equals, amount = part.partition("=")
        try:
            if not equals or name not in ("cpu", "memory") or quantity.milli_value(amount) <= 0:
                raise ValueError
        except ValueError:
            raise Failure(f"--pod: got {part!r}, expected such as cpu=1,memory=2Gi") from None
        amounts[name] = amount
    try:
        seconds = duration.parse(duration_text) / duration.SECOND
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise Failure(f"--pod-duration: got {duration_text!r}, expected a duration such as 1h")
    return BestEffortPods(
        cpu=amounts.get("cpu", "1"), memory=amounts.get("memory", "2Gi"), seconds=seconds, share=share / 100
    )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0.0:.1f} %"


def _show(to: "Console", found: "Estimate") -> None:
    from rich.table import Table

    to.print(f"{found.recording}: {counted(found.nodes, 'node')}, {lasting(found.recorded_seconds)} recorded")
    table = Table(box=None, show_header=False, pad_edge=False)
    offered = found.offered
    of_all = _percent(offered.mean, found.allocatable_cores)
    table.add_row("batch cores offered, mean", f"{offered.mean:,.1f} ({of_all} of all cores)")
    table.add_row("batch cores offered, fewest and most", f"{found.offered_least:,.1f}, {offered.max:,.1f}")
    table.add_row("batch core-hours offered in a day", f"{found.offered_core_hours_per_day:,.1f}")
    costs = found.best_effort
    if costs is not None and found.best_effort_pods:
        started = f"{found.best_effort_started:,}, {found.best_effort_pods:,}"
        table.add_row("best-effort pods started, of", started)
        table.add_row("core-hours that they used", f"{costs.used_core_hours:,.1f}")
        suppressed = _percent(costs.suppressed_core_hours, costs.wanted_core_hours)
        table.add_row("suppressed, of what they wanted", suppressed)
        table.add_row("evicted in a day", f"{found.evicted_per_day:,.1f}")
        table.add_row("core-hours that these had used", f"{costs.evicted_core_hours:,.1f}")
    if costs is not None:
        table.add_row("core-hours that other pods lacked", f"{costs.throttled_core_hours:,.1f}")
    to.print(table)
    for problem in found.problems:
        to.print(f"[yellow]{problem}[/yellow]", soft_wrap=True)
