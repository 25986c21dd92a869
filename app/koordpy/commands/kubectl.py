"""koordpy as a plugin of kubectl: `kubectl koordpy COMMAND`, the same commands with kubectl's usual options.

`--context`, `--kubeconfig` and `--namespace` may come before the command too, and what they leave open comes
from the kubeconfig, as for kubectl's own commands: a debug API is that of the cluster, not of this machine.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from .debug_client import PLUGIN

NAME: Final = "kubectl koordpy"

_OPTIONS: Final = ("context", "kubeconfig", "namespace")


def plugin_of(cli: click.Group) -> click.Group:
    """Return a group with the commands and options of `cli`, and kubectl's."""
    callback = cli.callback
    assert callback is not None
    return click.Group(
        name=NAME,
        params=[
            *cli.params,
            click.Option(["--context"], help="Context of the kubeconfig."),
            click.Option(["--kubeconfig"], help="Kubeconfig file."),
            click.Option(["--namespace", "-n"], help="Namespace, instead of the context's."),
        ],
        callback=click.pass_context(_started(callback)),
        commands=cli.commands,
        help=cli.help,
        context_settings=cli.context_settings,
    )


def _started(callback: Callable[..., object]) -> Callable[..., None]:
    def start(this: click.Context, /, **options: Any) -> None:
        given = {name: options.pop(name) for name in _OPTIONS}
        this.invoke(callback, **options)
        this.obj[PLUGIN] = True
        given["namespace"] = given["namespace"] or _namespace(given["kubeconfig"], given["context"])
        assert isinstance(this.command, click.Group)
        this.default_map = _defaults(this.command, {name: value for name, value in given.items() if value})

    return start


def _defaults(group: click.Group, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options as defaults of every command that has them."""
    return {
        name: _defaults(command, given)
        if isinstance(command, click.Group)
        else {param.name: given[param.name] for param in command.params if param.name in given}
        for name, command in group.commands.items()
    }


def _namespace(kubeconfig: str | None, context: str | None) -> str:
    """Return the namespace of a context; empty where there is none, which the command will report."""
    import kubernetes

    listed: Any = kubernetes.config.list_kube_config_contexts
    try:
        contexts, active = listed(kubeconfig or os.environ.get("KUBECONFIG"))
    except (kubernetes.config.ConfigException, OSError):
        return ""
    chosen = next((found for found in contexts if found["name"] == context), active if not context else {})
    return str(((chosen or {}).get("context") or {}).get("namespace") or "default")
