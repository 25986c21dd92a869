"""`koordpy descheduler`: what the descheduler of a cluster did, and what its configuration means."""

import json
import sys
from pathlib import Path

import click

from . import descheduling
from .debug_client import DebugServer, follow, get, worker_option
from .options import Failure, output_option
from .output import Format, console, emit

_ROUNDS = "/apis/v1/descheduling/rounds"


@click.group()
def descheduler() -> None:
    """Show what the descheduler does, and what its configuration means."""


@descheduler.command()
@click.argument("number", metavar="[N]", type=click.IntRange(min=1), required=False)
@click.option("--node", "of_node", default="", help="Only what concerns this node.")
@click.option("--pod", default="", metavar="NAMESPACE/POD", help="Only what concerns this pod.")
@click.option("--plugin", default="", help="Only runs of this plugin.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@click.option("--follow", "watch", is_flag=True, help="Show rounds as they end.")
@worker_option
@output_option
def rounds(
    number: int | None,
    of_node: str,
    pod: str,
    plugin: str,
    limit: int,
    watch: bool,
    debug_server: DebugServer,
    output: Format,
) -> None:
    """Show the last rounds, newest first, or all of round N.

    As JSON, --follow prints a line for each round.
    """
    wanted = {name: value for name, value in (("node", of_node), ("pod", pod), ("plugin", plugin)) if value}
    if number is not None:
        if wanted or watch:
            raise click.UsageError("N cannot be combined with --node, --pod, --plugin or --follow")
        found = get(debug_server, f"{_ROUNDS}/{number}")
        emit(found, output, lambda to: descheduling.show_round(to, found))
        return
    wanted["details"] = "false"
    if watch:
        _follow(debug_server, wanted, output)
        return
    some = get(debug_server, _ROUNDS, {**wanted, "limit": limit})
    nothing = "" if some else _why_none(debug_server, of_node, pod, plugin)
    emit(some, output, lambda to: descheduling.show_rounds(to, some, nothing))


def _why_none(server: DebugServer, node: str, pod: str, plugin: str) -> str:
    """Return why no round was found. Raises Failure, such as where no descheduler runs."""
    state = get(server, "/apis/v1/descheduling/state")
    wanted = [f"{what} {name}" for what, name in (("node", node), ("pod", pod), ("plugin", plugin)) if name]
    if state["rounds"] and wanted:
        return f"no remembered round concerns {' and '.join(wanted)}"
    waiting = f"; {state['waiting']}" if state["waiting"] else ""
    return f"no round of the descheduler is remembered{waiting}"


@descheduler.command()
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A DeschedulerConfiguration, or a ConfigMap with one; without it, Koordinator's defaults.",
)
def config(file: Path | None) -> None:
    """Print a configuration as it runs: with all defaults, and the arguments of the enabled plugins."""
    from koordpy.api.config_model import ConfigError
    from koordpy.descheduling.engine.completed import completed

    try:
        document = completed(file)
    except (ConfigError, OSError) as error:
        raise Failure(str(error)) from None
    emit(document, "yaml", lambda to: None)


def _follow(debug_server: DebugServer, wanted: dict[str, str], output: Format) -> None:
    """Print rounds as they end, until the service does. As YAML each is one document. Raises Failure."""
    to = console()
    for each in follow(debug_server, _ROUNDS, [("watch", "true"), *wanted.items()]):
        if output == "text":
            descheduling.show_line(to, each)
        elif output == "json":
            sys.stdout.write(json.dumps(each, ensure_ascii=False) + "\n")
        else:
            import yaml

            sys.stdout.write("---\n" + yaml.safe_dump(each, sort_keys=False, allow_unicode=True))
        sys.stdout.flush()
