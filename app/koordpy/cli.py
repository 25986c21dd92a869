"""The command line: `koordpy COMMAND`. Commands read options, call other modules, and print.

Every error is one clear line on standard error and a non-zero exit code. Commands import what they need
when they run, so that small ones start fast.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from koordpy import __version__
from koordpy.commands.completion import complete_for_kubectl
from koordpy.commands.debug_client import DebugServer, address, component_option, transport
from koordpy.commands.lazy_group import LazyGroup
from koordpy.commands.options import Failure, output_option
from koordpy.commands.output import Format, console, emit
from koordpy.lib import garbage

if TYPE_CHECKING:
    from rich.console import Console


_COMMANDS: Final = {
    "agent": "koordpy.commands.running:agent",
    "audit": "koordpy.commands.audit:audit",
    "break-glass": "koordpy.commands.break_glass:break_glass",
    "colocate": "koordpy.commands.colocate:colocate",
    "completion": "koordpy.commands.completion:completion",
    "descheduler": "koordpy.commands.descheduler:descheduler",
    "doctor": "koordpy.commands.doctor:doctor",
    "features": "koordpy.commands.features:features",
    "gang": "koordpy.commands.gang:gang",
    "plugin": "koordpy.commands.plugin:plugin",
    "profile": "koordpy.commands.profile:profile",
    "qos": "koordpy.commands.qos:qos",
    "quota": "koordpy.commands.quota:quota",
    "record": "koordpy.commands.record:record",
    "serve": "koordpy.commands.running:serve",
    "simulate": "koordpy.commands.simulate:simulate",
    "whatif": "koordpy.commands.whatif:whatif",
    "why": "koordpy.commands.why:why",
    "worker": "koordpy.commands.running:worker",
}
"""Commands by name, and where they are."""


@click.group(
    cls=LazyGroup,
    lazy=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("-v", "--verbose", count=True, help="Log more; given twice, log everything.")
@click.option("--traceback", is_flag=True, help="Show where an unexpected error came from.")
@click.pass_context
def cli(context: click.Context, verbose: int, traceback: bool) -> None:
    """Koordinator's colocation, QoS and scheduling behaviour on a stock Kubernetes cluster."""
    context.obj = {"verbose": verbose, "traceback": traceback}


# --- running ---------------------------------------------------------------------------------------


@cli.command()
@click.option(
    "--exit", "leave", is_flag=True, help="Exit after the last step; exit code 0 only if all steps happened."
)
@click.option("--nodes", default=50, show_default=True, help="Nodes of the demo cluster.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A KoordpyConfiguration file for webhooks, extender and debug API.",
)
@click.option("--scheduler-config", help="KubeSchedulerConfiguration with the plugins to run.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the API server (default: 8001, or any if taken; 0: any for all listeners).",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), help="Where to write the kubeconfig of the cluster."
)
@click.option(
    "--endpoints",
    type=click.Path(path_type=Path),
    help="Write the URLs of everything to this file, as JSON, when all of it answers.",
)
@click.pass_obj
def demo(obj: dict[str, Any], /, leave: bool, endpoints: Path | None, **options: Any) -> None:
    """Run a whole cluster on this machine and show koordpy's features.

    It is the cluster of the kubeconfig that it writes, and removes when it ends.
    """
    from koordpy.commands.demo import story
    from koordpy.commands.demo.cluster import DemoOptions
    from koordpy.main import set_up_logging

    if obj["verbose"]:
        set_up_logging(obj["verbose"])
    story.run(console(), DemoOptions(**options), leave=leave, endpoints=endpoints)


@cli.command(short_help="Generate a development CA and a server certificate.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=Path("certs"),
    show_default=True,
    help="Folder to write them to.",
)
@click.option(
    "--host",
    multiple=True,
    default=("localhost", "127.0.0.1"),
    show_default=True,
    help="Host name or address that the certificate is for (may be given several times).",
)
def certs(directory: Path, host: tuple[str, ...]) -> None:
    """Generate or renew a development certificate authority and server certificate."""
    from datetime import UTC, datetime

    from koordpy.lib import certificates

    certificates.ensure(directory, host, datetime.now(UTC))
    click.echo(f"{directory}: certificate for {', '.join(host)}, authority {certificates.CA_CERT}")


# --- information -----------------------------------------------------------------------------------


@cli.command()
@output_option
def version(output: Format) -> None:
    """Print the version and the installed plugins."""
    from koordpy.api.catalogue import Catalogue
    from koordpy.api.plugin import BasePlugin

    kinds = (
        "admission",
        "lint",
        "scheduling",
        "descheduling",
        "controllers",
        "noderesources",
        "collectors",
        "qos",
        "hooks",
    )
    plugins = {kind: list(Catalogue(f"koordpy.{kind}", BasePlugin)) for kind in kinds}
    found = {"version": __version__, "python": sys.version.split()[0], "plugins": plugins}

    def text(to: "Console") -> None:
        to.print(f"koordpy {__version__} (Python {found['python']})")
        for kind, names in plugins.items():
            to.print(f"  {kind}: {', '.join(names) or 'none'}")

    emit(found, output, text)


@cli.command()
@component_option
@click.option("--live", is_flag=True, help="Check liveness instead of readiness.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=2.5,
    show_default=True,
    help="Seconds that the answer may take.",
)
def health(debug_server: DebugServer, live: bool, timeout: float) -> None:
    """Check the readiness of a running koordpy (for probes: exit code 0 or 1)."""
    import httpx

    url = f"{address(debug_server)}{'/livez' if live else '/readyz'}"
    try:
        answer = httpx.get(url, params={"verbose": ""}, timeout=timeout, **transport(debug_server))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Failure(f"{debug_server.subject or url}: {debug_server.error() or error}") from None
    click.echo(answer.text.rstrip())
    if answer.status_code != 200:
        raise Failure(f"{debug_server.subject or url} answered {answer.status_code}")


# --- entry point -----------------------------------------------------------------------------------


def _expected_errors() -> tuple[type[BaseException], ...]:
    from koordpy.api.config_model import ConfigError
    from koordpy.api.scheme import DecodeError
    from koordpy.cluster.connection import ConnectionConfigError
    from koordpy.cluster.errors import ApiError
    from koordpy.lib.certificates import CertificateError

    return (
        ApiError,
        CertificateError,
        ConfigError,
        ConnectionConfigError,
        DecodeError,
        OSError,
    )


def kubectl_main() -> None:
    """Run the command line as kubectl's plugin (console script `kubectl-koordpy`)."""
    from koordpy.commands import kubectl

    _run(kubectl.plugin_of(cli), kubectl.NAME)


def kubectl_complete() -> None:
    """Complete words for kubectl (console script `kubectl_complete-koordpy`)."""
    complete_for_kubectl(cli)


def main() -> None:
    """Run the command line (console script `koordpy`)."""
    _run(cli, None)


def _run(group: click.Group, name: str | None) -> None:
    garbage.collect_seldom()
    try:
        sys.exit(group.main(prog_name=name, standalone_mode=False))  # the command's exit code, else 0
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        help_ = " (see --help)" if isinstance(error, click.UsageError) else ""
        _complain(f"{error.format_message()}{help_}")
        sys.exit(error.exit_code)
    except Exception as error:
        if "--traceback" in sys.argv:
            raise
        _complain(_message(error))
        sys.exit(1)


def _complain(message: str) -> None:
    """Print an error as one line; what the terminal cannot show is escaped."""
    line = f"koordpy: {' '.join(message.split())}"
    click.echo(line.encode("utf-8", "backslashreplace").decode("utf-8"), err=True)


def _message(error: Exception) -> str:
    """Return the message for an error: its own if the user can fix it, else that it is internal."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, UnicodeError) and "idna" in str(error):  # of the resolver, for any address
        return "an address has a host name with an empty label, or one of more than 63 characters"
    if isinstance(error, _expected_errors()) or type(error).__module__.startswith("koordpy."):
        return str(error)
    return f"internal error: {type(error).__name__}: {error} (--traceback shows where)"
