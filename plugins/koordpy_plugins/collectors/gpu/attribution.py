"""Which pods and containers the processes on GPUs belong to, and the series of their usage."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from koordpy.agent.interface import CgroupError, Cgroups, Metrics, Series
from koordpy.agent.interface.facts import GPUDevice
from koordpy.agent.toolkit.pod_groups import Group

from .library import ProcessUsage

RETRY_SECONDS: Final = 10.0
"""The time after which processes of no container are looked for again."""


class UsedDevices:
    """The series of one pod, one container, or of the node: made for a device when it is used first."""

    def __init__(self, metrics: Metrics, level: str, of: Mapping[str, str]) -> None:
        self._metrics, self._level, self._of = metrics, level, dict(of)
        self._series: dict[str, tuple[Series, Series]] = {}

    def add(self, device: GPUDevice, core: float, memory: float, at: float) -> None:
        """Add a sample: percent of the multiprocessors, and bytes."""
        series = self._series.get(device.uuid)
        if series is None:
            named = {**self._of, "gpu_minor": str(device.minor), "gpu_device_uuid": device.uuid}
            series = self._series[device.uuid] = (
                self._metrics.series(f"{self._level}_gpu_core_usage", named),
                self._metrics.series(f"{self._level}_gpu_memory_usage", named),
            )
        series[0].add(core, at)
        series[1].add(memory, at)

    def close(self) -> None:
        """Drop the series."""
        for core, memory in self._series.values():
            core.close()
            memory.close()


class UsingGroup(UsedDevices):
    """A pod or container that may use devices."""

    def __init__(self, group: Group, metrics: Metrics) -> None:
        super().__init__(metrics, group.level, group.properties)
        self.group = group


class Attribution:
    """Finds the container of each process that uses a device.

    The processes of containers are read only when one is unknown: a process that uses a device stays in its
    container.
    """

    def __init__(self, cgroups: Cgroups, monotonic: Callable[[], float]) -> None:
        self._cgroups, self._monotonic = cgroups, monotonic
        self._containers: dict[int, UsingGroup] = {}
        self._foreign: set[int] = set()
        self._looked = float("-inf")

    def usage(
        self, groups: Iterable[UsingGroup], processes: Mapping[int, ProcessUsage]
    ) -> dict[UsingGroup, tuple[int, int]]:
        """Return percent and bytes for each container with processes, and for its pod."""
        if not processes:
            return {}
        pods = {group.group.pod_uid: group for group in groups if not group.group.container_id}
        found: dict[UsingGroup, tuple[int, int]] = {}
        for pid, used in processes.items():
            container = self._containers.get(pid)
            if container is None:
                continue
            for group in (container, pods.get(container.group.pod_uid)):
                if group is not None:
                    core, memory = found.get(group, (0, 0))
                    found[group] = (core + used.core, memory + used.memory)
        return found

    def follow(self, groups: Iterable[UsingGroup], pids: set[int]) -> None:
        """Learn the containers of all processes that use a device, and forget other processes."""
        containers = {group for group in groups if group.group.container_id}
        self._containers = {
            pid: group for pid, group in self._containers.items() if pid in pids and group in containers
        }
        self._foreign &= pids
        now = self._monotonic()
        if now - self._looked >= RETRY_SECONDS:
            self._foreign.clear()
        missing = pids - self._containers.keys() - self._foreign
        if not missing:
            return
        self._looked = now
        for group in containers:
            try:
                inside = missing.intersection(self._cgroups.processes(group.group.directory))
            except CgroupError:
                continue
            self._containers.update(dict.fromkeys(inside, group))
            missing -= inside
        self._foreign |= missing
