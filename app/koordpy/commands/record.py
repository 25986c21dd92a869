"""`koordpy record`: a scenario of a live cluster, for `koordpy simulate`."""

import asyncio
import signal
from pathlib import Path

import click

from .options import Failure, cluster_options
from .output import counted
from .progress import Progress, lasting


@click.command()
@cluster_options
@click.option(
    "--to",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("scenario.yaml"),
    show_default=True,
    help="The scenario's file; the table of its pods is written beside it.",
)
@click.option(
    "--duration",
    default="0s",
    show_default=True,
    help="How long to watch; Ctrl-C ends it earlier. 0s: a snapshot of the present state.",
)
@click.option("--name", default="recorded", show_default=True, help="The scenario's name.")
@click.option("--anonymous", is_flag=True, help="Change the names of nodes, namespaces, pods and labels.")
def record(
    path: Path,
    duration: str,
    name: str,
    anonymous: bool,
    server: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Record a live cluster as a scenario for `koordpy simulate`.

    Without --duration it is a snapshot: the nodes and pods that exist now. With it, the cluster is watched
    for that time, and pods that are created and deleted meanwhile are part of the scenario. Nothing is
    changed in the cluster; Secrets are not read.
    """
    from koordpy.lib import duration as durations
    from koordpy.simulation import recorder
    from koordpy.simulation.masking import Masking

    from .known import Access

    try:
        seconds = durations.parse(duration) / durations.SECOND
    except ValueError as error:
        raise Failure(f"--duration: {error}") from None
    if seconds < 0:
        raise Failure(f"--duration: got {duration!r}, expected how long to watch, or 0s")
    if not path.parent.is_dir():
        raise Failure(f"--to: {path}: folder {path.parent} does not exist")

    async def watch() -> recorder.Recording:
        stopping = asyncio.Event()
        if seconds:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stopping.set)
        async with Access(server, kubeconfig, context).client() as client:
            what = (
                f"for {lasting(seconds)} (Ctrl-C ends it earlier)" if seconds else "as it is now (a snapshot)"
            )
            click.echo(f"recording {client.connection.server} {what}", err=True)
            masked = recorder.Recorder(client, Masking(anonymous=anonymous))
            with Progress() as progress:
                show = progress.run("recording")
                return await masked.record(seconds, stopping=stopping, progress=show)

    recording = asyncio.run(watch())
    table = recorder.write(recording, path, name=name)
    click.echo(
        f"{path}, {table}: {counted(len(recording.nodes), 'node')}, {counted(len(recording.pods), 'pod')}, "
        f"{counted(len(recording.objects), 'other object')}"
    )
