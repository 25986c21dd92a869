"""What the collector needs of the vendor's library: a few facts, and one kind of event.

`nvml` implements it with NVIDIA's; tests implement it in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


class GPUError(Exception):
    """The library or the driver refuses a call; the message is theirs."""


class NoGPULibrary(GPUError):
    """The library is not installed where the agent runs."""


class UnsupportedByGPU(GPUError):
    """The device is too old for a call."""


@dataclass(frozen=True)
class Identity:
    """What does not change about a device. `index` is its place in the library's order; memory in bytes."""

    index: int
    minor: int
    uuid: str
    model: str
    memory_total: int


@dataclass(frozen=True)
class ProcessUsage:
    """What a process uses of a device: percent of its multiprocessors, and bytes of its memory."""

    core: int
    memory: int


@dataclass(frozen=True)
class XidEvent:
    """A critical error that the driver reports. `uuid` is empty if it concerns all devices."""

    xid: int
    bus_id: str
    uuid: str


class GPULibrary(Protocol):
    """The library. Devices are named by their PCI addresses in lower case; every method may block.

    All methods raise GPUError. An object is used by one thread only.
    """

    def open(self) -> None:
        """Start to use the driver. Raises NoGPULibrary."""
        ...

    def close(self) -> None:
        """Give up the driver."""
        ...

    def driver_version(self) -> str:
        """Return the version of the driver."""
        ...

    def identity(self, bus_id: str) -> Identity:
        """Return what is known of a device; an error if it does not answer any more."""
        ...

    def processes(self, bus_id: str) -> Mapping[int, ProcessUsage]:
        """Return the usage of processes that compute, by process id, as far as it is known."""
        ...

    def subscribe(self, bus_id: str) -> None:
        """Ask for critical errors of a device. Raises UnsupportedByGPU."""
        ...

    def wait(self, milliseconds: int) -> XidEvent | None:
        """Wait for the next critical error; None if there was none."""
        ...
