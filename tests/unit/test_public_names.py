"""`docs/public-api.md` and what it names: it lists modules that exist and whose names are documented, it
leaves out nothing that the example, the in-tree plugins and a new package need, and lists nothing above the
frameworks.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from types import ModuleType

import pytest

from koordpy.commands.plugin_package import KINDS

ROOT = Path(__file__).parents[2]
LISTED = re.findall(r"^- `(koordpy[\w.]*)`: ", (ROOT / "docs" / "public-api.md").read_text(), re.MULTILINE)
FLOORS = (
    "lib",
    "api",
    "cluster",
    "admission",
    "controllers",
    "scheduling",
    "descheduling",
    "agent",
    "testing",
)
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
NAMES = {"name": "Some", "module": "some", "package": "some", "group": "g", "entry": "e"}
PLUGINS = sorted((ROOT / "plugins" / "koordpy_plugins").rglob("*.py"))
TEMPLATES = sorted((ROOT / "app" / "koordpy" / "commands" / "plugin_templates").rglob("*.py.tmpl"))


def imported(file: Path, text: str | None = None) -> Iterator[tuple[str, str]]:
    """The koordpy modules that a file imports from, and the names."""
    for node in ast.walk(ast.parse(file.read_text() if text is None else text)):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                if f"{node.module}.{alias.name}" in LISTED:
                    yield f"{node.module}.{alias.name}", ""
                elif node.module.split(".")[0] in ("koordpy", "koordpy_plugins"):
                    yield node.module, alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in ("koordpy", "koordpy_plugins"):
                    yield alias.name, ""


def own_names(module: ModuleType) -> Iterator[tuple[str, object]]:
    """The classes and functions that a module, or a package with its modules, defines for others."""
    for name, value in vars(module).items():
        defined_here = f"{getattr(value, '__module__', None)}.".startswith(f"{module.__name__}.")
        if not name.startswith("_") and defined_here and (inspect.isclass(value) or callable(value)):
            yield name, value


def test_modules_are_listed_once() -> None:
    assert LISTED
    assert len(set(LISTED)) == len(LISTED)


@pytest.mark.parametrize("name", LISTED)
def test_a_listed_module_is_of_the_lower_floors_and_documented(name: str) -> None:
    assert name.split(".")[1] in FLOORS
    module = importlib.import_module(name)
    assert module.__doc__
    undocumented = [
        public
        for public, value in own_names(module)
        if isinstance(value, type | staticmethod) or inspect.isfunction(value)
        if not inspect.getdoc(value)
    ]
    assert undocumented == []


def private(file: Path, *, text: str | None = None) -> list[str]:
    """What a file imports of koordpy that is not public."""
    return [
        f"{module}.{name}"
        for module, name in imported(file, text)
        if module.split(".")[0] != "koordpy_plugins" and (module not in LISTED or name.startswith("_"))
    ]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: str(file.relative_to(ROOT / "examples")))
def test_examples_import_public_names_only(file: Path) -> None:
    assert private(file) == []
    assert not any(module.startswith("koordpy_plugins") for module, _ in imported(file))


@pytest.mark.parametrize("kind", ["admission", "descheduling", "qos", "scheduling"])
def test_in_tree_plugins_of_every_kind_import_public_names_only(kind: str) -> None:
    files = [
        file for file in PLUGINS if file.relative_to(ROOT / "plugins" / "koordpy_plugins").parts[0] == kind
    ]
    assert files
    assert {str(file.relative_to(ROOT)): found for file in files if (found := private(file))} == {}


def test_every_kind_can_be_begun_with_public_names_only() -> None:
    kinds = {file.parent.name for file in TEMPLATES}
    assert kinds == {*KINDS, "admission_validating"}
    texts = {file: Template(file.read_text()).safe_substitute(NAMES) for file in TEMPLATES}
    found = {f"{file.parent.name}/{file.name}": private(file, text=text) for file, text in texts.items()}
    assert {name: names for name, names in found.items() if names} == {}


def test_a_private_name_is_found(tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    file.write_text(
        "from koordpy.agent.cgroups.executor import Executor\nfrom koordpy.agent.interface import QOSPlugin\n"
    )
    assert private(file) == ["koordpy.agent.cgroups.executor.Executor"]


def test_the_example_uses_what_it_is_an_example_of() -> None:
    modules = {module for file in EXAMPLES for module, _ in imported(file)}
    assert {"koordpy.scheduling.interface", "koordpy.admission.handler"} <= modules
