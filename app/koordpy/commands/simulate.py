"""`koordpy simulate`: replay a scenario under one or several schedulers; tables and plots."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from .options import Failure, cluster_options, output_option
from .output import Format, console, emit
from .progress import Progress, lasting
from .simulate_gpus import Distribution, fill_gpus, fills_gpus


@click.command(short_help="Replay a workload on a simulated cluster.")
@click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    type=click.Path(path_type=Path),
    help="The Scenario to replay, such as `koordpy record` writes.",
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
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write tables and plots as one .html file that needs nothing else.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of random numbers, instead of the scenario's.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="With a GPUFillScenario: how many processors its runs use (default: all).",
)
@click.option(
    "--pods",
    type=click.IntRange(min=1),
    help="With a GPUFillScenario: do the runs in so many pods of a Kubernetes cluster, as an Indexed Job.",
)
@click.option("--image", help="With --pods: an image of koordpy with the packages of the policies.")
@click.option("--namespace", "-n", help="With --pods: the namespace of the Job (default: default).")
@cluster_options
@click.option("--part", hidden=True)
@click.option("--sweep", hidden=True)
@click.option("--placements", is_flag=True, help="With -o json or yaml: list every pod's node.")
@output_option
@click.pass_obj
def simulate(
    obj: dict[str, Any],
    /,
    file: Path,
    compare: tuple[Path, Path] | None,
    data: Path | None,
    plots: tuple[Path, ...],
    page: Path | None,
    seed: int | None,
    jobs: int | None,
    placements: bool,
    output: Format,
    **distribution: Any,
) -> None:
    """Replay a workload on a simulated cluster, with the production code on simulated time.

    The tables compare the schedulers of the scenario, or the two of --compare: how long pods waited for a
    node, how full and how hot the nodes were. For a GPUFillScenario they compare its policies: how many GPUs
    stay unallocated, and how many of these are in pieces that pods cannot use.
    """
    from koordpy.main import set_up_logging
    from koordpy.simulation import page as page_of_results
    from koordpy.simulation import plots as drawing
    from koordpy.simulation import report, scenario, simulation
    from koordpy.simulation import setup as scheduling

    for plot in plots:
        drawing.check(plot)
    if page is not None:
        drawing.check(page, page_of_results.FORMATS)
    if obj["verbose"]:
        set_up_logging(obj["verbose"])
    if fills_gpus(file):
        if compare or placements:
            raise Failure("--compare and --placements are for the kind Scenario, this is a GPUFillScenario")
        fill_gpus(file, data or file.parent, plots, page, seed, jobs, output, Distribution(**distribution))
        return
    if jobs is not None or any(distribution.values()):
        raise Failure("--jobs, --pods and options about a cluster are for the kind GPUFillScenario")
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
    with Progress.of(output, len(setups)) as progress:
        for setup in setups:
            show = progress.run(setup.name)

            def at(now: float, horizon: float, show: Callable[[float, str], None] = show) -> None:
                simulated = f"{lasting(now)} of {lasting(max(now, horizon))} simulated"
                show(now / horizon if horizon else 0.0, simulated)

            results.append(simulation.simulate(told, setup, folder, progress=at))
    for plot in plots:
        drawing.draw(results, plot)
    if page is not None:
        page_of_results.write(results, page)
    emit(report.document(results, placements=placements), output, lambda to: report.show(to, results))
    if output == "text":
        for plot in plots:
            to.print(f"plots: {plot}")
        if page is not None:
            to.print(f"report: {page}")
