"""Pressure of latency-sensitive groups: kernel triggers, and reading where there are none."""

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from koordpy.agent.cgroups.pressure import PressureMonitor
from koordpy.agent.interface import PodMeta, PressureEvent
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from tests.eventually import PATIENCE

LS = "kubepods/burstable"
LS_POD = f"{LS}/podls"


class States:
    """Pods that a test changes."""

    def __init__(self, *pods):
        self.metas = list(pods)
        self.callback = lambda: None

    def register_callbacks(self, type_, name, description, callback):
        self.callback = callback

    def pods(self):
        return self.metas


def guaranteed(uid, **labels):
    document = {
        "metadata": {"name": uid, "namespace": "d", "uid": uid, "labels": labels},
        "status": {"phase": "Running", "qosClass": "Guaranteed"},
    }
    return PodMeta(decode(Pod, document), f"kubepods/pod{uid}")


@asynccontextmanager
async def running(monitor):
    task = asyncio.create_task(monitor.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds):
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


def monitor_of(tree, states=None, **options):
    given: Any = states or States()
    return PressureMonitor(tree.files, tree.layout, given, **options)


def stall(tree, directory, microseconds):
    """Make a folder's file say that tasks have waited; a kernel must see it for itself."""
    text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={microseconds}\n"
    (tree.root / directory / "cpu.pressure").write_text(text + text.replace("some", "full"))


@pytest.mark.parametrize("triggers", [True, False])
async def test_pressure_of_burstable_pods_is_reported(v2_cgroups, triggers):
    v2_cgroups.make(LS_POD)
    monitor = monitor_of(v2_cgroups, triggers=triggers and v2_cgroups.real)
    events: list[PressureEvent] = []
    monitor.subscribe(["cpu"], events.append)
    async with running(monitor):
        await until(lambda: ("cpu", LS) in monitor.watched)
        if v2_cgroups.real:
            # More tasks than this machine has CPUs: some of them wait.
            for _ in range(4):
                v2_cgroups.burn(LS_POD)
        else:
            stall(v2_cgroups, LS, 10**6)
        await until(lambda: PressureEvent("cpu", LS) in events)
        how = set(monitor.watched.values())
    assert how <= {"trigger", "polling"}
    if not triggers:
        assert how == {"polling"}
    assert {event.resource for event in events} == {"cpu"}


async def test_the_kernel_signals_pressure_where_it_is_asked_to(v2_cgroups):
    if not v2_cgroups.real:
        pytest.skip("a folder signals nothing")
    v2_cgroups.make(LS_POD)
    # A window that the kernel allows without CAP_SYS_RESOURCE too.
    monitor = monitor_of(v2_cgroups, window_us=2_000_000)
    events: list[PressureEvent] = []
    monitor.subscribe(["cpu"], events.append)
    async with running(monitor):
        await until(lambda: ("cpu", LS) in monitor.watched)
        if monitor.watched["cpu", LS] != "trigger":
            pytest.skip("this kernel refuses pressure triggers")
        for _ in range(4):
            v2_cgroups.burn(LS_POD)
        await until(lambda: PressureEvent("cpu", LS) in events)


async def test_guaranteed_pods_are_watched_as_long_as_they_exist(v2_cgroups):
    v2_cgroups.make("kubepods/podg")
    v2_cgroups.make("kubepods/podbe")
    states = States(guaranteed("be", **{"koordinator.sh/qosClass": "BE"}))
    monitor = monitor_of(v2_cgroups, states)
    monitor.subscribe(["cpu", "memory"], lambda event: None)
    async with running(monitor):
        burstable, of_pod = ({("cpu", each), ("memory", each)} for each in (LS, "kubepods/podg"))
        await until(lambda: monitor.watched.keys() == burstable)
        states.metas.append(guaranteed("g"))
        states.callback()
        await until(lambda: monitor.watched.keys() == burstable | of_pod)
        states.metas.clear()
        states.callback()
        await until(lambda: monitor.watched.keys() == burstable)
    assert monitor.watched == {}


async def test_a_group_that_does_not_exist_is_not_watched(v2_cgroups):
    monitor = monitor_of(v2_cgroups, States(guaranteed("missing")))
    monitor.subscribe(["cpu"], lambda event: None)
    async with running(monitor):
        await until(lambda: ("cpu", LS) in monitor.watched)
        assert ("cpu", "kubepods/podmissing") not in monitor.watched


async def test_a_subscriber_that_raises_does_not_affect_others(v2_cgroups):
    monitor = monitor_of(v2_cgroups)
    events: list[PressureEvent] = []

    def raising(event):
        raise RuntimeError("mine")

    monitor.subscribe(["cpu"], raising)
    monitor.subscribe(["cpu"], events.append)
    monitor._report(("cpu", LS))
    assert events == [PressureEvent("cpu", LS)]


def test_unknown_resources_are_refused(v2_cgroups):
    with pytest.raises(ValueError, match="pressure of 'disk': expected one of cpu, memory, io"):
        monitor_of(v2_cgroups).subscribe(["disk"], lambda event: None)
