"""Which modules are mutated, and which tests are run for each: `tool.koordpy.mutants` in pyproject.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {"koordpy": "app/koordpy", "koordpy_plugins": "plugins/koordpy_plugins"}
"""The importable packages and their folders in the checkout."""


class ModulesError(ValueError):
    """The list of modules is not what it should be; the message names the entry."""


@dataclass(frozen=True)
class Module:
    """Files or folders below `app/` and `plugins/`, and tests as pytest takes them, all from the root."""

    name: str
    source: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def patterns(self) -> list[str]:
        """The sources as patterns of paths whose first part is the package's name."""
        found = []
        for path in self.source:
            package, folder = next(
                (package, folder) for package, folder in PACKAGES.items() if path.startswith(f"{folder}/")
            )
            inner = f"{package}{path.removeprefix(folder)}"
            found.append(inner if inner.endswith(".py") else f"{inner}/*.py")
        return found

    def check(self, root: Path) -> None:
        """Raise ModulesError for a path that is not there, or a source that is in neither package."""
        for path in (*self.source, *self.tests):
            if not (root / path.partition("::")[0]).exists():
                raise ModulesError(f"tool.koordpy.mutants.{self.name}: there is no {path}")
        for path in self.source:
            if not path.startswith(tuple(f"{folder}/" for folder in PACKAGES.values())):
                raise ModulesError(
                    f"tool.koordpy.mutants.{self.name}: {path} is not below {' or '.join(PACKAGES.values())}"
                )


def read(pyproject: Path) -> Mapping[str, Module]:
    """Return the modules by name. Raises ModulesError for an entry without sources or tests."""
    tables = tomllib.loads(pyproject.read_text("utf-8"))["tool"]["koordpy"]["mutants"]
    modules = {}
    for name, table in tables.items():
        if table.keys() != {"source", "tests"}:
            raise ModulesError(
                f"tool.koordpy.mutants.{name}: expected source and tests, found {', '.join(table)}"
            )
        modules[name] = Module(name, tuple(table["source"]), tuple(table["tests"]))
    return modules
