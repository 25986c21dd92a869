"""Completion of commands in shells and under kubectl."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = "from koordpy.cli import {0}; {0}()"


def run(function: str, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", CODE.format(function), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_for_koordpy(shell: str) -> None:
    done = run("main", "completion", shell)
    assert done.returncode == 0, done.stderr
    assert f"_KOORDPY_COMPLETE={shell}_complete" in done.stdout


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    program = tmp_path / "koordpy"
    program.write_text(f"#!{sys.executable}\n{CODE.format('main')}\n")
    program.chmod(0o755)
    words = "COMP_WORDS=(koordpy why --co); COMP_CWORD=2; _koordpy_completion koordpy"
    done = subprocess.run(
        ["bash", "-c", f'source <(koordpy completion bash); {words}; echo "${{COMPREPLY[@]}}"'],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.stdout == "--context\n", done.stderr


def test_kubectl_gets_the_completions_of_its_plugin() -> None:
    done = run("kubectl_complete", "why", "--con")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("--context\t")
    assert lines[-1] == ":4"
    commands = run("kubectl_complete", "w").stdout.split("\n")
    assert {line.partition("\t")[0] for line in commands} >= {"why", "whatif", "worker"}


def test_the_commands_about_colocation_are_one_group() -> None:
    commands = run("kubectl_complete", "colocate", "").stdout.split("\n")
    assert {line.partition("\t")[0] for line in commands} >= {"explain", "estimate"}
    [command, _] = run("kubectl_complete", "coloc").stdout.splitlines()
    assert command.partition("\t")[0] == "colocate"
