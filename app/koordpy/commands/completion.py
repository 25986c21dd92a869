"""`koordpy completion`: scripts that complete commands and options in a shell, and kubectl's completion."""

import sys
from typing import Final

import click

from . import kubectl

_SHELLS: Final = ("bash", "zsh", "fish")

_NO_FILES: Final = ":4"
"""The last line of an answer to kubectl (cobra's ShellCompDirectiveNoFileComp)."""


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(this: click.Context, /, shell: str) -> None:
    """Print the script that completes koordpy's commands and options in a shell.

    bash: source <(koordpy completion bash); zsh: the same, after compinit; fish: koordpy completion fish |
    source. `kubectl koordpy` is completed by kubectl's own completion.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(this.find_root().command, {}, "koordpy", "_KOORDPY_COMPLETE").source())


def complete_for_kubectl(cli: click.Group) -> None:
    """Print the completions of the words in `sys.argv`, as kubectl wants them from its plugins."""
    from click.shell_completion import ShellComplete

    words = sys.argv[1:] or [""]
    plugin = kubectl.plugin_of(cli)
    for item in ShellComplete(plugin, {}, kubectl.NAME, "").get_completions(words[:-1], words[-1]):
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)
