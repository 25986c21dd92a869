"""What the image holds, as installed by the script that its Dockerfile runs."""

import pytest

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
    assert "No broken requirements found" in installed.command("python", "-m", "pip", "check")


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
