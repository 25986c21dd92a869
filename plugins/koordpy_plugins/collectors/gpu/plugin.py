"""gpu: NVIDIA's GPUs, what pods and containers use of them, and their health (gate Accelerators).

The driver is asked in threads of its own, since it may take long to answer. Source: Koordinator,
`pkg/koordlet/metricsadvisor/devices/gpu`.
"""

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from koordpy.agent.interface import GPU_DEVICES, KINDS, CollectError, Collector, Handle, MetricKind
from koordpy.agent.interface.facts import GPU_DRIVER
from koordpy.agent.interface.gates import ACCELERATORS
from koordpy.agent.interface.reports import DEVICE_RIGHTS
from koordpy.agent.toolkit.pod_groups import Group, PodGroups
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs

if TYPE_CHECKING:
    from koordpy.agent.toolkit.daemon_thread import DaemonThread

    from .attribution import Attribution, UsedDevices, UsingGroup
    from .health import HealthWatch
    from .library import GPULibrary
    from .reading import GPUReader, Reading

log = logging.getLogger(__name__)

OPEN_SECONDS: Final = 120.0
"""How long the driver may take to start: without its persistence daemon it initializes all devices."""

READ_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 60.0
"""The time between two attempts to find devices."""


def nvidia() -> "GPULibrary":
    """Return NVIDIA's library. Raises NoGPULibrary."""
    from .nvml import NVML

    return NVML()


class GPU(Collector):
    """The collector of GPUs."""

    name: ClassVar[str] = "gpu"
    feature: ClassVar[str | None] = ACCELERATORS
    kinds: ClassVar[tuple[MetricKind, ...]] = tuple(
        KINDS[f"{level}_gpu_{what}"]
        for level in ("node", "pod", "container")
        for what in ("core_usage", "memory_usage")
    )
    needs: ClassVar[Needs] = Needs(
        rights=DEVICE_RIGHTS,
        elsewhere=(
            "NVIDIA's driver and libnvidia-ml.so.1, and the devices /dev/nvidia*, in the agent's container "
            "(NVIDIA's container runtime with NVIDIA_VISIBLE_DEVICES=all and "
            "NVIDIA_DRIVER_CAPABILITIES=utility provides them)",
        ),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.HOST_PID,
                purpose="the pods of the processes that use GPUs",
                without="usage of GPUs is measured for the node, and not for its pods",
            ),
        ),
    )
    library = staticmethod(nvidia)
    """Makes the vendor's library."""
    groups: "PodGroups[UsingGroup]"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._thread: DaemonThread | None = None
        self._reader: GPUReader | None = None
        self._health: HealthWatch | None = None
        self._node: UsedDevices | None = None
        self._attribution: Attribution | None = None
        self._next_attempt = float("-inf")
        self._named: dict[str, str] = {}

    def setup(self) -> None:
        """Follow the node's pods."""
        self.groups = PodGroups(self.handle, self.name, self._group)

    def idle_reason(self) -> str | None:
        """Say that the library is not there."""
        from .library import NoGPULibrary

        try:
            self.library()
        except NoGPULibrary as error:
            self.handle.metrics.set_fact(GPU_DEVICES, ())
            return str(error)
        return None

    async def collect(self) -> None:
        """Measure what processes use. Raises CollectError if the driver does not answer."""
        from koordpy.agent.toolkit.daemon_thread import DaemonThread

        if self._thread is None:
            self._thread = DaemonThread("gpu")
        if self._thread.busy:
            raise CollectError("NVIDIA's driver has not answered yet")
        if self._reader is None:
            await self._find_devices(self._thread)
        if self._reader is None:
            return
        try:
            async with asyncio.timeout(READ_SECONDS):
                reading = await self._thread.call(self._reader.read)
        except TimeoutError:
            raise CollectError(f"NVIDIA's driver has not answered for {READ_SECONDS:.0f} s") from None
        self._store(reading)

    def close(self) -> None:
        """Give up the driver, and let the threads end."""
        if self._health is not None:
            self._health.stop()
            self._health = None
        if self._thread is not None:
            self._thread.close(None if self._reader is None else self._reader.close)
        self._thread = self._reader = None

    async def _find_devices(self, thread: "DaemonThread") -> None:
        """Open the driver; without devices it is tried again after a while."""
        from .health import HealthWatch
        from .library import GPUError
        from .reading import GPUReader

        handle = self.handle
        now = handle.clock.monotonic()
        if now < self._next_attempt:
            return
        self._next_attempt = now + RETRY_SECONDS
        reader = GPUReader(self.library(), handle.sys_root, handle.clock.now)
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await thread.call(reader.open)
        except TimeoutError:
            raise CollectError(f"NVIDIA's driver has not started within {OPEN_SECONDS:.0f} s") from None
        except (GPUError, OSError, ValueError) as error:
            self._name("", f"no GPUs are measured: {error}")
            handle.metrics.set_fact(GPU_DEVICES, ())
            await thread.call(reader.close)
            return
        self._reader = reader
        handle.metrics.set_fact(GPU_DRIVER, reader.driver)
        self._health = HealthWatch(self.library, [device.bus_id for device in reader.devices])
        self._health.start()

    def _store(self, reading: "Reading") -> None:
        from .attribution import Attribution, UsedDevices

        assert self._reader is not None
        handle, at = self.handle, reading.at.timestamp()
        if self._node is None or self._attribution is None:
            self._node = UsedDevices(handle.metrics, "node", {})
            self._attribution = Attribution(handle.cgroups, handle.clock.monotonic)
        unhealthy = self._health.unhealthy if self._health is not None else {}
        devices = tuple(
            replace(device, status=unhealthy.get(device.bus_id)) for device in self._reader.devices
        )
        handle.metrics.set_fact(GPU_DEVICES, devices)
        groups = self.groups.current()
        self._attribution.follow(groups, {pid for used in reading.usage.values() for pid in used})
        for device in devices:
            if (problem := reading.problems.get(device.uuid)) is not None:
                self._name(device.uuid, f"usage of GPU {device.bus_id} is not measured: {problem}")
                continue
            self._named.pop(device.uuid, None)
            processes = reading.usage[device.uuid]
            core = sum(process.core for process in processes.values())
            memory = sum(process.memory for process in processes.values())
            self._node.add(device, core, memory, at)
            for group, (core, memory) in self._attribution.usage(groups, processes).items():
                group.add(device, core, memory, at)

    def _group(self, group: Group) -> "UsingGroup":
        from .attribution import UsingGroup

        return UsingGroup(group, self.handle.metrics)

    def _name(self, what: str, problem: str) -> None:
        if self._named.get(what) != problem:
            self._named[what] = problem
            log.warning("%s", problem)
