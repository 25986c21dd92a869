"""The real control plane for end-to-end stories.

The binaries are built when they are missing (some minutes, once; Go is needed): an end-to-end run that
skips its control plane would prove nothing, so it fails with the reason instead.
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.e2e.audited_planes import AuditedPlanes, audited_planes
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.installed import Installed, install

AUDITED = frozenset(
    (
        "test_audited_planes",
        "test_causes",
        "test_control_plane",
        "test_gang_stories",
        "test_light_mode",
        "test_network_placement",
        "test_numa_devices",
        "test_pre_enqueue",
        "test_profile_story",
        "test_quota_evaluation",
        "test_quotas",
        "test_reservations",
        "test_state",
    )
)
"""Modules whose control planes are audited at their end. Others may force bindings or lower quotas."""


@pytest.fixture(scope="session", autouse=True)
def _planes() -> Iterator[AuditedPlanes]:
    """Control planes are audited when they are stopped."""
    with audited_planes() as planes:
        yield planes


@pytest.fixture(autouse=True)
def _books(request: pytest.FixtureRequest, _planes: AuditedPlanes) -> Iterator[None]:
    """Leave out control planes in which a test hands something out twice on purpose."""
    is_audited = request.path.stem in AUDITED and request.node.get_closest_marker("dirty_books") is None
    _planes.begin_test(is_dirty=not is_audited)
    yield
    _planes.is_dirty = False


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
