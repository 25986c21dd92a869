"""The flags of the node agent, its services and its plugins, as options of a command.

They are koordlet's flags, so its command line can be reused: `--cpu-suppress-interval-seconds=5`. They
override the flags in the configuration file.
"""

from collections.abc import Collection
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
        """Parse the arguments. Where plugins cannot be loaded, unknown `--NAME=VALUE` may be theirs.

        They are then named and ignored. Raises Failure for other options that may be a plugin's.
        """
        from koordpy.agent.interface.koordlets_flags import REFUSED, reason_against

        names = {option for parameter in self.get_params(ctx) for option in parameter.opts}
        args = [_two_hyphens(arg, names | {f"--{name}" for name in REFUSED}) for arg in args]
        while True:
            try:
                return super().parse_args(ctx, list(args))
            except click.NoSuchOption as error:
                if refusal := reason_against(error.option_name.removeprefix("--")):
                    raise Failure(refusal) from None
                _, broken = installed()
                if not broken:
                    raise
                reasons = "; ".join(broken)
                if not any(arg.startswith(f"{error.option_name}=") for arg in args):
                    message = f"{error.format_message()} Plugins that cannot be loaded: {reasons}"
                    raise Failure(message) from None
                args = [arg for arg in args if not arg.startswith(f"{error.option_name}=")]
                click.echo(f"{error.option_name} is ignored: plugins cannot be loaded: {reasons}", err=True)


def _two_hyphens(arg: str, names: Collection[str]) -> str:
    """Return an option with two hyphens if it is a flag with one, as Go accepts it too."""
    name, separator, value = arg.partition("=")
    is_flag = name.startswith("-") and not name.startswith("--") and len(name) > len("-v")
    return f"-{name}{separator}{value}" if is_flag and f"-{name}" in names else arg


def given(ctx: click.Context) -> dict[str, str]:
    """Return the flags that the command line sets, by name, as written."""
    found: dict[str, str] = ctx.meta.get(_GIVEN, {})
    return found


def installed() -> "tuple[list[type[NodePlugin]], list[str]]":
    """Return the plugins, and what is wrong with those that cannot be loaded."""
    from koordpy.agent.engine.agent import FLAGGED_SERVICES
    from koordpy.agent.engine.plugins import Installed

    found = Installed.usable(FLAGGED_SERVICES)
    return found.types(), [str(error) for error in found.broken.values()]


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
