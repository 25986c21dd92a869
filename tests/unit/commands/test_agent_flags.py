"""Flags of the node agent and its plugins are options of the command that hosts them."""

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from koordpy.cli import cli
from koordpy.commands.agent_flags import AgentFlagsCommand, given

PLUGIN = """
from datetime import timedelta

from koordpy.agent.interface import QOSPlugin


class Flagged(QOSPlugin):
    name = "Flagged"

    @classmethod
    def init_flags(cls, flags):
        flags.declare("flagged-cool-time", timedelta(seconds=4), "time between two rounds")
        flags.declare("flagged-dry", False, "whether nothing is written")
        flags.declare("{extra}", 1, "something else")

    async def run(self):
        pass
"""

Install = Callable[[str, str], None]


@click.command(cls=AgentFlagsCommand)
@click.option("--config")
@click.pass_context
def host(context: click.Context, config: str | None) -> None:
    click.echo(f"{config} {sorted(given(context).items())}")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    def install(code: str, module: str) -> None:
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (tmp_path / f"{module}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[koordpy.qos]\nFlagged = {module}:Flagged\n")
        monkeypatch.syspath_prepend(tmp_path)

    return install


def run(*arguments: str) -> Result:
    return CliRunner().invoke(host, arguments)


def test_flags_are_given_as_a_koordlets_command_line_has_them(install: Install) -> None:
    install(PLUGIN.format(extra="flagged-height"), "flagged_one")
    result = run(
        "--cpu-suppress-interval-seconds=5",
        "--config",
        "file",
        "--flagged-cool-time",
        "1m30s",
        "--flagged-dry",
        "--collect-res-used-interval=2s",
    )
    assert result.output.strip() == "file " + str(
        [
            ("collect-res-used-interval", "2s"),
            ("cpu-suppress-interval-seconds", "5"),
            ("flagged-cool-time", "1m30s"),
            ("flagged-dry", "true"),
        ]
    )


def test_flags_that_are_not_given_are_left_to_the_configuration_file() -> None:
    assert run().output.strip() == "None []"


def test_help_lists_flags_with_their_defaults(install: Install) -> None:
    install(PLUGIN.format(extra="flagged-height"), "flagged_two")
    text = " ".join(run("--help").output.split())
    assert "--cpu-suppress-interval-seconds INT seconds between CPU suppress rounds" in text
    assert "--flagged-cool-time DURATION time between two rounds (default: 4s)." in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--flagged-height=much"], "flag flagged-height: got 'much', expected int"),
        (["--no-such-flag=1"], "No such option '--no-such-flag'"),
    ],
)
def test_a_wrong_flag_is_named(install: Install, arguments: list[str], message: str) -> None:
    install(PLUGIN.format(extra="flagged-height"), "flagged_three")
    result = run(*arguments)
    assert result.exit_code != 0
    assert message in result.output


def test_a_flag_that_may_be_a_broken_plugins_is_named_and_ignored(install: Install) -> None:
    install("raise RuntimeError('no such kernel')", "flagged_four")
    assert run("--config", "file").output.strip() == "file []"
    ignored = run("--flagged-height=1", "--config", "file")
    assert (ignored.exit_code, ignored.stdout.strip()) == (0, "file []")
    assert "--flagged-height is ignored" in ignored.stderr
    unclear = run("--flagged-height", "1")  # whether the flag takes this value is not known
    assert unclear.exit_code != 0
    for result in (ignored, unclear):
        assert 'plugin "Flagged"' in result.output
        assert "no such kernel" in result.output


def test_a_flag_may_not_take_the_name_of_an_option(install: Install) -> None:
    install(PLUGIN.format(extra="config"), "flagged_five")
    result = run()
    assert result.exit_code != 0
    assert "--config: a plugin declares a flag with the name of this option" in result.output


def test_the_node_agent_has_the_flags() -> None:
    text = " ".join(CliRunner().invoke(cli, ["agent", "--help"]).output.split())
    assert "--cpu-suppress-interval-seconds INT" in text
