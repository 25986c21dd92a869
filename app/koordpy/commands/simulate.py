"""`koordpy simulate`: replay a scenario under one or several schedulers; tables and plots."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from .options import Failure, output_option
from .output import Format, console, emit


@click.command()
@click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="A Scenario (docs/simulation.md).",
)
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(path_type=Path),
    help="Two SchedulerSetup or KubeSchedulerConfiguration files, instead of the scenario's schedulers.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the files that the scenario names (default: the scenario's own).",
)
@click.option(
    "--plot",
    "plots",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw a page of plots into a .png or .svg file (may be given twice).",
)
@click.option("--seed", type=click.IntRange(min=0), help="Instead of the scenario's seed.")
@click.option("--placements", is_flag=True, help="With -o json or yaml: list every pod's node.")
@output_option
@click.pass_obj
def simulate(
    obj: dict[str, Any],
    file: Path,
    compare: tuple[Path, Path] | None,
    data: Path | None,
    plots: tuple[Path, ...],
    seed: int | None,
    placements: bool,
    output: Format,
) -> None:
    """Replay a workload on a simulated cluster, with the production code on simulated time."""
    from koordpy.main import set_up_logging
    from koordpy.simulation import plots as drawing
    from koordpy.simulation import report, scenario, simulation
    from koordpy.simulation import setup as scheduling

    for plot in plots:
        drawing.check(plot)
    if obj["verbose"]:
        set_up_logging(obj["verbose"])
    told = scenario.load(file)
    if seed is not None:
        told = told.model_copy(update={"seed": seed})
    setups: Sequence[scheduling.SchedulerSetup] = told.schedulers
    if compare:
        setups = [scheduling.load_setup(path) for path in compare]
        if setups[0].name == setups[1].name:
            raise Failure(f"--compare: both are named {setups[0].name!r}; rename one of them")
    folder = data or file.parent
    results = []
    to = console()
    for setup in setups:
        with _Progress(setup.name) as progress:
            results.append(simulation.simulate(told, setup, folder, progress=progress))
    for plot in plots:
        drawing.draw(results, plot)
    emit(report.document(results, placements=placements), output, lambda to: report.show(to, results))
    if output == "text":
        for plot in plots:
            to.print(f"plots: {plot}")


class _Progress:
    """Shows the progress of a simulation on standard error, if that is a terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console

        self._name, self._to = name, Console(stderr=True)
        self._status: Any = None

    def __enter__(self) -> Callable[[float, float], None]:
        self._status = self._to.status(self._name) if self._to.is_terminal else nullcontext()
        self._status.__enter__()
        return self._tell

    def __exit__(self, *error: Any) -> None:
        self._status.__exit__(*error)

    def _tell(self, now: float, horizon: float) -> None:
        if self._to.is_terminal and horizon:
            self._status.update(f"{self._name}: {min(now / horizon, 1):.0%}")
