"""`koordpy qos`: what the node agent changed on its node, why, and taking it back.

Changes are undone here and not by the agent: it works with the agent stopped, too, and a running agent
notices it before its next write.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

import click

from .options import Failure, output_option
from .output import Format, counted, emit

if TYPE_CHECKING:
    from rich.console import Console

    from koordpy.agent.cgroups.changes import Changes
    from koordpy.agent.cgroups.files import CgroupFiles
    from koordpy.agent.cgroups.pauses import Pause

AGENT_URL: Final = "http://127.0.0.1:10253"
PATH: Final = "/apis/v1/changes"

_folder_option = click.option(
    "--changes-dir",
    type=click.Path(path_type=Path),
    default="/var/run/koordlet/changes",
    show_default=True,
    help="Where the agent remembers what it changed; its flag of the same name.",
)


@click.group(short_help="What the node agent changed, and taking it back.")
def qos() -> None:
    """Show what the node agent changed on this node, undo it, and let it work again."""


@qos.command()
@click.argument("target", default="")
@click.option("--agent", metavar="URL", default=AGENT_URL, show_default=True, help="The running agent.")
@click.option("--offline", is_flag=True, help="Do not ask the agent; read what it remembered.")
@click.option(
    "--var-lib-kubelet-dir",
    "kubelet_dir",
    type=click.Path(path_type=Path),
    default="/var/lib/kubelet",
    show_default=True,
    help="The kubelet's folder, to find what it writes itself.",
)
@_folder_option
@output_option
def explain(
    target: str, agent: str, offline: bool, kubelet_dir: Path, changes_dir: Path, output: Format
) -> None:
    """Show original and current values, who changed them, when, and how they were computed.

    TARGET is a cgroup directory such as kubepods/besteffort, or a pod as NAMESPACE/NAME or UID (with a
    running agent); without it everything is shown.
    """
    found = None if offline else _asked(agent, target)
    if found is None:
        from koordpy.agent.cgroups import kubelet
        from koordpy.agent.cgroups.explanation import directory_of
        from koordpy.agent.cgroups.explanation import explain as explained

        remembered = _remembered(changes_dir)
        on_v2 = [files for files, _ in remembered if files.unified]
        documents = [explained(files, changes, directory_of(files, target)) for files, changes in remembered]
        found = {
            "changes": [change for document in documents for change in document["changes"]],
            "paused": [pause for document in documents for pause in document["paused"]],
            "leftAlone": kubelet.find(kubelet_dir, on_v2[0].proc_root).left_alone if on_v2 else {},
        }
    emit(found, output, lambda to: _show(to, found))


@qos.command()
@click.argument("path", required=False)
@click.option("--all", "everything", is_flag=True, help="Everything that the agent changed.")
@click.option("--plugin", metavar="NAME", help="What one plugin changed.")
@click.option("--force", is_flag=True, help="Restore values that somebody else changed since, too.")
@click.option(
    "--until-restart", is_flag=True, help="The agent works again when it is started the next time (preStop)."
)
@_folder_option
@output_option
@click.pass_context
def undo(
    this: click.Context,
    /,
    path: str | None,
    everything: bool,
    plugin: str | None,
    force: bool,
    until_restart: bool,
    changes_dir: Path,
    output: Format,
) -> None:
    """Restore original values below PATH, of a plugin, or of everything.

    The agent, running or not, leaves alone what was undone until `koordpy qos enable`. Values that somebody
    else changed after the agent are reported and kept. Exit code 1 if something could not be restored.
    """
    from koordpy.agent.cgroups.changes import ChangesError
    from koordpy.agent.cgroups.explanation import directory_of, outcome
    from koordpy.agent.cgroups.undo import Undo

    results: list[dict[str, Any]] = []
    for files, changes in _remembered(changes_dir):
        pause = _pause(path and directory_of(files, path), everything, plugin, until_restart)
        try:
            found = [outcome(result) for result in Undo(files, changes, force).run(pause)]
        except (ChangesError, ValueError) as error:
            raise Failure(str(error)) from None
        results += found
        if changes.place is not None and changes.place.audit_dir:
            _audit(Path(changes.place.audit_dir), found)
    emit({"results": results}, output, lambda to: _show_results(to, results))
    this.exit(1 if any(result["outcome"] == "failed" for result in results) else 0)


@qos.command()
@click.argument("path", required=False)
@click.option("--all", "everything", is_flag=True, help="Everything that was undone.")
@click.option("--plugin", metavar="NAME", help="One plugin.")
@_folder_option
def enable(path: str | None, everything: bool, plugin: str | None, changes_dir: Path) -> None:
    """Let the agent change again what was undone: below PATH, by a plugin, or everything."""
    from koordpy.agent.cgroups.explanation import directory_of
    from koordpy.agent.cgroups.undo import enable as end

    found = False
    for files, changes in _remembered(changes_dir):
        pause = _pause(path and directory_of(files, path), everything, plugin, False)
        found |= end(changes, pause.scope, pause.value)
    if not found:
        raise Failure("that was not undone; `koordpy qos explain` shows what is paused")
    click.echo("enabled; the agent writes again within a few seconds")


def _audit(folder: Path, results: list[dict[str, Any]]) -> None:
    """Add what was restored to the agent's audit log; undoing does not depend on it."""
    from koordpy.agent.reporting.audit.files import AuditFiles, event_line
    from koordpy.lib.clock import SystemClock

    log, now = AuditFiles(folder), SystemClock().now()
    try:
        for result in results:
            if result["outcome"] == "restored":
                what = f"{result['resource']} of {result['directory'] or '/'}"
                log.append(event_line(now, "Undo", f"restore {what} to {result['original']}"), now)
    except OSError as error:
        click.echo(f"the audit log in {folder} cannot be written: {error.strerror}", err=True)
    finally:
        log.close()


def _pause(directory: str | None, everything: bool, plugin: str | None, until_restart: bool) -> "Pause":
    from koordpy.agent.cgroups.pauses import Pause, Scope
    from koordpy.lib.clock import SystemClock

    if [directory is not None, everything, plugin is not None].count(True) != 1:
        raise Failure("give one of PATH, --plugin NAME and --all")
    since = SystemClock().now().timestamp()
    if everything:
        return Pause(Scope.ALL, "", since, until_restart)
    if plugin is not None:
        return Pause(Scope.PLUGIN, plugin, since, until_restart)
    return Pause(Scope.PATH, directory or "", since, until_restart)


def _remembered(folder: Path) -> "list[tuple[CgroupFiles, Changes]]":
    from koordpy.agent.cgroups.changes import ChangesError
    from koordpy.agent.cgroups.opened import remembered

    try:
        return remembered(folder)
    except ChangesError as error:
        raise Failure(str(error)) from None


def _asked(agent: str, target: str) -> dict[str, Any] | None:
    """Return the agent's answer; None if there is no agent at the address."""
    try:
        with urlopen(f"{agent}{PATH}?target={quote(target)}", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
    except (URLError, ValueError, OSError):
        return None
    return found


def _show(to: "Console", found: dict[str, Any]) -> None:
    from rich.markup import escape

    for pause in found["paused"]:
        name = "everything" if pause["scope"] == "all" else f"{pause['scope']} {pause['value']}"
        until = " until the agent is restarted" if pause["untilRestart"] else ""
        to.print(f"[yellow]left alone[/yellow] since {pause['since']}: {escape(name)}{until}")
    for resource, reason in found["leftAlone"].items():
        to.print(f"[yellow]left alone[/yellow] {resource}: {escape(reason)}")
    directory = None
    for change in found["changes"]:
        if change["directory"] != directory:
            directory = change["directory"]
            to.print(f"[bold]{escape(directory or '/')}[/bold]")
        part = f" {change['part']}" if change["part"] else ""
        to.print(f"  {change['resource']}{part}: {escape(change['original'])} -> {escape(change['written'])}")
        if change["changedByOthers"]:
            to.print(f"    [red]somebody else has set it to {escape(str(change['current']))}[/red]")
        by = change["plugin"] or "the agent"
        to.print(f"    by {by} ({escape(change['reason'])}) at {change['lastChanged']}")
        if change["formula"]:
            to.print(f"    {escape(change['formula'])}")
    to.print(f"{counted(len(found['changes']), 'changed value')}")


def _show_results(to: "Console", results: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    counts: dict[str, int] = {}
    for result in results:
        kind = result["outcome"]
        counts[kind] = counts.get(kind, 0) + 1
        if kind in ("unchanged", "gone"):
            continue
        name = f"{result['directory'] or '/'} {result['resource']} {result['part']}".rstrip()
        text = f"{result['current']} -> {result['original']}"
        if kind == "changed by others":
            text = f"is {result['current']}, not {result['written']}; --force restores {result['original']}"
        to.print(f"{kind:<9} {escape(name)}: {escape(text)}{escape(' ' + result['error'])}".rstrip())
    to.print(", ".join(f"{number} {kind}" for kind, number in counts.items()) or "nothing had been changed")
