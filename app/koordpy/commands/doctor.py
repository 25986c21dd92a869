"""`koordpy doctor`: what a cluster lacks for the enabled features.

Exit codes: 0 when nothing is wrong, 1 with problems, 2 when something could not be examined.
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from .options import Failure, cluster_options, output_option
from .output import Format, counted, emit
from .replica import NAMESPACE

if TYPE_CHECKING:
    from koordpy.cluster.client import Client
    from koordpy.doctor.finding import Report
    from koordpy.settings import Settings

    from .deployed import Deployed

_RENAMED = {"webhooks": "admission", "qos": "agent"}

_DEFAULT_CONFIG = Path("/etc/koordpy/koordpy.yaml")
"""Where the manifests mount koordpy's configuration into its pods."""

_COLOURS = {"ok": "green", "note": "dim", "warning": "yellow", "problem": "red", "unknown": "magenta"}


@click.command(short_help="Check what a cluster lacks for koordpy.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="koordpy's KoordpyConfiguration, as deployed (default: what runs in the cluster).",
)
@click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    help="kube-scheduler's KubeSchedulerConfiguration, whose extender entries are checked (default: that of "
    "the kube-scheduler beside the extender).",
)
@click.option(
    "--koordpy-namespace",
    metavar="NAMESPACE",
    default=NAMESPACE,
    show_default=True,
    help="Where koordpy runs.",
)
@click.option(
    "--parts",
    metavar="LIST",
    help="Deployed parts: admission,extender,controllers,descheduler,agent (default: those of --config).",
)
@click.option(
    "--as", "user", default="", help="The user whose rights to review, e.g. koordpy's service account."
)
@click.option("--feature-gates", default="", help="Feature gates to set, such as A=true,B=false.")
@click.option("--node", is_flag=True, help="Check this node instead, for its agent; needs no cluster.")
@click.option("--all", "everything", is_flag=True, help="Also print what is as needed (text).")
@cluster_options
@output_option
@click.pass_context
def doctor(
    this: click.Context,
    /,
    config: Path | None,
    scheduler_config: Path | None,
    koordpy_namespace: str,
    parts: str | None,
    user: str,
    feature_gates: str,
    node: bool,
    everything: bool,
    output: Format,
    **access: Any,
) -> None:
    """Check a cluster and kube-scheduler's configuration for what the enabled features need.

    Checked are CustomResourceDefinitions, webhook configurations and their caBundle, extender entries,
    NodeMetrics, rights, PriorityClasses, Leases, clocks, pending pods and Reservations without a node, as far
    as the enabled features need them, third-party plugins included. Nothing is changed.

    Which features are enabled is known from --config, else from the ConfigMaps of what runs in the cluster.

    With --node: what this node's kernel supports and what it lacks for which plugin of the node agent, rights
    that are missing, and files that the kubelet writes itself.

    Exit codes: 0 nothing is wrong, 1 there are problems, 2 something could not be examined.
    """
    if node:
        local = _node(config, feature_gates)
        emit(local.model_dump(mode="json"), output, lambda to: _show(to, local, True))
        this.exit(local.exit_code)
    place = Place(config, scheduler_config, koordpy_namespace)
    found = asyncio.run(_examine(place, parts, user, feature_gates, access))
    emit(found.model_dump(mode="json"), output, lambda to: _show(to, found, everything))
    this.exit(found.exit_code)


def _node(config: Path | None, feature_gates: str) -> "Report":
    from koordpy import settings as process_settings
    from koordpy.agent.interface import FlagError
    from koordpy.api.plugin_errors import PluginError
    from koordpy.doctor.node import examine
    from koordpy.lib.feature_gates import FeatureGateError, parse

    try:
        overrides = {"featureGates": parse(feature_gates) or None}
        if config is None and _DEFAULT_CONFIG.exists():
            config = _DEFAULT_CONFIG
        return examine(process_settings.load(config, overrides, os.environ))
    except (FeatureGateError, FlagError, PluginError) as error:
        raise Failure(str(error)) from None


@dataclass(frozen=True)
class Place:
    """Where the configuration of koordpy and kube-scheduler is: in files, else in the cluster."""

    config: Path | None
    scheduler_config: Path | None
    namespace: str


async def _examine(
    place: Place,
    parts: str | None,
    user: str,
    feature_gates: str,
    access: dict[str, Any],
) -> "Report":
    from koordpy import settings as process_settings
    from koordpy.cluster.client import Client
    from koordpy.cluster.connection import Connection
    from koordpy.doctor.examination import Question, examine
    from koordpy.doctor.installation import known_parts, parts_of
    from koordpy.features.feature import Part
    from koordpy.lib.feature_gates import parse
    from koordpy.lib.nearest import suggestion

    overrides = {"client": access, "featureGates": parse(feature_gates) or None}
    settings = process_settings.load(place.config, overrides, os.environ)
    chosen: tuple[Part, ...] = ()
    if parts is not None:
        names = [name.strip() for name in parts.split(",")]
        strangers = [name for name in names if name not in known_parts()]
        for name in strangers:
            if name in _RENAMED:
                raise Failure(f"--parts: {name} is called {_RENAMED[name]} now")
        if strangers:
            raise Failure(f"--parts: got {strangers[0]!r}; {suggestion(strangers[0], known_parts())}")
        chosen = tuple(Part(name) for name in names)
    reach = settings.client
    client = Client(Connection.find(reach.kubeconfig, reach.context, reach.server), timeout=10, attempts=2)
    try:
        with TemporaryDirectory(prefix="koordpy-doctor-") as folder:
            found = await _found(client, place, Path(folder), settings)
            question = Question(
                found.settings,
                chosen or parts_of(found.settings),
                place.scheduler_config or found.scheduler_file,
                user,
                tuple(found.workloads),
                tuple(found.remarks),
            )
            report = await examine(client, question)
    finally:
        await client.close()
    texts = [
        finding.model_copy(
            update={name: found.as_in_pods(getattr(finding, name)) for name in ("subject", "message", "fix")}
        )
        for finding in report.findings
    ]
    return report.model_copy(update={"findings": texts})


async def _found(client: "Client", place: Place, folder: Path, settings: "Settings") -> "Deployed":
    """Return what --config says, else what runs in the cluster, else the defaults, with a remark."""
    from koordpy.cluster.errors import ApiError, ConnectionFailed
    from koordpy.doctor.examination import CONFIGURATION

    from .deployed import Deployed, deployed

    if place.config is not None:
        return Deployed(settings, workloads=[str(place.config)])
    try:
        found = await deployed(client, place.namespace, folder, settings)
    except (ApiError, ConnectionFailed):
        return Deployed(settings)  # the examination says so
    if not found.workloads:
        found.remarks.append(
            CONFIGURATION.note(
                "koordpy",
                f"no workload of koordpy's with a configuration was found in namespace {place.namespace}: "
                "examined is what `koordpy serve` needs by default",
                "--config FILE, --koordpy-namespace NAMESPACE",
            )
        )
    return found


def _show(to: Console, report: "Report", everything: bool) -> None:
    """Print what is wrong by area, then the number of findings in each state."""
    area = None
    skipped = [finding for finding in report.findings if finding.state == "skipped"]
    shown = [
        finding
        for finding in report.findings
        if finding not in skipped and (everything or finding.state != "ok")
    ]
    fixes = [(finding.area, finding.fix) for finding in shown]
    for finding, following in zip(shown, [*fixes[1:], None], strict=True):
        if finding.area != area:
            area = finding.area
            to.print(f"[bold]{area}[/bold]")
        colour = _COLOURS[finding.state.value]
        to.print(
            f"  [{colour}]{finding.state.value:<8}[/{colour}] {escape(finding.subject)}: "
            f"{escape(' '.join(finding.message.split()))}"
        )
        if finding.fix and following != (finding.area, finding.fix):
            to.print(f"           [dim]-> {escape(finding.fix)}[/dim]")
    if skipped:
        to.print("[bold]not examined[/bold]")
    for finding in skipped:
        to.print(f"  [dim]{escape(finding.area)}: {escape(finding.message)}[/dim]")
    for source in dict.fromkeys(report.configurations):
        to.print(f"[dim]configured by {escape(source)}[/dim]")
    counts = [counted(number, state.value) for state, number in report.counts.items() if number]
    counts = [
        text.replace("oks", "ok").replace("unknowns", "unknown").replace("skippeds", "skipped")
        for text in counts
    ]
    to.print(f"{escape(report.server)} ({', '.join(report.parts)}): {', '.join(counts)}")
