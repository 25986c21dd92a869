"""The stage of each test: an API server of its own, or the real control plane without anything left on it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.devices.stage import DeviceStage, embedded, removed
from tests.integration.reservations.conftest import emptied
from tests.integration.reservations.conftest import plane as plane

if TYPE_CHECKING:
    from tests.e2e.controlplane.plane import ControlPlane


@pytest.fixture
async def stage(plane: "ControlPlane | None", tmp_path: Path) -> AsyncIterator[DeviceStage]:
    """A cluster with one node and all processes."""
    if plane is not None:
        stage = DeviceStage({"kubeconfig": str(plane.kubeconfig)}, tmp_path, plane=plane)
        try:
            await stage.prepare()
            yield stage
        finally:
            await stage.stop()
            await emptied(stage.client)
            await removed(stage.client)
            await stage.client.close()
        return
    async with embedded(tmp_path) as stage:
        yield stage
