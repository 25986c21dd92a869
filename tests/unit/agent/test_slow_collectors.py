"""Collectors that take time to measure, and hold more than memory."""

import asyncio
from pathlib import Path
from typing import ClassVar

from koordpy.agent.engine.collecting import Collecting
from koordpy.agent.engine.reloading import Desired
from koordpy.agent.interface import CollectError, Collector
from koordpy.lib.feature_gates import FeatureSpec, Stage
from tests.unit.agent.test_agent import Node1, until


class Prober(Collector):
    """Probes when its test says so; `failure` is the reason why it cannot."""

    name = "prober"
    feature: ClassVar[str | None] = "Probing"
    feature_gates = {"Probing": FeatureSpec(default=False, stage=Stage.ALPHA)}
    closed: ClassVar[int] = 0

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.allowed = asyncio.Event()
        self.failure = ""

    async def collect(self):
        await self.allowed.wait()
        if self.failure:
            raise CollectError(self.failure)

    def close(self):
        type(self).closed += 1
        raise RuntimeError("stuck")


async def forever(_):
    await asyncio.Event().wait()


async def test_a_collector_is_ready_once_its_measurement_has_ended(tmp_path: Path) -> None:
    [collector] = Node1(tmp_path, Prober).plugins
    assert isinstance(collector, Prober)
    collecting = Collecting(collector, 1.0, sleep=forever)
    running = asyncio.create_task(collecting.run())
    await asyncio.sleep(0)
    assert collecting.not_ready() == "has not measured yet"
    collector.allowed.set()
    await until(lambda: collecting.not_ready() is None)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_measurement_that_fails_after_a_while_says_why(tmp_path: Path) -> None:
    [collector] = Node1(tmp_path, Prober).plugins
    assert isinstance(collector, Prober)
    collector.failure = "no probe"
    collector.allowed.set()
    collecting = Collecting(collector, 1.0, sleep=forever)
    running = asyncio.create_task(collecting.run())
    await until(lambda: collecting.not_ready() == "no probe")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_collector_is_closed_when_it_is_switched_off_and_at_the_end(tmp_path: Path) -> None:
    Prober.closed = 0
    node = Node1(tmp_path, Prober)
    node.sync()
    node.agent.setup()
    running = asyncio.create_task(node.agent.run())
    await until(lambda: node.agent.started is not None)
    on = Desired(gates={"Probing": True})
    await node.agent.apply(Desired(), on)
    assert node.agent.running == ["prober"]
    await node.agent.apply(on, Desired())
    assert Prober.closed == 1  # and its failure to close prevents nothing
    await node.agent.apply(Desired(), on)
    assert node.agent.running == ["prober"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert Prober.closed == 2
