import asyncio
from collections.abc import Sequence

import pytest

from koordpy.scheduling.framework.controllers import PluginControllers
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Controller, ControllerProvider, Plugin, PostBind
from tests.eventually import PATIENCE

from ..worlds import framework, node, world


class Ticks:
    """A controller that fails the first time it runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0

    async def run(self) -> None:
        self.runs += 1
        if self.runs == 1:
            raise RuntimeError("the first run fails")
        await asyncio.Event().wait()


class Provides(Plugin, PostBind, ControllerProvider):
    """Provides two controllers of one name, and another one."""

    name = "Provides"

    def controllers(self) -> Sequence[Controller]:
        return [Ticks("one"), Ticks("one"), Ticks("two")]


def provider() -> Framework:
    return framework(world([node("a")]), Provides)


def test_every_controller_of_every_plugin_is_taken_once() -> None:
    found = PluginControllers([provider(), provider()], ["*"])
    assert list(found.controllers) == ["Provides/one", "Provides/two"]


@pytest.mark.parametrize("selection", [["*", "-Provides"], [], ["Other"]])
def test_a_list_disables_them(selection: list[str]) -> None:
    assert not PluginControllers([provider()], selection)


async def test_a_failing_controller_is_restarted_without_affecting_others() -> None:
    found = PluginControllers([provider()], ["*"])
    running = asyncio.create_task(found.run())
    try:
        async with asyncio.timeout(PATIENCE):
            while any(controller.runs < 2 for controller in found.controllers.values()):  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
