"""What the image holds, as installed by the script that its Dockerfile runs."""

from importlib.metadata import distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.e2e.installed import PROJECT, Installed

DATA = sorted(
    str(file.relative_to(PROJECT))
    for folder in ("crds", "demo", "priorityclasses", "scheduler", "webhooks")
    for file in (PROJECT / "deploy" / folder).rglob("*.yaml")
)


def test_it_runs_outside_of_the_checkout(installed: Installed) -> None:
    assert installed.command("koordpy", "version").startswith("koordpy ")


def test_it_imports_nothing_of_the_checkout(installed: Installed) -> None:
    script = "import koordpy, koordpy_plugins; print(koordpy.__file__, *koordpy_plugins.__path__)"
    for path in installed.command("python", "-c", script).split():
        assert path.startswith(str(installed.prefix))


def test_it_needs_nothing_that_is_not_installed(installed: Installed) -> None:
    [folder] = (installed.prefix / "lib").glob("python3.*/site-packages")
    found = {canonicalize_name(each.name): each for each in distributions(path=[str(folder)])}
    assert "koordpy" in found
    for name, distribution in found.items():
        for line in distribution.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                other = found.get(canonicalize_name(requirement.name))
                assert other is not None, f"{name} needs {line}"
                assert requirement.specifier.contains(other.version, prereleases=True), f"{name} needs {line}"


def test_nothing_can_be_installed_into_it(installed: Installed) -> None:
    script = "import importlib.util as u; print(u.find_spec('pip'), u.find_spec('setuptools'))"
    assert installed.command("python", "-c", script) == "None None\n"
    assert not list((installed.prefix / "bin").glob("pip*"))


@pytest.mark.parametrize("name", DATA)
def test_shipped_files_are_in_the_package(installed: Installed, name: str) -> None:
    folder, _, rest = name.removeprefix("deploy/").partition("/")
    script = f"from koordpy import data; print(data.deploy({folder!r}, {rest!r}).read_text(), end='')"
    assert installed.command("python", "-c", script) == (PROJECT / name).read_text()


def test_the_shipped_scheduler_configuration_needs_no_plugin_that_is_missing(installed: Installed) -> None:
    script = (
        "from koordpy import data\n"
        "from koordpy.cluster.cluster import Cluster\n"
        "from koordpy.scheduling.profiles import config\n"
        "from koordpy.scheduling.interface.handle import Handle\n"
        "from koordpy.scheduling.profiles.registry import Place, build\n"
        "loaded = config.load(data.deploy('scheduler', 'koordpy-profiles.yaml'))\n"
        "print(*build(loaded, lambda _: Handle(Cluster()), place=Place.EXTENDER).frameworks)\n"
    )
    assert installed.command("python", "-c", script).split() == ["default-scheduler", "koord-scheduler"]
