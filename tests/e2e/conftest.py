"""The real control plane for end-to-end stories.

The binaries are built when they are missing (some minutes, once; Go is needed): an end-to-end run that
skips its control plane would prove nothing, so it fails with the reason instead.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.dirty_books import why_dirty
from tests.e2e.audited_planes import AuditedPlanes, audited_planes
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.installed import Installed, install

PLANES = pytest.StashKey[AuditedPlanes]()


@pytest.fixture(scope="session", autouse=True)
def planes(pytestconfig: pytest.Config) -> Iterator[AuditedPlanes]:
    """Every control plane is audited after each test, and when it is stopped."""
    with audited_planes() as followed:
        pytestconfig.stash[PLANES] = followed
        yield followed


@pytest.fixture(autouse=True)
def _books(request: pytest.FixtureRequest, planes: AuditedPlanes) -> None:
    """Say whether a test hands something out twice on purpose."""
    planes.begin_test(is_dirty=bool(why_dirty(request.node.nodeid)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Audit the control planes that run after a test, before its fixtures delete what it made."""
    planes = item.config.stash.get(PLANES, None)
    found = planes.end_test() if planes is not None else []
    yield
    assert not found, "\n".join(found)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver for the whole run; a story starts kube-scheduler as it needs it."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """koordpy in an environment of its own, installed as the image has it."""
    return install(tmp_path_factory.mktemp("installed"))


class Sharing(LoadScopeScheduling):
    """Keeps on one worker what shares a control plane or an installation; making two only costs time."""

    together: ClassVar[dict[str, tuple[str, ...]]] = {
        "control_plane": ("test_control_plane", "test_profile_story", "test_quota_evaluation"),
        "installed": ("test_image", "test_third_party_plugin", "test_writing_a_plugin"),
    }
    apart = ("test_chart", "test_stories")
    """Modules each of whose tests has a control plane of its own."""

    def _split_scope(self, nodeid: str) -> str:
        name = Path(nodeid.partition("::")[0]).stem
        if name in self.apart:
            return nodeid
        return next((shared for shared, names in self.together.items() if name in names), name)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Deal out tests as `Sharing` says."""
    return Sharing(config, log)


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many audits there were, and how long they took."""
    planes = config.stash.get(PLANES, None)
    if planes is not None and planes.audits:
        terminalreporter.write_line(f"control planes: {planes.audits} audits in {planes.seconds:.1f} s")
