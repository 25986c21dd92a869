"""A group of commands that are imported when they are used.

Most commands need libraries that a long-running process must not hold: what `koordpy agent` imports, it keeps
in memory on every node.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group; `lazy` has the places of further commands, `MODULE:NAME`, by the names of the commands."""

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        self._lazy = dict(lazy)
        self._imported: dict[str, click.Command] = {}
        super().__init__(*args, **kwargs)

    @property
    def commands(self) -> dict[str, click.Command]:
        """All commands, imported."""
        for name in list(self._lazy):
            self._import(name)
        return self._imported

    @commands.setter
    def commands(self, commands: Mapping[str, click.Command]) -> None:
        self._imported = dict(commands)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command that is imported already."""
        found = name or cmd.name
        if found is None:
            raise TypeError("a command needs a name")
        self._imported[found] = cmd

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, without importing any."""
        return sorted({*self._imported, *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None if there is none of this name."""
        if cmd_name in self._lazy:
            self._import(cmd_name)
        return self._imported.get(cmd_name)

    def _import(self, name: str) -> None:
        module, _, attribute = self._lazy[name].partition(":")
        self._imported[name] = getattr(import_module(module), attribute)
        del self._lazy[name]
