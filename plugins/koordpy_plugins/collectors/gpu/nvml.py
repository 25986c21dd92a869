"""NVIDIA's management library (NVML) by ctypes: the few functions that the collector calls.

NVIDIA's own binding, nvidia-ml-py, declares the whole library and takes some 18 MiB of memory, a third of
what the agent is meant to have. Functions and structures: https://docs.nvidia.com/deploy/nvml-api.
"""

import ctypes
from collections.abc import Mapping
from ctypes import Structure, byref, c_char, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any, Final

from .library import GPUError, Identity, NoGPULibrary, ProcessUsage, UnsupportedByGPU, XidEvent

LIBRARY: Final = "libnvidia-ml.so.1"

_NOT_SUPPORTED: Final = 3
_NOT_FOUND: Final = 6
_INSUFFICIENT_SIZE: Final = 7
_TIMEOUT: Final = 10

_TEXT_SIZE: Final = 96
_XID_CRITICAL_ERROR: Final = 0x8
_NOT_AVAILABLE: Final = 2**64 - 1
_ALL_SAMPLES: Final = 1024
"""Microseconds since 1970 after which samples are wanted, as in Koordinator: all that the driver has."""


class _Memory(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Process(Structure):
    _fields_ = (
        ("pid", c_uint),
        ("used", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class _OldProcess(Structure):
    _fields_ = (("pid", c_uint), ("used", c_ulonglong))


class _Utilization(Structure):
    _fields_ = (
        ("pid", c_uint),
        ("time", c_ulonglong),
        ("sm", c_uint),
        ("memory", c_uint),
        ("encoder", c_uint),
        ("decoder", c_uint),
    )


class _PCI(Structure):
    _fields_ = (
        ("bus_id_legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("device_id", c_uint),
        ("subsystem_id", c_uint),
        ("bus_id", c_char * 32),
    )


class _Event(Structure):
    _fields_ = (
        ("device", c_void_p),
        ("type", c_ulonglong),
        ("data", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


_PROCESS_LISTS: Final[tuple[tuple[str, type[Structure]], ...]] = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", _Process),
    ("nvmlDeviceGetComputeRunningProcesses_v2", _Process),
    ("nvmlDeviceGetComputeRunningProcesses", _OldProcess),
)
"""The forms of one call, the newest first; drivers have some of them."""


class NVML:
    """The library, as `GPULibrary` describes it."""

    def __init__(self, path: str = LIBRARY) -> None:
        """Load the library. Raises NoGPULibrary."""
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise NoGPULibrary(f"NVIDIA's library {path} cannot be loaded: {error}") from None
        self._events: c_void_p | None = None

    def open(self) -> None:
        """Start to use the driver."""
        self._call("nvmlInit_v2")

    def close(self) -> None:
        """Give up the driver."""
        if self._events is not None:
            self._call("nvmlEventSetFree", self._events)
            self._events = None
        self._call("nvmlShutdown")

    def driver_version(self) -> str:
        """Return the version of the driver."""
        return self._text("nvmlSystemGetDriverVersion")

    def identity(self, bus_id: str) -> Identity:
        """Return what is known of a device."""
        device = self._device(bus_id)
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", device, byref(memory))
        return Identity(
            index=self._number("nvmlDeviceGetIndex", device),
            minor=self._number("nvmlDeviceGetMinorNumber", device),
            uuid=self._text("nvmlDeviceGetUUID", device),
            model=self._text("nvmlDeviceGetName", device),
            memory_total=int(memory.total),
        )

    def processes(self, bus_id: str) -> Mapping[int, ProcessUsage]:
        """Return the usage of processes that compute; of several samples of one, the newest counts."""
        device = self._device(bus_id)
        memory = self._process_memory(device)
        if not memory:
            return {}
        newest: dict[int, Any] = {}
        for sample in self._utilizations(device):
            known = newest.get(sample.pid)
            if known is None or sample.time > known.time:
                newest[sample.pid] = sample
        return {pid: ProcessUsage(int(newest[pid].sm), used) for pid, used in memory.items() if pid in newest}

    def subscribe(self, bus_id: str) -> None:
        """Ask for critical errors of a device."""
        if self._events is None:
            events = c_void_p()
            self._call("nvmlEventSetCreate", byref(events))
            self._events = events
        device = self._device(bus_id)
        self._call("nvmlDeviceRegisterEvents", device, c_ulonglong(_XID_CRITICAL_ERROR), self._events)

    def wait(self, milliseconds: int) -> XidEvent | None:
        """Wait for the next critical error."""
        event = _Event()
        code = self._code("nvmlEventSetWait_v2", self._events, byref(event), c_uint(milliseconds))
        if code == _TIMEOUT:
            return None
        self._check("nvmlEventSetWait_v2", code)
        if event.type != _XID_CRITICAL_ERROR:
            return None
        device = c_void_p(event.device)
        pci = _PCI()
        self._call("nvmlDeviceGetPciInfo_v3", device, byref(pci))
        uuid = self._text("nvmlDeviceGetUUID", device)
        return XidEvent(int(event.data), pci.bus_id_legacy.decode("ascii", "replace").lower(), uuid)

    # --- calls ---------------------------------------------------------------------------------------

    def _device(self, bus_id: str) -> c_void_p:
        device = c_void_p()
        self._call("nvmlDeviceGetHandleByPciBusId_v2", c_char_p(bus_id.encode()), byref(device))
        return device

    def _process_memory(self, device: c_void_p) -> dict[int, int]:
        for name, type_ in _PROCESS_LISTS:
            if not hasattr(self._library, name):
                continue
            count = c_uint(0)
            code = self._code(name, device, byref(count), None)
            while code == _INSUFFICIENT_SIZE:
                count.value = count.value * 2 + 5  # processes may start in between
                found = (type_ * count.value)()
                code = self._code(name, device, byref(count), found)
                if code == 0:
                    listed: list[Any] = list(found[: count.value])
                    return {each.pid: each.used for each in listed if each.used != _NOT_AVAILABLE}
            self._check(name, code)
            return {}
        raise GPUError("the driver cannot list processes")

    def _utilizations(self, device: c_void_p) -> list[Any]:
        name, count = "nvmlDeviceGetProcessUtilization", c_uint(0)
        code = self._code(name, device, None, byref(count), c_ulonglong(_ALL_SAMPLES))
        if code == _INSUFFICIENT_SIZE:
            samples = (_Utilization * count.value)()
            code = self._code(name, device, samples, byref(count), c_ulonglong(_ALL_SAMPLES))
            if code == 0:
                return list(samples[: count.value])
        if code != _NOT_FOUND:
            self._check(name, code)
        return []

    def _number(self, name: str, device: c_void_p) -> int:
        number = c_uint()
        self._call(name, device, byref(number))
        return number.value

    def _text(self, name: str, *device: c_void_p) -> str:
        buffer = ctypes.create_string_buffer(_TEXT_SIZE)
        self._call(name, *device, buffer, c_uint(_TEXT_SIZE))
        return buffer.value.decode("utf-8", "replace")

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, self._code(name, *arguments))

    def _code(self, name: str, *arguments: Any) -> int:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise GPUError(f"the driver is too old: {LIBRARY} has no {name}") from None
        return int(function(*arguments))

    def _check(self, name: str, code: int) -> None:
        if code == 0:
            return
        describe = self._library.nvmlErrorString
        describe.restype, describe.argtypes = c_char_p, [c_int]
        text = (describe(code) or b"unknown error").decode("utf-8", "replace")
        error = UnsupportedByGPU if code == _NOT_SUPPORTED else GPUError
        raise error(f"{name}: {text}")
