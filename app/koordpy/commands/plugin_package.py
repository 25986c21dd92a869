"""A package with one plugin, ready to be installed, tested and changed.

The templates beside this module are whole files; `$name` and other variables are substituted. The result
passes its own tests, `ruff` and `mypy --strict`.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from string import Template

from koordpy import __version__

TEMPLATES = Path(__file__).parent / "plugin_templates"


class BadName(ValueError):
    """The name is not a valid plugin name or is taken, or the package exists already."""


@dataclass(frozen=True)
class Kind:
    """A kind of plugin: its entry point group, what the template does, and where it is enabled."""

    group: str
    description: str
    where: str
    switch: str
    entry: str = "$name"


KINDS: Mapping[str, Kind] = {
    "scheduling": Kind(
        "koordpy.scheduling",
        "Keeps pods off nodes that are closed, and prefers those that are preferred.",
        "the KubeSchedulerConfiguration of `koordpy serve --scheduler-config FILE`",
        "profiles:\n  - schedulerName: default-scheduler\n    plugins:\n      multiPoint:\n        enabled:\n"
        "          - name: $name",
    ),
    "admission": Kind(
        "koordpy.admission",
        "Labels pods with the team that pays for them.",
        "the configuration of `koordpy serve --config FILE`",
        "admission:\n  enabled:\n    - name: $entry\n      args: {teamByNamespace: {shop: sales}}",
        "mutate-pod.$name",
    ),
    "descheduling": Kind(
        "koordpy.descheduling",
        "Evicts pods that have lived longer than they should.",
        "the DeschedulerConfiguration of `koordpy worker --descheduler-config FILE`",
        "profiles:\n  - name: default\n    plugins:\n      deschedule:\n        enabled:\n"
        "          - name: $name",
    ),
    "controllers": Kind(
        "koordpy.controllers",
        "Labels namespaces with the team that they belong to.",
        "the configuration of `koordpy worker --config FILE`",
        "worker:\n  controllers:\n    args:\n      $name: {teamByNamespace: {shop: sales}}",
    ),
    "noderesource": Kind(
        "koordpy.noderesources",
        "Offers a share of the memory of labelled nodes as a resource of its own.",
        "`koordpy worker --parts controllers` by installing it there; this leaves it out",
        "koordpy worker --parts controllers --noderesource-plugins '*,-$name'",
    ),
    "lint": Kind(
        "koordpy.lint",
        "Finds objects of a kind that no team is responsible for.",
        "Python, by the kind of its objects: `koordpy.admission.lint.make`",
        "kind: $name",
    ),
    "qos": Kind(
        "koordpy.qos",
        "Keeps the CPU shares of best-effort pods at a configured value.",
        "the arguments of `koordpy agent`",
        "koordpy agent --feature-gates $name=true",
    ),
    "collector": Kind(
        "koordpy.collectors",
        "Measures the load average of the node.",
        "the arguments of `koordpy agent`",
        "koordpy agent --feature-gates $name=true",
    ),
    "hook": Kind(
        "koordpy.hooks",
        "Kills all processes of annotated pods together when memory runs out.",
        "the arguments of `koordpy agent`",
        "koordpy agent --feature-gates $name=true",
    ),
}


VALIDATING = Kind(
    "koordpy.admission",
    "Refuses pods without a team that pays for them.",
    "the configuration of `koordpy serve --config FILE`",
    "admission:\n  enabled:\n    - name: $entry\n      args: {exemptNamespaces: [kube-system]}",
    "validate-pod.$name",
)
"""An admission handler that only validates; its template is `admission_validating`."""


def write(kind: str, name: str, into: Path, *, validating: bool = False) -> list[Path]:
    """Write the package of a plugin below a folder; return its files. Raises BadName, OSError.

    With `validating` an admission handler is one that refuses objects and changes none.

    `name` is the class and the name in configuration files: `ZoneGuard` becomes the project
    `koordpy-plugin-zone-guard` with the module `zone_guard`. Nothing is overwritten.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
        raise BadName(f"got {name!r}, expected a class name of letters and digits, such as ZoneGuard")
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", name)
    package = "-".join(words).lower()
    if validating and kind != "admission":
        raise BadName(f"--validating: got kind {kind}, expected admission")
    known = VALIDATING if validating else KINDS[kind]
    template = TEMPLATES / ("admission_validating" if validating else kind)
    values = {"name": name, "package": package, "module": package.replace("-", "_"), "koordpy": __version__}
    for field in ("group", "description", "where", "entry", "switch"):
        values[field] = Template(getattr(known, field)).substitute(values)
    values["language"] = "sh" if str(values["switch"]).startswith("koordpy ") else "yaml"
    project = f"koordpy-plugin-{package}"
    _check_free(known.group, str(values["entry"]), str(values["module"]), project)
    root = into / project
    if root.exists():
        raise BadName(f"{root} exists already")
    source = root / "src" / values["module"]
    files = {
        root / "pyproject.toml": TEMPLATES / "common" / "pyproject.toml.tmpl",
        root / "README.md": TEMPLATES / "common" / "README.md.tmpl",
        source / "plugin.py": template / "plugin.py.tmpl",
        root / "tests" / "test_plugin.py": template / "test_plugin.py.tmpl",
    }
    texts = {path: Template(content.read_text("utf-8")).substitute(values) for path, content in files.items()}
    texts[source / "__init__.py"] = f'"""{values["description"]}"""\n'
    texts[source / "py.typed"] = ""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return sorted(texts)


def _check_free(group: str, entry: str, module: str, project: str) -> None:
    """Raise BadName where the plugin's name, or its module's name, is taken by another distribution."""
    for point in metadata.entry_points(group=group, name=entry):
        owner = point.dist.name if point.dist is not None else "another package"
        if owner != project:
            raise BadName(f"{entry!r} is already the name of a plugin of {owner}; choose another name")
    owners = metadata.packages_distributions().get(module, [])
    if module in sys.stdlib_module_names or set(owners) - {project}:
        owner = owners[0] if owners else "Python"
        raise BadName(f"{owner} already has a module {module!r}; choose another name")
