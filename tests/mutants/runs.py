"""One run of mutmut over one module, in a folder of its own.

mutmut takes a module's name from its path, and our packages are below `app/` and `plugins/`; so it works in
`build/mutants/MODULE`, on a copy where both packages are beside the tests. The checkout may change meanwhile.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .modules import PACKAGES, Module

BESIDE = ("deploy", "examples")
"""What tests read beside the code."""

PATIENCE = "5"
"""Seconds that a test waits for what a mutant may keep from ever coming about."""

KILLED = ("killed", "suspicious", "segfault")


_SHOW = """
import sys
from mutmut.__main__ import cli
for name in sys.argv[1:]:
    cli.main(["show", name], standalone_mode=False)
"""
"""`mutmut show` for many mutants in one process: starting it takes longer than a difference."""


class RunError(Exception):
    """A run could not be done; the message has the end of what mutmut said."""


@dataclass(frozen=True)
class Result:
    """What became of a module's mutants, by mutmut's names for them."""

    module: str
    killed: tuple[str, ...]
    endless: tuple[str, ...]
    survived: tuple[str, ...]
    untested: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        counts = [len(names) for names in (self.killed, self.endless, self.survived, self.untested)]
        numbers = " | ".join(map(str, (sum(counts), *counts)))
        return f"| {self.module} | {numbers} | {self.seconds / 60:.0f} |"


class Run:
    """The folder of a module's run below `root`, a checkout."""

    def __init__(self, root: Path, module: Module) -> None:
        self._root, self._module = root, module
        self._folder = root / "build" / "mutants" / module.name

    def begin(self, jobs: int) -> None:
        """Make the folder anew, and test every mutant."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for name, source in {**PACKAGES, **{name: name for name in (*BESIDE, "tests")}}.items():
            self._copy(source, name)
        self._configure()
        self._mutmut("run", "--max-children", str(jobs))

    def repeat(self, jobs: int) -> None:
        """Test the mutants again that survived the last run, with the tests as they are now."""
        if not self._folder.exists():
            raise RunError("nothing has been run yet")
        last = self.result(0)
        if again := (*last.survived, *last.untested):
            for folder in (self._folder, self._folder / "mutants"):
                shutil.rmtree(folder / "tests")
            self._copy("tests", "tests")
            self._configure()
            (self._folder / "mutants" / "mutmut-stats.json").unlink()  # which tests reach which function
            self._mutmut("run", "--max-children", str(jobs), *again)

    def result(self, seconds: float) -> Result:
        """Return what became of the mutants. Raises RunError if some were not tested."""
        found: dict[str, list[str]] = {}
        for line in self._mutmut("results", "--all", "true").splitlines():
            name, separator, status = line.strip().rpartition(": ")
            if separator:
                found.setdefault(status, []).append(name)
        killed = [name for status in KILLED for name in found.pop(status, ())]
        endless, survived, untested = (
            found.pop(status, []) for status in ("timeout", "survived", "no tests")
        )
        if found:
            raise RunError(
                f"not tested: {', '.join(f'{len(names)} {status}' for status, names in found.items())}"
            )
        return Result(
            self._module.name, tuple(killed), tuple(endless), tuple(survived), tuple(untested), seconds
        )

    def differences(self, mutants: Sequence[str]) -> str:
        """Return mutants as differences from the code."""
        return self._python(_SHOW, *mutants)

    def _copy(self, source: str, name: str) -> None:
        shutil.copytree(
            self._root / source, self._folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )

    def _configure(self) -> None:
        tool = tomllib.loads((self._root / "pyproject.toml").read_text("utf-8"))["tool"]
        mutmut = {
            **tool["mutmut"],
            "source_paths": list(PACKAGES),
            "only_mutate": self._module.patterns,
            "also_copy": list(BESIDE),
            "pytest_add_cli_args_test_selection": list(self._module.tests),
        }
        tables = {"mutmut": mutmut, "pytest.ini_options": tool["pytest"]["ini_options"]}
        lines = []
        for name, table in tables.items():
            lines.append(f"[tool.{name}]")
            # Flat values of this kind are written in TOML as they are in JSON.
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        (self._folder / "pyproject.toml").write_text("\n".join(lines) + "\n", "utf-8")

    def _mutmut(self, *arguments: str) -> str:
        return self._python("from mutmut.__main__ import cli; cli()", *arguments)

    def _python(self, program: str, *arguments: str) -> str:
        if importlib.util.find_spec("mutmut") is None:
            raise RunError("mutmut is not installed: `make mutants` installs requirements/mutants.txt")
        command = [sys.executable, "-c", program, *arguments]
        environment = {**os.environ, "KOORDPY_TEST_PATIENCE": PATIENCE}
        done = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RunError(f"mutmut failed:\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout
