"""The flags of the node agent, its services and its plugins, as options of a command.

They are koordlet's flags, so its command line can be reused: `--cpu-suppress-interval-seconds=5`. They
override the flags in the configuration file.
"""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from .options import Failure

if TYPE_CHECKING:
    from koordpy.agent.interface import Flag, FlagValue, NodePlugin

_GIVEN = f"{__name__}.given"
_METAVARS = {int: "INT", float: "FLOAT", bool: "BOOL", str: "TEXT", timedelta: "DURATION"}


class AgentFlagsCommand(click.Command):
    """A command with the flags of the node agent and its installed plugins besides its own options."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own options, then the flags. Raises Failure for a flag whose name is taken."""
        from koordpy.agent.engine.agent import FLAGGED_SERVICES
        from koordpy.agent.engine.plugins import flags_of
        from koordpy.agent.interface import FlagError

        own = super().get_params(ctx)
        taken = {name for param in own for name in param.opts}
        types, _ = installed()
        try:
            options = [_option(flag) for flag in flags_of([*FLAGGED_SERVICES, *types]).flags]
        except FlagError as error:
            raise Failure(str(error)) from None
        for option in options:
            if clash := taken.intersection(option.opts):
                raise Failure(f"{clash.pop()}: a plugin declares a flag with the name of this option")
        return [*own, *options]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. Raises Failure for what may be a flag of a plugin that cannot be loaded."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            _, broken = installed()
            if not broken:
                raise
            reasons = "; ".join(broken)
            raise Failure(f"{error.format_message()} Plugins that cannot be loaded: {reasons}") from None


def given(ctx: click.Context) -> dict[str, str]:
    """Return the flags that the command line sets, by name, as written."""
    found: dict[str, str] = ctx.meta.get(_GIVEN, {})
    return found


def installed() -> "tuple[list[type[NodePlugin]], list[str]]":
    """Return the plugins, and what is wrong with those that cannot be loaded."""
    from koordpy.agent.engine.plugins import Installed
    from koordpy.api.plugin_errors import PluginError

    types, broken = [], []
    for name, catalogue in Installed.find():
        try:
            types.append(catalogue[name])
        except PluginError as error:
            broken.append(str(error))
    return types, broken


def _option(flag: "Flag") -> click.Option:
    from koordpy.agent.interface import FlagError

    def keep(ctx: click.Context, _: click.Parameter, text: str | None) -> None:
        if text is None:
            return
        try:
            flag.parse(text)
        except FlagError as error:
            raise Failure(str(error)) from None
        ctx.meta.setdefault(_GIVEN, {})[flag.name] = text

    named: dict[str, Any] = {"metavar": _METAVARS[type(flag.default)]}
    if isinstance(flag.default, bool):  # --flag is --flag=true, as in Go
        named |= {"is_flag": False, "flag_value": "true", "metavar": "[BOOL]"}
    return click.Option(
        [f"--{flag.name}", f"agent_flag_{flag.name.replace('-', '_')}"],
        type=str,
        expose_value=False,
        callback=keep,
        help=f"{flag.description} (default: {_shown(flag.default)}).",
        **named,
    )


def _shown(value: "FlagValue") -> str:
    from koordpy.lib import duration

    if isinstance(value, timedelta):
        return duration.format(round(value.total_seconds() * duration.SECOND))
    return str(value).lower() if isinstance(value, bool) else str(value)
