"""Watches the GPUs for critical errors; a device that had one is unhealthy for as long as the agent runs.

Source: Koordinator, `pkg/koordlet/statesinformer/impl/states_device_linux.go`; the numbers of errors (Xid)
are NVIDIA's, https://docs.nvidia.com/deploy/xid-errors.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from koordpy.agent.interface.facts import DeviceStatus

from .library import GPUError, GPULibrary, UnsupportedByGPU, XidEvent

log = logging.getLogger(__name__)

APPLICATION_ERRORS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Errors of applications, after which a device is still healthy."""

WAIT_MILLISECONDS: Final = 5000
_PAUSE_SECONDS: Final = 5.0
"""Between two waits of which the first failed."""


class HealthWatch:
    """A thread that waits for errors of some devices."""

    def __init__(self, library: Callable[[], GPULibrary], bus_ids: list[str]) -> None:
        self._make, self._bus_ids = library, bus_ids
        self._stopped = threading.Event()
        self._unhealthy: dict[str, DeviceStatus] = {}

    @property
    def unhealthy(self) -> Mapping[str, DeviceStatus]:
        """What is wrong with devices, by bus id; a new mapping after each change."""
        return self._unhealthy

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self.run, name="gpu-health", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end after its present wait."""
        self._stopped.set()

    def run(self) -> None:
        """Watch until stopped."""
        try:
            library = self._make()
            library.open()
        except GPUError as error:
            log.error("the health of GPUs is not watched: %s", error)
            return
        try:
            if self._subscribe(library):
                self._watch(library)
        finally:
            try:
                library.close()
            except GPUError as error:
                log.warning("%s", error)

    def _subscribe(self, library: GPULibrary) -> bool:
        """Return whether any device reports errors."""
        any_reports = False
        for bus_id in self._bus_ids:
            try:
                library.subscribe(bus_id)
                any_reports = True
            except UnsupportedByGPU:
                message = "device does not support health checking"
                self._mark(bus_id, DeviceStatus(False, "DeviceHealthCheckNotSupported", message))
            except GPUError as error:
                log.error("the health of GPU %s is not watched: %s", bus_id, error)
        return any_reports

    def _watch(self, library: GPULibrary) -> None:
        failure = ""
        while not self._stopped.is_set():
            try:
                event = library.wait(WAIT_MILLISECONDS)
                failure = ""
            except GPUError as error:
                if failure != str(error):
                    failure = str(error)
                    log.error("waiting for errors of GPUs fails: %s", error)
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            if event is not None and event.xid not in APPLICATION_ERRORS:
                self._failed(library, event)

    def _failed(self, library: GPULibrary, event: XidEvent) -> None:
        code, message = f"Xid{event.xid}", f"Xid error detected on device, error code: {event.xid}"
        for bus_id in self._bus_ids:
            if not event.uuid or bus_id == event.bus_id:
                self._mark(bus_id, DeviceStatus(False, code, message))
            if not event.uuid:
                continue
            try:
                library.identity(bus_id)
            except GPUError as error:
                self._mark(bus_id, DeviceStatus(False, code, f"failed to get device, error: {error}"))

    def _mark(self, bus_id: str, status: DeviceStatus) -> None:
        log.warning("GPU %s is unhealthy: %s (%s)", bus_id, status.error_message, status.error_code)
        self._unhealthy = {**self._unhealthy, bus_id: status}
