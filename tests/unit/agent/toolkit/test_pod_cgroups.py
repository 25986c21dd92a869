from pathlib import Path

import pytest

from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Version
from koordpy.agent.interface import CgroupLayout, PodMeta
from koordpy.agent.toolkit import pod_cgroups
from koordpy.api.core import ContainerStatus, Pod

LAYOUT = CgroupLayout(systemd=True)


def sandbox(root: Path, folders: list[str], ids: list[str]) -> str | None:
    found = Pod()
    found.status.container_statuses = [ContainerStatus(name=each, container_id=each) for each in ids]
    (root / "pod").mkdir()
    for folder in folders:
        (root / "pod" / folder).mkdir()
    return pod_cgroups.sandbox(PodMeta(found, "pod"), LAYOUT, CgroupFiles(root, Version.V2))


@pytest.mark.parametrize(
    ("folders", "ids", "found"),
    [
        (["cri-containerd-a.scope", "cri-containerd-s.scope"], ["containerd://a"], "cri-containerd-s.scope"),
        (["crio-a.scope", "crio-s.scope", "crio-conmon-s.scope"], ["cri-o://a"], "crio-s.scope"),
        (["cri-containerd-a.scope"], ["containerd://a"], None),
        (["cri-containerd-x.scope", "cri-containerd-y.scope"], ["containerd://a"], None),
        (["cri-containerd-s.scope"], [""], None),
        (["cri-containerd-s.scope"], [], None),
    ],
)
def test_the_sandbox_is_the_only_cgroup_that_no_status_names(
    tmp_path: Path, folders: list[str], ids: list[str], found: str | None
) -> None:
    assert sandbox(tmp_path, folders, ids) == (None if found is None else f"pod/{found}")
