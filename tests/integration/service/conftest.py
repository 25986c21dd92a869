from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.service.stage import Stage, serving


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """A ready service with all parts of `koordpy serve` and two nodes."""
    async with serving(tmp_path) as made:
        for name in ("n0", "n1"):
            await made.add_node(name)
        yield made
