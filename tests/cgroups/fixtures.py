"""Fixtures with cgroups; `tests/conftest.py` has them for all tests and reports what they were."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from koordpy.agent.cgroups.table import Version
from tests.cgroups.tree import CgroupTree


@pytest.fixture
def node_cgroups(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CgroupTree]:
    """Yield the cgroups of a node with CPU and memory controllers: real v1 or v2 ones, or a folder."""
    needed = frozenset({"cpu", "cpuset", "memory"})
    for version in Version:
        folder = tmp_path / f"cgroups-{version.name}"
        folder.mkdir()
        tree = CgroupTree(folder, version, needed)
        if tree.real:
            break
        tree.close()
    yield from _closed(tree, request)


@pytest.fixture
def v2_cgroups(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CgroupTree]:
    """Yield v2 cgroups with pressure files, perhaps without any controllers; or a folder."""
    folder = tmp_path / "cgroups-v2"
    folder.mkdir()
    yield from _closed(CgroupTree(folder, Version.V2, frozenset()), request)


def _closed(tree: CgroupTree, request: pytest.FixtureRequest) -> Iterator[CgroupTree]:
    request.node.user_properties.append(("cgroups", tree.description))
    try:
        yield tree
    finally:
        tree.close()
