"""A GPU vendor's library in memory."""

import threading
from dataclasses import dataclass, field

from koordpy_plugins.collectors.gpu.library import (
    GPUError,
    Identity,
    NoGPULibrary,
    ProcessUsage,
    UnsupportedByGPU,
    XidEvent,
)


@dataclass
class Driver:
    """What the library finds: devices by PCI address, and events in their order."""

    devices: dict[str, Identity] = field(default_factory=dict)
    usage: dict[str, dict[int, ProcessUsage]] = field(default_factory=dict)
    version: str = "550.54"
    installed: bool = True
    failure: str = ""
    lost: set[str] = field(default_factory=set)
    too_old: set[str] = field(default_factory=set)
    events: list[XidEvent] = field(default_factory=list)
    opened: int = 0
    hangs: threading.Event | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    subscribed: list[str] = field(default_factory=list)
    waiting: threading.Event = field(default_factory=threading.Event)
    """Set once all events were delivered."""

    def library(self) -> "Library":
        if not self.installed:
            raise NoGPULibrary("NVIDIA's library libnvidia-ml.so.1 cannot be loaded: not found")
        return Library(self)


class Library:
    """The library, opened once."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def open(self) -> None:
        if self._driver.failure:
            raise GPUError(self._driver.failure)
        with self._driver.lock:
            self._driver.opened += 1

    def close(self) -> None:
        with self._driver.lock:
            self._driver.opened -= 1

    def driver_version(self) -> str:
        if not self._driver.version:
            raise GPUError("nvmlSystemGetDriverVersion: Unknown Error")
        return self._driver.version

    def identity(self, bus_id: str) -> Identity:
        self._answer(bus_id)
        return self._driver.devices[bus_id]

    def processes(self, bus_id: str) -> dict[int, ProcessUsage]:
        if self._driver.hangs is not None:
            self._driver.hangs.wait()
        self._answer(bus_id)
        return self._driver.usage.get(bus_id, {})

    def subscribe(self, bus_id: str) -> None:
        if bus_id in self._driver.too_old:
            raise UnsupportedByGPU("nvmlDeviceRegisterEvents: Not Supported")
        self._driver.subscribed.append(bus_id)

    def wait(self, milliseconds: int) -> XidEvent | None:
        if self._driver.events:
            return self._driver.events.pop(0)
        self._driver.waiting.set()
        threading.Event().wait(0.01)
        return None

    def _answer(self, bus_id: str) -> None:
        if bus_id in self._driver.lost:
            raise GPUError("nvmlDeviceGetHandleByPciBusId_v2: GPU is lost")
