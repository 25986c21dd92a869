"""`koordpy plugin`: create the package of a new plugin, and measure a plugin."""

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from . import plugin_package
from .options import Failure, output_option
from .output import Format, counted, emit


@click.group()
def plugin() -> None:
    """Create the package of a new plugin, or measure a plugin."""


@plugin.command(short_help="Write the package of a new plugin.")
@click.argument("kind", type=click.Choice(list(plugin_package.KINDS)))
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The folder to create it in (default: the working directory).",
)
@click.option(
    "--validating", is_flag=True, help="Of kind admission: a handler that refuses objects and changes none."
)
def new(kind: str, name: str, into: Path, validating: bool) -> None:
    """Write a package with a plugin, its arguments, its tests and its entry point.

    NAME is the class, such as ZoneGuard, and the plugin's name in configuration files; admission handlers
    have their webhook before it there (mutate-pod.ZoneGuard).
    """
    try:
        written = plugin_package.write(kind, name, into, validating=validating)
    except (plugin_package.BadName, OSError) as error:
        raise Failure(str(error)) from None
    for path in written:
        click.echo(f"  {path}")
    root = written[0].parent
    click.echo(f"\nNext:\n  pip install -e {root} pytest pytest-asyncio\n  pytest {root}")


@plugin.command(short_help="Measure the time of a plugin's extension points.")
@click.argument("name")
@click.option(
    "--nodes", type=click.IntRange(min=1), default=5000, show_default=True, help="Nodes of the cluster."
)
@click.option(
    "--calls",
    type=click.IntRange(min=10),
    default=200,
    show_default=True,
    help="How often to call each extension point.",
)
@output_option
def measure(name: str, nodes: int, calls: int, output: Format) -> None:
    """Call an installed scheduling plugin on a synthetic cluster and print each extension point's time."""
    from koordpy.scheduling.profiles.registry import installed
    from koordpy.testing.measure import costs, crowd

    if name not in installed():
        raise Failure(installed().missing(name))
    found = costs(name, crowd(nodes), calls=calls)
    rows = [
        {
            "point": cost.point,
            "medianMicroseconds": round(cost.median, 1),
            "p99Microseconds": round(cost.p99, 1),
        }
        for cost in found
    ]

    def show(to: Console) -> None:
        table = Table(box=None, padding=(0, 2), pad_edge=True)
        table.add_column(f"{name}, {counted(nodes, 'node')}")
        table.add_column("median, µs", justify="right")
        table.add_column("p99, µs", justify="right")
        for row in rows:
            median, p99 = row["medianMicroseconds"], row["p99Microseconds"]
            table.add_row(str(row["point"]), f"{median:,}", f"{p99:,}")
        to.print(table)

    emit({"plugin": name, "nodes": nodes, "points": rows}, output, show)
