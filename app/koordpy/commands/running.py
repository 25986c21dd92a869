"""`koordpy serve`, `koordpy worker` and `koordpy agent`: processes that run until they are stopped.

They differ in their default parts and in their options; each can run any set of parts.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from . import agent_flags
from .agent_flags import AgentFlagsCommand
from .options import Failure

F = TypeVar("F", bound=Callable[..., Any])


def _process_options(command: F) -> F:
    for option in (
        click.option("--config", type=click.Path(path_type=Path), help="A KoordpyConfiguration file."),
        click.option("--server", help="API server URL, instead of a kubeconfig."),
        click.option(
            "--kubeconfig", help="Kubeconfig file (default: $KUBECONFIG, ~/.kube/config, the pod's)."
        ),
        click.option("--context", "kube_context", help="Context of the kubeconfig."),
        click.option("--feature-gates", default="", help="Feature gates to set, such as A=true,B=false."),
        click.option("--debug-bind", help="ADDRESS:PORT of health and debug API."),
    ):
        command = option(command)
    return command


def _renamed(*names: str, to: str, **options: Any) -> Callable[[F], F]:
    """Refuse an option that was renamed, naming its replacement."""

    def refuse(_: click.Context, option: click.Parameter, value: Any) -> None:
        if value:
            raise Failure(f"{option.opts[0]}: renamed to {to}")

    return click.option(*names, hidden=True, expose_value=False, callback=refuse, **options)


@click.command()
@_process_options
@click.option("--parts", metavar="LIST", help="Parts to run (default: admission,extender,debug).")
@_renamed("--doors", to="--parts")
@click.option("--admission-bind", help="ADDRESS:PORT of the webhooks (HTTPS).")
@click.option("--extender-bind", help="ADDRESS:PORT of the scheduler extender.")
@click.option(
    "--extender-cert-dir",
    metavar="FOLDER",
    help="Folder of the extender's certificates; with it, callers need the client certificate in it.",
)
@click.option(
    "--extender-client-ca-file",
    metavar="FILE",
    help="Authorities of the client certificates that callers of the extender must present.",
)
@click.option("--cert-dir", help="Folder of the webhooks' certificate; generated if it holds none.")
@click.option("--tls-host", multiple=True, help="Host name or address in a generated certificate.")
@click.option("--scheduler-config", help="KubeSchedulerConfiguration with the plugins to run.")
@click.option(
    "--node-choice",
    type=click.Choice(["kube-scheduler", "koordpy"]),
    help="What chooses among the nodes that fit (default: kube-scheduler).",
)
@click.option(
    "--controller-plugins",
    metavar="LIST",
    help="Plugins whose controllers run, such as *,-Reservation (default: all).",
)
@click.option("--no-leader-elect", is_flag=True, help="Do the leader's work without holding the Lease.")
@click.pass_obj
def serve(obj: dict[str, Any], /, **options: Any) -> None:
    """Serve webhooks, the scheduler extender and the debug API."""
    from koordpy.settings import SERVING

    _run(obj, options["config"], serve_overrides(options), default=SERVING)


def serve_overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options of `koordpy serve` override in its settings."""
    overrides = _common_overrides(options)
    overrides["parts"] = _list(options["parts"])
    overrides["admission"] = {
        **_bind(options["admission_bind"], "--admission-bind"),
        "certDir": options["cert_dir"],
        "tlsHosts": list(options["tls_host"]) or None,
    }
    overrides["extender"] = {
        **_bind(options["extender_bind"], "--extender-bind"),
        "certDir": options["extender_cert_dir"],
        "clientCAFile": options["extender_client_ca_file"],
        "tlsHosts": list(options["tls_host"]) or None,
        "schedulerConfig": options["scheduler_config"],
        "nodeChoice": options["node_choice"],
        "controllerPlugins": _list(options["controller_plugins"]),
        "leaderElect": False if options["no_leader_elect"] else None,
    }
    return overrides


@click.command(short_help="Run the descheduler, the controllers, or both.")
@_process_options
@click.option("--parts", metavar="LIST", help="Parts to run, of: descheduler,controllers.")
@_renamed("--descheduler", to="--parts descheduler", is_flag=True)
@_renamed("--qos", to="koordpy agent", is_flag=True)
@click.option(
    "--controllers",
    is_flag=False,
    flag_value="",
    metavar="LIST",
    help="Controllers to run, such as *,-nodeslo (default: all).",
)
@click.option("--descheduler-config", help="DeschedulerConfiguration file.")
@click.option(
    "--scheduler-config",
    help="Descheduler: KubeSchedulerConfiguration with the profiles that prove evictions.",
)
@click.option(
    "--controller-arg",
    multiple=True,
    metavar="NAME.FIELD=VALUE",
    help="An argument of a controller, e.g. colocationprofile.reconcileByDefault=true.",
)
@click.option(
    "--noderesource-plugins",
    metavar="LIST",
    help="Plugins of the noderesource controller, such as *,-MidResource (default: all).",
)
@click.option("--config-namespace", help="Namespace of slo-controller-config (default: koordinator-system).")
@click.option("--slo-config-name", help="The SLO controllers' ConfigMap (default: slo-controller-config).")
@click.option("--dry-run", is_flag=True, help="Descheduler: decide, but evict nothing.")
@click.pass_obj
def worker(obj: dict[str, Any], /, **options: Any) -> None:
    """Run the descheduler, the controllers, or both; of several workers only the leader acts.

    Health checks, metrics and the debug API come with them.
    """
    if options["controllers"] == "":
        raise Failure("--controllers: expected a list, such as '*,-nodeslo'; --parts controllers runs them")
    from koordpy.settings import WORKER_DEBUG_PORT

    belongs = {
        "--descheduler-config": "descheduler",
        "--scheduler-config": "descheduler",
        "--dry-run": "descheduler",
        "--controllers": "controllers",
        "--controller-arg": "controllers",
        "--noderesource-plugins": "controllers",
        "--config-namespace": "controllers",
        "--slo-config-name": "controllers",
    }
    given = {
        option: part
        for option, part in belongs.items()
        if options[option.removeprefix("--").replace("-", "_")]
    }
    overrides = worker_overrides(options)
    _run(obj, options["config"], overrides, WORKER_DEBUG_PORT, always=("debug",), belongs=given)


def worker_overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options of `koordpy worker` override in its settings."""
    overrides = _common_overrides(options)
    overrides["parts"] = _list(options["parts"])
    overrides["worker"] = {
        "descheduler": {
            "config": options["descheduler_config"],
            "schedulerConfig": options["scheduler_config"],
            "dryRun": True if options["dry_run"] else None,
        },
        "controllers": {
            "selection": _list(options["controllers"]),
            "args": _with_plugins(
                _controller_args(options["controller_arg"]), _list(options["noderesource_plugins"])
            ),
            "configNamespace": options["config_namespace"],
            "sloConfigName": options["slo_config_name"],
        },
    }
    return overrides


@click.command(cls=AgentFlagsCommand, short_help="Run the node agent, which enforces QoS.")
@_process_options
@click.option("--node-name", help="This node's name (default: $NODE_NAME).")
@click.pass_obj
def agent(obj: dict[str, Any], /, **options: Any) -> None:
    """Run the node agent on the node that it enforces QoS on.

    Health checks, metrics and endpoints for its state come with it.
    """
    from koordpy.settings import AGENT_DEBUG_PORT

    _run(obj, options["config"], agent_overrides(options, click.get_current_context()), AGENT_DEBUG_PORT)


def agent_overrides(options: Mapping[str, Any], this: click.Context) -> dict[str, Any]:
    """Return what the options of `koordpy agent`, and koordlet's flags in its context, override."""
    overrides = _common_overrides(options)
    overrides["parts"] = ["agent"]
    overrides["agent"] = {"nodeName": options["node_name"], "flags": agent_flags.given(this) or None}
    return overrides


def _run(
    obj: dict[str, Any],
    config: Path | None,
    overrides: dict[str, Any],
    debug_port: int | None = None,
    *,
    default: Sequence[str] = (),
    always: Sequence[str] = (),
    belongs: Mapping[str, str] | None = None,
) -> None:
    """Run a process with the parts that the settings choose, else `default`, and with `always`.

    `debug_port` is the default port of the debug API where it is the command's own; `belongs` maps the given
    options to the part that each of them is for.
    """
    from koordpy import main as runtime
    from koordpy import settings as process_settings
    from koordpy.compose.part import ConfigSource

    runtime.set_up_logging(obj["verbose"])

    def load() -> process_settings.Settings:
        return process_settings.load(config, overrides, os.environ, {"debug": {"port": debug_port}})

    settings = load()
    parts = settings.parts or default
    if not parts:
        raise Failure(
            "there is nothing to run: choose parts with --parts, or with `parts` in the file of --config "
            f"({', '.join(name for name in process_settings.PART_NAMES if name not in always)})"
        )
    for option, part in (belongs or {}).items():
        if part not in parts:
            raise Failure(f"{option}: part {part} does not run; running: {', '.join(parts)}")
    with _file_named(config, overrides):
        source = None if config is None else ConfigSource(config, load)
        runtime.run_process(settings, (*parts, *always), source)


@contextmanager
def _file_named(config: Path | None, overrides: dict[str, Any]) -> Iterator[None]:
    """Put the configuration file before errors in its fields and gates that a part raises."""
    from koordpy.api.config_model import ConfigError
    from koordpy.lib.feature_gates import FeatureGateError
    from koordpy.settings import Settings

    fields = tuple(str(field.alias) for field in Settings.model_fields.values())
    try:
        yield
    except ConfigError as error:
        if config is None:
            raise
        places = [
            f"{config}: {problem}" if problem.startswith(fields) else problem for problem in error.problems
        ]
        raise type(error)(*places) from error.__cause__
    except FeatureGateError as error:
        given = overrides.get("featureGates") or {}
        if config is None or any(f"'{name}'" in str(error) for name in given):
            raise
        raise FeatureGateError(f"{config}: featureGates: {error}") from None


# --- reading options -------------------------------------------------------------------------------


def _common_overrides(options: Mapping[str, Any]) -> dict[str, Any]:
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


def _list(text: str | None) -> list[str] | None:
    return None if text is None else [item.strip() for item in text.split(",")]


def _controller_args(texts: tuple[str, ...]) -> dict[str, Any]:
    """Parse `NAME.FIELD=VALUE`; values are YAML."""
    from koordpy.lib.text_documents import DocumentError, read_yaml

    args: dict[str, Any] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        name, dot, field = place.partition(".")
        if not equals or not dot or not name or not field:
            raise Failure(f"--controller-arg: got {text!r}, expected NAME.FIELD=VALUE")
        try:
            args.setdefault(name, {})[field] = read_yaml(value)
        except DocumentError as error:
            raise Failure(f"--controller-arg: got {text!r}, expected a YAML value: {error}") from None
    return args


def _with_plugins(args: dict[str, Any], plugins: list[str] | None) -> dict[str, Any]:
    """Add the plugins of the noderesource controller to arguments of controllers."""
    if plugins is not None:
        args.setdefault("noderesource", {})["plugins"] = plugins
    return args
