"""The part of `koordpy simulate` for scenarios of the kind GPUFillScenario."""

from collections.abc import Sequence
from pathlib import Path

import click

from .output import Format, counted, emit
from .progress import Progress


def fills_gpus(file: Path) -> bool:
    """Return whether a file holds a GPUFillScenario. Raises ConfigError, OSError."""
    from koordpy.simulation.gpus import scenario

    return scenario.is_kind(file)


def fill_gpus(
    file: Path,
    folder: Path,
    plots: Sequence[Path],
    page: Path | None,
    seed: int | None,
    jobs: int | None,
    output: Format,
) -> None:
    """Do all runs of a scenario whose tables are in a folder; print tables, draw plots, write a page."""
    from koordpy.simulation.gpus import page as page_of_runs
    from koordpy.simulation.gpus import plots as drawing
    from koordpy.simulation.gpus import report, scenario, sweep
    from koordpy.simulation.gpus.experiment import Run

    told = scenario.load(file)
    if seed is not None:
        told = told.model_copy(update={"seeds": (seed,)})
    tasks = sweep.tasks(told, folder)
    with Progress.of(output) as progress:
        show = progress.run(told.name)

        def at(done: int, run: Run) -> None:
            show(done / len(tasks), f"{done} of {counted(len(tasks), 'run')}, {run.policy} seed {run.seed}")

        runs = sweep.run_all(tasks, jobs or sweep.all_cores(), at)
    for plot in plots:
        drawing.draw(told, runs, plot)
    if page is not None:
        page_of_runs.write(told, runs, page)
    emit(report.document(told, runs), output, lambda to: report.show(to, told, runs))
    if output == "text":
        for plot in plots:
            click.echo(f"plots: {plot}")
        if page is not None:
            click.echo(f"report: {page}")
