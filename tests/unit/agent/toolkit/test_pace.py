"""The pace of strategies: rounds start early under pressure, and only then."""

import asyncio
from types import SimpleNamespace

from koordpy.agent.interface import PressureEvent
from koordpy.agent.toolkit.pace import SHORTEST_SECONDS, Pace


class Pressure:
    def __init__(self):
        self.subscribed = []

    def subscribe(self, resources, callback):
        self.subscribed.append((tuple(resources), callback))


def handle(pressure, slept):
    async def sleep(seconds):
        slept.append(seconds)

    return SimpleNamespace(pressure=pressure, sleep=sleep)


async def test_without_the_gate_a_round_follows_after_the_interval():
    slept: list[float] = []
    assert await Pace(handle(None, slept), ("cpu",)).next_round(1) is False
    assert slept == [1]


async def test_pressure_starts_a_round_early_but_never_at_once():
    pressure = Pressure()
    slept: list[float] = []
    pace = Pace(handle(pressure, slept), ("cpu",))
    [(resources, callback)] = pressure.subscribed
    assert resources == ("cpu",)
    waiting = asyncio.create_task(pace.next_round(3600))
    await asyncio.sleep(0)
    callback(PressureEvent("cpu", "kubepods/burstable"))
    assert await waiting is True
    assert slept == [SHORTEST_SECONDS]


async def test_pressure_counts_once():
    pressure = Pressure()
    pace = Pace(handle(pressure, []), ("cpu",))
    pressure.subscribed[0][1](PressureEvent("cpu", "kubepods/burstable"))
    assert await pace.next_round(3600) is True
    assert await pace.next_round(0) is False
