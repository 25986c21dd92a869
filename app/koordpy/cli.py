"""The command line: `koordpy COMMAND`. Commands read options, call, and print; what they do is elsewhere.

Whatever goes wrong is one clear line on standard error and a non-zero exit code. Commands import what they
need themselves, so that small ones answer at once.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from koordpy import __version__
from koordpy.commands import qos_flags
from koordpy.commands.asking import address, server_option
from koordpy.commands.doctor import doctor
from koordpy.commands.features import features
from koordpy.commands.options import Failure, output_option
from koordpy.commands.output import Format, console, emit
from koordpy.commands.plugin import plugin
from koordpy.commands.profile import profile
from koordpy.commands.qos_flags import QOSFlagsCommand
from koordpy.commands.record import record
from koordpy.commands.simulate import simulate
from koordpy.commands.whatif import whatif
from koordpy.commands.why import why

if TYPE_CHECKING:
    from rich.console import Console


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("-v", "--verbose", count=True, help="Log more; twice for everything.")
@click.option("--traceback", is_flag=True, help="Show where an unexpected error came from.")
@click.pass_context
def cli(context: click.Context, verbose: int, traceback: bool) -> None:
    """Koordinator's colocation, QoS and scheduling behaviour on a stock Kubernetes cluster."""
    context.obj = {"verbose": verbose, "traceback": traceback}


# --- running ---------------------------------------------------------------------------------------


def _process_options(command: Any) -> Any:
    for option in (
        click.option("--config", type=click.Path(path_type=Path), help="A KoordpyConfiguration file."),
        click.option("--server", help="API server URL, instead of a kubeconfig."),
        click.option(
            "--kubeconfig", help="Kubeconfig file (default: $KUBECONFIG, ~/.kube/config, the pod's)."
        ),
        click.option("--context", "kube_context", help="Context of the kubeconfig."),
        click.option("--feature-gates", default="", help="A=true,B=false"),
        click.option("--debug-bind", help="ADDRESS:PORT of health and debug API."),
    ):
        command = option(command)
    return command


@cli.command()
@_process_options
@click.option("--doors", help="Which doors to open: admission,extender,debug (default: all).")
@click.option("--admission-bind", help="ADDRESS:PORT of the webhooks (HTTPS).")
@click.option("--extender-bind", help="ADDRESS:PORT of the scheduler extender.")
@click.option("--cert-dir", help="Folder of the webhooks' certificate; made there when it holds none.")
@click.option("--tls-host", multiple=True, help="Host name or address in a certificate that is made.")
@click.option("--scheduler-config", help="KubeSchedulerConfiguration with the plugins to run.")
@click.option(
    "--node-choice",
    type=click.Choice(["kube-scheduler", "koordpy"]),
    help="Who chooses among the nodes that fit (default: kube-scheduler).",
)
@click.option(
    "--controller-plugins",
    metavar="LIST",
    help="Plugins whose controllers run, such as *,-Reservation (default: all).",
)
@click.option("--no-leader-elect", is_flag=True, help="Do what the leader does without holding the lease.")
@click.pass_obj
def serve(obj: dict[str, Any], /, **options: Any) -> None:
    """Serve webhooks, the scheduler extender and the debug API."""
    from koordpy import main as runtime
    from koordpy import settings as process_settings

    overrides = _common_overrides(options)
    overrides["doors"] = options["doors"].split(",") if options["doors"] else None
    overrides["admission"] = {
        **_bind(options["admission_bind"], "--admission-bind"),
        "certDir": options["cert_dir"],
        "tlsHosts": list(options["tls_host"]) or None,
    }
    overrides["extender"] = {
        **_bind(options["extender_bind"], "--extender-bind"),
        "schedulerConfig": options["scheduler_config"],
        "nodeChoice": options["node_choice"],
        "controllerPlugins": _controllers(options["controller_plugins"]),
        "leaderElect": False if options["no_leader_elect"] else None,
    }
    runtime.set_up_logging(obj["verbose"])
    runtime.serve(process_settings.load(options["config"], overrides, os.environ))


@cli.command(cls=QOSFlagsCommand)
@_process_options
@click.option("--descheduler", is_flag=True, help="Host the descheduler (leader-elected).")
@click.option(
    "--controllers",
    is_flag=False,
    flag_value="*",
    metavar="[LIST]",
    help="Host the controllers (leader-elected): all, or those of a list such as *,-nodeslo.",
)
@click.option("--qos", is_flag=True, help="Host the QoS manager of this node.")
@click.option("--descheduler-config", help="DeschedulerConfiguration file.")
@click.option(
    "--controller-arg",
    multiple=True,
    metavar="NAME.FIELD=VALUE",
    help="An argument of a controller, e.g. colocationprofile.reconcileByDefault=true.",
)
@click.option("--dry-run", is_flag=True, help="Descheduler: decide, but evict nothing.")
@click.option(
    "--evict-with",
    multiple=True,
    metavar="NAME=INSTEAD",
    help="Use an installed evictor where the configuration names one that is not (e.g. "
    "MigrationController=DefaultEvictor).",
)
@click.option("--node-name", help="QoS: this node's name (default: $NODE_NAME).")
@click.pass_obj
def worker(obj: dict[str, Any], /, **options: Any) -> None:
    """Host the descheduler, the controllers, the QoS manager, or several of them."""
    from koordpy import main as runtime
    from koordpy import settings as process_settings

    overrides = _common_overrides(options)
    substitutes = dict(_pair(text, "--evict-with") for text in options["evict_with"])
    overrides["worker"] = {
        "descheduler": {
            "config": options["descheduler_config"],
            "dryRun": True if options["dry_run"] else None,
            "substituteEvictors": substitutes or None,
        },
        "qos": {
            "nodeName": options["node_name"],
            "flags": qos_flags.given(click.get_current_context()) or None,
        },
        "controllers": {
            "selection": _controllers(options["controllers"]),
            "args": _controller_args(options["controller_arg"]),
        },
    }
    runtime.set_up_logging(obj["verbose"])
    settings = process_settings.load(options["config"], overrides)
    runtime.work(
        settings,
        descheduler=options["descheduler"],
        qos=options["qos"],
        controllers=options["controllers"] is not None,
    )


@cli.command()
@click.option(
    "--exit", "leave", is_flag=True, help="Stop after the story; exit code 0 only if all of it happened."
)
@click.option("--nodes", default=50, show_default=True, help="Nodes of the demo cluster.")
@click.pass_obj
def demo(obj: dict[str, Any], leave: bool, nodes: int) -> None:
    """Run a whole cluster on this machine and tell one pod's story."""
    from koordpy.commands import demo as story
    from koordpy.main import set_up_logging

    if obj["verbose"]:
        set_up_logging(obj["verbose"])
    story.run(console(), nodes=nodes, leave=leave)


@cli.command()
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("certs"), show_default=True)
@click.option("--host", multiple=True, default=("localhost", "127.0.0.1"), show_default=True)
def certs(directory: Path, host: tuple[str, ...]) -> None:
    """Make or renew a development certificate authority and server certificate."""
    from datetime import UTC, datetime

    from koordpy.lib import certificates

    certificates.ensure(directory, host, datetime.now(UTC))
    click.echo(f"{directory}: certificate for {', '.join(host)}, authority {certificates.CA_CERT}")


# --- looking ---------------------------------------------------------------------------------------


@cli.command()
@output_option
def version(output: Format) -> None:
    """Print the version, and which plugins are installed."""
    from koordpy.api.catalogue import Catalogue
    from koordpy.api.plugin import BasePlugin

    kinds = ("admission", "lint", "scheduling", "descheduling", "controllers", "qos")
    plugins = {kind: list(Catalogue(f"koordpy.{kind}", BasePlugin)) for kind in kinds}
    found = {"version": __version__, "python": sys.version.split()[0], "plugins": plugins}

    def text(to: "Console") -> None:
        to.print(f"koordpy {__version__} (Python {found['python']})")
        for kind, names in plugins.items():
            to.print(f"  {kind}: {', '.join(names) or 'none'}")

    emit(found, output, text)


@cli.command()
@server_option
@click.option("--live", is_flag=True, help="Ask whether the process lives, not whether it is ready.")
def health(debug_server: str, live: bool) -> None:
    """Ask a running koordpy whether it is ready (for probes: exit code 0 or 1)."""
    import httpx

    url = f"{address(debug_server)}{'/livez' if live else '/readyz'}"
    try:
        answer = httpx.get(url, params={"verbose": ""}, timeout=2.5)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Failure(f"{url}: {error}") from None
    click.echo(answer.text.rstrip())
    if answer.status_code != 200:
        raise Failure(f"{url} answered {answer.status_code}")


cli.add_command(doctor)
cli.add_command(features)
cli.add_command(plugin)
cli.add_command(profile)
cli.add_command(record)
cli.add_command(simulate)
cli.add_command(whatif)
cli.add_command(why)


# --- reading options -------------------------------------------------------------------------------


def _common_overrides(options: dict[str, Any]) -> dict[str, Any]:
    from koordpy.lib import feature_gates

    return {
        "client": {
            "server": options["server"],
            "kubeconfig": options["kubeconfig"],
            "context": options["kube_context"],
        },
        "featureGates": feature_gates.parse(options["feature_gates"]) or None,
        "debug": _bind(options["debug_bind"], "--debug-bind"),
    }


def _bind(text: str | None, option: str) -> dict[str, Any]:
    if text is None:
        return {}
    address, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise Failure(f"{option}: got {text!r}, expected ADDRESS:PORT")
    return {"bindAddress": address.strip("[]") or "0.0.0.0", "port": int(port)}


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, instead = text.partition("=")
    if not equals or not name or not instead:
        raise Failure(f"{option}: got {text!r}, expected NAME=INSTEAD")
    return name, instead


def _controllers(text: str | None) -> list[str] | None:
    """Return the list of `--controllers`; None, for what the file says, without one."""
    return None if text in (None, "*") else [item.strip() for item in str(text).split(",")]


def _controller_args(texts: tuple[str, ...]) -> dict[str, Any]:
    """Read `NAME.FIELD=VALUE`; the values are YAML."""
    import yaml

    args: dict[str, Any] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        name, dot, field = place.partition(".")
        if not equals or not dot or not name or not field:
            raise Failure(f"--controller-arg: got {text!r}, expected NAME.FIELD=VALUE")
        try:
            args.setdefault(name, {})[field] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise Failure(f"--controller-arg: got {text!r}, expected a YAML value") from None
    return args


# --- the way in ------------------------------------------------------------------------------------


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


def main() -> None:
    """Run the command line (console script `koordpy`)."""
    try:
        sys.exit(cli.main(standalone_mode=False))  # the code of a command that exits with one, else 0
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        help_ = " (--help tells more)" if isinstance(error, click.UsageError) else ""
        click.echo(f"koordpy: {' '.join(error.format_message().split())}{help_}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        if "--traceback" in sys.argv:
            raise
        click.echo(f"koordpy: {' '.join(_told(error).split())}", err=True)
        sys.exit(1)


def _told(error: Exception) -> str:
    """Say what went wrong to somebody who can mend it, or that it is not theirs to mend."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, _expected_errors()) or type(error).__module__.startswith("koordpy."):
        return str(error)
    return f"internal error: {type(error).__name__}: {error} (--traceback shows where)"
