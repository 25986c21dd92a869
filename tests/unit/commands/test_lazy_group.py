import sys

import click
import pytest
from click.testing import CliRunner

from koordpy.commands.lazy_group import LazyGroup

MODULE = "commands_of_a_test"


@pytest.fixture
def group(tmp_path, monkeypatch):
    (tmp_path / f"{MODULE}.py").write_text(
        "import click\n@click.command()\ndef later():\n    '''Say it later.'''\n    click.echo('later')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    made = LazyGroup("tool", lazy={"later": f"{MODULE}:later"})
    made.add_command(click.Command("now", callback=lambda: click.echo("now")))
    yield made
    sys.modules.pop(MODULE, None)


def test_a_command_is_imported_when_it_is_called(group):
    runner = CliRunner()
    assert runner.invoke(group, ["now"]).output == "now\n"
    assert group.list_commands(click.Context(group)) == ["later", "now"]
    assert MODULE not in sys.modules
    assert runner.invoke(group, ["later"]).output == "later\n"
    assert MODULE in sys.modules


def test_all_commands_are_there_for_the_help_and_for_other_groups(group):
    assert "Say it later." in CliRunner().invoke(group, ["--help"]).output
    assert sorted(group.commands) == ["later", "now"]
    assert CliRunner().invoke(click.Group("other", commands=group.commands), ["later"]).output == "later\n"


def test_an_unknown_command_is_an_error_of_usage(group):
    result = CliRunner().invoke(group, ["never"])
    assert result.exit_code == 2
    assert "No such command 'never'" in result.output
