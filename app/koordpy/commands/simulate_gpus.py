"""The part of `koordpy simulate` for scenarios of the kind GPUFillScenario."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .options import Failure
from .output import Format, counted, emit
from .progress import Progress

if TYPE_CHECKING:
    from koordpy.simulation.gpus.experiment import Run
    from koordpy.simulation.gpus.scenario import GPUFillScenario
    from koordpy.simulation.gpus.sweep import Task


@dataclass(frozen=True)
class Distribution:
    """Where runs are done: here, or in pods of a cluster, which are given `part` and `sweep`."""

    pods: int | None
    image: str | None
    namespace: str | None
    server: str | None
    kubeconfig: str | None
    context: str | None
    part: str | None
    sweep: str | None

    def check(self, jobs: int | None) -> None:
        """Raise Failure for options that do not go together."""
        about_cluster = self.image or self.namespace or self.server or self.kubeconfig or self.context
        if bool(self.part) != bool(self.sweep):
            raise Failure("--part and --sweep go together")
        if self.pods is None and about_cluster and not self.part:
            raise Failure("--image, --namespace and the options that select a cluster go with --pods")
        if self.pods is not None and (jobs is not None or self.part):
            raise Failure("--pods: each pod does its runs one after the other; it does not go with --jobs")
        if self.pods is not None and not self.image:
            raise Failure("--pods needs --image: an image of koordpy with the packages of the policies")


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
    where: Distribution,
) -> None:
    """Do all runs of a scenario whose tables are in a folder; print tables, draw plots, write a page."""
    from koordpy.simulation.gpus import page as page_of_runs
    from koordpy.simulation.gpus import plots as drawing
    from koordpy.simulation.gpus import report, scenario, sweep

    where.check(jobs)
    told = scenario.load(file)
    if seed is not None:
        told = told.model_copy(update={"seeds": (seed,)})
    tasks = sweep.tasks(told, folder)
    if where.part is not None:
        _do_part(tasks, where)
        return
    if where.pods is not None:
        runs = asyncio.run(_in_pods(file, told, folder, tasks, where, output))
    else:
        runs = _here(told, tasks, jobs or sweep.all_cores(), output)
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


def _here(told: "GPUFillScenario", tasks: "Sequence[Task]", jobs: int, output: Format) -> "list[Run]":
    from koordpy.simulation.gpus import sweep

    with Progress.of(output) as progress:
        show = progress.run(told.name)

        def at(done: int, run: "Run") -> None:
            show(done / len(tasks), f"{done} of {counted(len(tasks), 'run')}, {run.policy} seed {run.seed}")

        return sweep.run_all(tasks, jobs, at)


async def _in_pods(
    file: Path,
    told: "GPUFillScenario",
    folder: Path,
    tasks: "Sequence[Task]",
    where: Distribution,
    output: Format,
) -> "list[Run]":
    """Submit an Indexed Job, follow it, merge what its pods have written, and remove it."""
    from koordpy.simulation.gpus import distributed

    from .known import Access

    name, pods = f"koordpy-sweep-{uuid.uuid4().hex[:6]}", min(where.pods or 1, len(tasks))
    of = distributed.Sweep(name, where.namespace or "default", where.image or "", pods)
    objects = distributed.manifests(of, file, told, folder)
    async with Access(where.server, where.kubeconfig, where.context).client() as client:
        what = f"{counted(len(tasks), 'run')} in {counted(pods, 'pod')}"
        click.echo(f"Job {of.namespace}/{of.name}: {what}", err=True)
        try:
            await distributed.submit(client, of, objects)
            with Progress.of(output) as progress:
                show, said = progress.run(told.name), ""

                def at(done: int, hindrance: str) -> None:
                    nonlocal said
                    show(done / pods, f"{done} of {counted(pods, 'pod')}")
                    if hindrance not in ("", said):
                        said = hindrance
                        click.echo(f"{hindrance} (waiting; Ctrl-C removes the Job)", err=True)

                await distributed.follow(client, of, at)
            runs = await distributed.collect(client, of, tasks)
        except distributed.SweepFailed as error:
            # What pods have logged is needed now, so nothing is removed.
            raise Failure(f"{error}; then {of.removal}") from None
        except BaseException:
            await distributed.remove(client, of)
            raise
        await distributed.remove(client, of)
        return runs


def _do_part(tasks: "Sequence[Task]", where: Distribution) -> None:
    """Do the runs of one pod, and write them to a ConfigMap."""
    from koordpy.simulation.gpus import distributed, sweep

    from .known import Access

    try:
        index, mine = distributed.part_of(where.part or "", tasks)
    except ValueError as error:
        raise Failure(f"--part: {error}") from None
    namespace, _, name = (where.sweep or "").partition("/")
    if not name:
        raise Failure(f"--sweep: got {where.sweep!r}, expected NAMESPACE/NAME")
    runs = sweep.run_all(mine)

    async def write() -> None:
        async with Access(where.server, where.kubeconfig, where.context).client() as client:
            await distributed.write_part(client, namespace, name, index, runs)

    asyncio.run(write())
    click.echo(f"{counted(len(runs), 'run')} written to {namespace}/{name}-{index}")
