"""What is kept of one container, and its counters during one window."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from koordpy.agent.interface import Handle
from koordpy.agent.toolkit.pod_groups import Group

log = logging.getLogger(__name__)


class Counting(Protocol):
    """Counters of one cgroup on one CPU (`perf_events.Counters`)."""

    def read(self) -> list[float]:
        """Stop counting, and return cycles and instructions. Raises OSError."""
        ...

    def close(self) -> None:
        """Give up the counters."""
        ...


Start = Callable[[int, int], Counting]
"""Starts to count in the cgroup with a directory descriptor, on a CPU. Raises OSError."""


class CountedGroup:
    """A container; pods are not counted."""

    def __init__(self, group: Group, handle: Handle) -> None:
        self.group = group
        self.values: tuple[float, float] | None = None
        """Cycles and instructions of the last window."""
        self._folder = handle.cgroups.path("perf_event.procs", group.directory).parent
        of = {"pod_uid": group.pod_uid, "container_id": group.container_id}
        self._series = (
            [handle.metrics.series("container_cpi", {**of, "cpi_resource": what}) for what in FIELDS]
            if group.container_id
            else []
        )
        self._running: list[Counting] = []
        self._failed = False

    def start(self, start: Start, cpus: Sequence[int]) -> bool:
        """Start to count on all CPUs; return whether it counts."""
        try:
            cgroup = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return False  # a container that has ended, or not started
        try:
            for cpu in cpus:
                self._running.append(start(cgroup, cpu))
        except OSError as error:
            self.stop()
            if not self._failed:
                names = (self.group.namespace, self.group.pod_name, self.group.container_name)
                log.warning("cycles of pod %s/%s container %s are not counted: %s", *names, error)
            self._failed = True
            return False
        finally:
            os.close(cgroup)
        self._failed = False
        return True

    def finish(self, at: float) -> None:
        """End the window, and store its sums."""
        try:
            sums = [sum(column) for column in zip(*(each.read() for each in self._running), strict=True)]
        except OSError:
            return
        finally:
            self.stop()
        cycles, instructions = self.values = (sums[0], sums[1])
        self._series[0].add(cycles, at)
        self._series[1].add(instructions, at)

    def stop(self) -> None:
        """Give up the counters of an unfinished window."""
        for each in self._running:
            each.close()
        self._running.clear()

    def close(self) -> None:
        """Drop the series."""
        self.stop()
        for series in self._series:
            series.close()


FIELDS = ("cycle", "instruction")
"""The names of what is counted, as a property of the series."""
