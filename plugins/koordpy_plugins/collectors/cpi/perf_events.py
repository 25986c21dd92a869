"""Cycles and instructions of a cgroup on one CPU, counted by the kernel (perf_event_open).

Source: Linux, `include/uapi/linux/perf_event.h`; Koordinator, `pkg/koordlet/util/{perf,perf_group}`. With
libpfm4 Koordinator asks for the same two events by name, which are the kernel's generic ones, as one group.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fcntl import ioctl
from typing import Final

_SYSTEM_CALLS: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
"""The number of perf_event_open by machine."""

_HARDWARE: Final = 0
_CYCLES: Final = 0
_INSTRUCTIONS: Final = 1

_ATTRIBUTES: Final = struct.Struct("=IIQQQQQIIQ")
"""perf_event_attr, up to its first published size of 64 bytes."""
_TOTAL_TIMES: Final = 0b11
_GROUP: Final = 0b1000
_DISABLED: Final = 1 << 0
_EXCLUDE_HYPERVISOR: Final = 1 << 6
_PID_IS_CGROUP: Final = 1 << 2
_CLOSE_ON_EXEC: Final = 1 << 3
_ENABLE: Final = 0x2400
_DISABLE: Final = 0x2401
_WHOLE_GROUP: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Event:
    """A kind of event, by the kernel's numbers."""

    type: int
    config: int


CYCLES_AND_INSTRUCTIONS: Final = (Event(_HARDWARE, _CYCLES), Event(_HARDWARE, _INSTRUCTIONS))
SUPPORTED: Final = os.uname().machine in _SYSTEM_CALLS
"""Whether the number of the system call is known on this machine."""


class Counters:
    """Counts some events of a cgroup on one CPU from its creation on.

    As a group, events are counted at the same times; otherwise each for itself. Where the processor has fewer
    counters than are asked for, the kernel counts a part of the time, and values are scaled to all of it.
    """

    def __init__(self, cgroup: int, cpu: int, events: Sequence[Event], *, grouped: bool) -> None:
        """Start to count in the cgroup with this directory descriptor. Raises OSError."""
        self._grouped = grouped
        self._descriptors: list[int] = []
        try:
            for event in events:
                leader = self._descriptors[0] if grouped and self._descriptors else -1
                self._descriptors.append(_open(event, cgroup, cpu, leader, grouped=grouped))
            for descriptor in self._leaders:
                ioctl(descriptor, _ENABLE, _WHOLE_GROUP if grouped else 0)
        except OSError:
            self.close()
            raise

    def read(self) -> list[float]:
        """Stop counting, and return the number of each event. Raises OSError."""
        values: list[float] = []
        for descriptor in self._leaders:
            ioctl(descriptor, _DISABLE, _WHOLE_GROUP if self._grouped else 0)
            numbers = _numbers(os.read(descriptor, 8 * (3 + len(self._descriptors))))
            if self._grouped:
                _, enabled, running, *counted = numbers
            else:
                *counted, enabled, running = numbers
            share = running / enabled if running and enabled else 1.0
            values += [count / share for count in counted]
        return values

    def close(self) -> None:
        """Give up the counters."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    @property
    def _leaders(self) -> list[int]:
        return self._descriptors[:1] if self._grouped else self._descriptors


def explain(error: OSError, paranoid: str) -> str:
    """Return why cycles and instructions cannot be counted on a node; `paranoid` is the kernel's setting."""
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return "the processors have no counters of cycles and instructions, as in most virtual machines"
    if error.errno in (errno.EPERM, errno.EACCES):
        return (
            "the agent may not count: it needs CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8), and a seccomp "
            f"profile that allows perf_event_open; kernel.perf_event_paranoid is {paranoid}"
        )
    if error.errno == errno.ENOSYS:
        return "the kernel has no performance events"
    if error.errno in (errno.EBADF, errno.EINVAL):
        return "the kernel does not count by cgroup (CONFIG_CGROUP_PERF)"
    return f"perf_event_open fails: {error.strerror}"


def _open(event: Event, cgroup: int, cpu: int, leader: int, *, grouped: bool) -> int:
    form = _TOTAL_TIMES | (_GROUP if grouped else 0)
    flags = _EXCLUDE_HYPERVISOR | (_DISABLED if leader == -1 else 0)
    attributes = bytearray(_ATTRIBUTES.size)
    _ATTRIBUTES.pack_into(
        attributes, 0, event.type, len(attributes), event.config, 0, 0, form, flags, 0, 0, 0
    )
    descriptor = _libc.syscall(
        ctypes.c_long(_SYSTEM_CALLS[os.uname().machine]),
        (ctypes.c_char * len(attributes)).from_buffer(attributes),
        ctypes.c_int(cgroup),
        ctypes.c_int(cpu),
        ctypes.c_int(leader),
        ctypes.c_ulong(_PID_IS_CGROUP | _CLOSE_ON_EXEC),
    )
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(descriptor)


def _numbers(text: bytes) -> tuple[int, ...]:
    return struct.unpack(f"={len(text) // 8}Q", text)
