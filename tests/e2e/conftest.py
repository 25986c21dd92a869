"""The real control plane for end-to-end stories.

The binaries are built when they are missing (some minutes, once; Go is needed): an end-to-end run that
skips its control plane would prove nothing, so it fails with the reason instead.
"""

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.installed import Installed, install


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver for the whole run; a story starts kube-scheduler as it needs it."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """koordpy in an environment of its own, installed as the image has it."""
    return install(tmp_path_factory.mktemp("installed"))


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `--dist loadgroup` keep on one worker what shares a control plane or an installation."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_shared(item)))


def _shared(item: pytest.Item) -> str:
    """Name what a test shares with others: a fixture of the whole run, its module's, or nothing."""
    assert isinstance(item, pytest.Function)
    fixtures = {name: found[-1] for name, found in item._fixtureinfo.name2fixturedefs.items()}
    own = {
        name: found.scope for name, found in fixtures.items() if found.func.__module__.startswith("tests.")
    }
    runs = [name for name, scope in own.items() if scope == "session"]
    if runs:
        return runs[0]
    return str(item.path) if "module" in own.values() else item.nodeid


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed story shows the end of the control plane's logs."""
    report = yield
    plane = getattr(item, "funcargs", {}).get("control_plane")
    if plane is not None and report.when == "call" and report.failed:
        report.sections.append(("control plane", plane.logs()))
    return report
