"""Watches the pressure (PSI) of latency-sensitive groups, and reports it within a fraction of a second.

The kernel is asked to signal when tasks of a group have waited for 50 ms within 500 ms (PSI triggers). A
trigger is signalled by POLLPRI alone, and reading its readiness resets it, so a thread waits for all of them;
it sleeps in the kernel while there is no pressure. Where the kernel refuses triggers (they need
CAP_SYS_RESOURCE for windows this short, and a kernel from 5.2), the files are read every 100 ms instead.

The groups are that of all Burstable pods, and one for each Guaranteed pod, as these have no common parent
without best-effort pods.
"""

import asyncio
import logging
import os
import select
import threading
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import Counter

from koordpy.agent.interface.cgroups import CgroupError, Cgroups
from koordpy.agent.interface.layout import CgroupLayout
from koordpy.agent.interface.pressure import PressureCallback, PressureEvent
from koordpy.agent.interface.states import States, StateType
from koordpy.api import qos

log = logging.getLogger(__name__)

RESOURCES: Final = ("cpu", "memory", "io")
STALL_US: Final = 50_000
WINDOW_US: Final = 500_000
POLL_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 30.0
"""How often groups are looked for that did not exist when their pod was seen."""

EVENTS = Counter(
    "koordpy_agent_pressure_events_total",
    "Times that a latency-sensitive group was under pressure.",
    ["resource"],
)

_Group = tuple[str, str]
"""Resource and directory."""


@dataclass
class _Polled:
    """A group without a trigger: stall time in microseconds when it was last reported, and when."""

    total_us: int
    since: float


class PressureMonitor:
    """The service that watches; plugins subscribe."""

    name = "pressure"

    def __init__(
        self,
        cgroups: Cgroups,
        layout: CgroupLayout,
        states: States,
        *,
        triggers: bool = True,
        window_us: int = WINDOW_US,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Without `triggers` the kernel is not asked for any, and all groups are read.

        Without CAP_SYS_RESOURCE it allows only windows of whole multiples of 2 s.
        """
        self._cgroups, self._layout, self._states = cgroups, layout, states
        self._may_trigger, self._window_us, self._sleep = triggers, window_us, sleep
        self._callbacks: dict[str, list[PressureCallback]] = {}
        self._changed = asyncio.Event()
        self._triggered: dict[_Group, int] = {}
        self._polled: dict[_Group, _Polled] = {}
        self._epoll: select.epoll | None = None
        states.register_callbacks(
            StateType.ALL_PODS, "pressure", "watch the pressure of pods", lambda *_: self._changed.set()
        )

    def subscribe(self, resources: Collection[str], callback: PressureCallback) -> None:
        """Call `callback` whenever a latency-sensitive group waits for one of the resources."""
        for resource in resources:
            if resource not in RESOURCES:
                raise ValueError(f"pressure of {resource!r}: expected one of {', '.join(RESOURCES)}")
            self._callbacks.setdefault(resource, []).append(callback)
        self._changed.set()

    @property
    def watched(self) -> dict[_Group, str]:
        """The groups that are watched, and how: by `trigger` or by `polling`."""
        return {
            **dict.fromkeys(self._triggered, "trigger"),
            **dict.fromkeys(self._polled, "polling"),
        }

    def not_ready(self) -> str | None:
        """Return None: without pressure plugins act in their rounds."""
        return None

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        self._epoll = epoll = select.epoll()
        wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        epoll.register(wake, select.EPOLLIN)
        waiter = threading.Thread(
            target=_wait, args=(epoll, wake, loop, self._signalled), name="pressure", daemon=True
        )
        waiter.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow())
                tasks.create_task(self._poll())
        finally:
            os.eventfd_write(wake, 1)
            waiter.join()  # it ends at once
            for descriptor in self._triggered.values():
                os.close(descriptor)
            self._triggered.clear()
            self._polled.clear()
            epoll.close()
            os.close(wake)
            self._epoll = None

    # --- which groups ----------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Watch what there is to watch whenever pods or subscriptions change."""
        self._changed.set()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._changed.wait()
            self._changed.clear()
            self._watch(self._groups())

    def _groups(self) -> set[_Group]:
        directories = {self._layout.qos("Burstable")}
        for meta in self._states.pods():
            if qos.kube_qos(meta.pod) == qos.KubeQoS.GUARANTEED and qos.qos_class_raw(meta.pod) != "BE":
                directories.add(meta.cgroup_dir)
        return {(resource, directory) for resource in self._callbacks for directory in directories}

    def _watch(self, groups: set[_Group]) -> None:
        for group in (self._triggered.keys() | self._polled.keys()) - groups:
            self._unwatch(group)
        for group in sorted(groups - self._triggered.keys() - self._polled.keys()):
            if not self._add_trigger(group):
                self._add_polled(group)

    def _unwatch(self, group: _Group) -> None:
        self._polled.pop(group, None)
        descriptor = self._triggered.pop(group, None)
        if descriptor is not None and self._epoll is not None:
            self._epoll.unregister(descriptor)
            os.close(descriptor)

    def _add_trigger(self, group: _Group) -> bool:
        """Return whether the kernel signals the pressure of a group from now on."""
        if not self._may_trigger or self._epoll is None:
            return False
        resource, directory = group
        try:
            path = self._cgroups.path(f"{resource}.pressure", directory)
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            log.debug("no pressure trigger for %s of %s: %s", resource, directory, error)
            return False
        try:
            with select.epoll() as probe:
                probe.register(descriptor, select.EPOLLPRI)  # refused for what is no file of a kernel
            os.write(descriptor, f"some {STALL_US} {self._window_us}\0".encode())
            self._epoll.register(descriptor, select.EPOLLPRI)
        except OSError as error:
            os.close(descriptor)
            log.info("no pressure trigger for %s of %s, it is read instead: %s", resource, directory, error)
            return False
        self._triggered[group] = descriptor
        return True

    def _add_polled(self, group: _Group) -> None:
        total = self._total(group)
        if total is not None:
            self._polled[group] = _Polled(total, asyncio.get_running_loop().time())

    # --- pressure --------------------------------------------------------------------------------

    def _signalled(self, events: list[tuple[int, int]]) -> None:
        """Report groups whose triggers were signalled; called on the event loop."""
        groups = {descriptor: group for group, descriptor in self._triggered.items()}
        for descriptor, mask in events:
            group = groups.get(descriptor)
            if group is None:
                continue
            if mask & (select.EPOLLERR | select.EPOLLHUP):
                self._unwatch(group)  # the group was removed; a new one of its name is watched with its pod
                self._changed.set()
            else:
                self._report(group)

    async def _poll(self) -> None:
        """Read the groups without triggers; report those that waited as long as a trigger would."""
        loop = asyncio.get_running_loop()
        while True:
            await self._sleep(POLL_SECONDS if self._polled else 1.0)
            for group, known in list(self._polled.items()):
                total = self._total(group)
                if total is None:
                    self._polled.pop(group, None)
                    continue
                now = loop.time()
                if total - known.total_us >= STALL_US:
                    self._polled[group] = _Polled(total, now)
                    self._report(group)
                elif (now - known.since) * 1e6 >= self._window_us:
                    self._polled[group] = _Polled(total, now)

    def _total(self, group: _Group) -> int | None:
        try:
            return self._cgroups.pressure(*group).some.total_us
        except CgroupError as error:
            log.debug("no pressure of %s: %s", group, error)
            return None

    def _report(self, group: _Group) -> None:
        EVENTS.labels(group[0]).inc()
        event = PressureEvent(*group)
        for callback in self._callbacks.get(group[0], ()):
            try:
                callback(event)
            except Exception:
                log.exception("a subscriber to pressure failed")


def _wait(
    epoll: select.epoll,
    wake: int,
    loop: asyncio.AbstractEventLoop,
    signalled: Callable[[list[tuple[int, int]]], Any],
) -> None:
    """Wait for triggers until woken; runs in a thread of its own."""
    while True:
        events = epoll.poll()
        if any(descriptor == wake for descriptor, _ in events):
            return
        try:
            loop.call_soon_threadsafe(signalled, events)
        except RuntimeError:
            return  # the event loop has ended
