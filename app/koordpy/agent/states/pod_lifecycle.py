"""Notices new pods by the directories that kubelet makes for them, through inotify (koordlet's pleg).

Only directories right below those of the Kubernetes QoS classes are watched, which is where pods appear.
"""

import asyncio
import ctypes
import logging
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_IN_CREATE: Final = 0x100
_IN_DELETE_SELF: Final = 0x400
_IN_IGNORED: Final = 0x8000
_IN_Q_OVERFLOW: Final = 0x4000
_IN_ONLYDIR: Final = 0x01000000
_IN_ISDIR: Final = 0x40000000
_EVENT: Final = struct.Struct("iIII")


class InotifyError(OSError):
    """The kernel refuses to watch directories; the message says why."""


class PodDirectories:
    """Calls `on_new_pod` when a directory appears below one of the QoS directories.

    `qos_directories` are those by which pods are made; one that does not exist yet is watched once its parent
    gets it.
    """

    def __init__(self, qos_directories: list[Path], is_pod: Callable[[str], bool]) -> None:
        self._directories = [str(path) for path in qos_directories]
        self._is_pod = is_pod
        self._descriptor = -1
        self._watched: dict[int, str] = {}
        self._on_new_pod: Callable[[], None] = lambda: None

    def start(self, on_new_pod: Callable[[], None]) -> None:
        """Watch, on the running event loop. Raises InotifyError."""
        self._on_new_pod = on_new_pod
        self._descriptor = _call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)
        for directory in self._directories:
            self._watch(directory)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def stop(self) -> None:
        """Watch nothing any more."""
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
            self._watched.clear()

    @property
    def watched(self) -> Mapping[int, str]:
        """The directories that are watched, by the kernel's number."""
        return self._watched

    def _watch(self, directory: str) -> None:
        try:
            flags = _IN_CREATE | _IN_DELETE_SELF | _IN_ONLYDIR
            number = _call("inotify_add_watch", self._descriptor, os.fsencode(directory), flags)
        except FileNotFoundError:
            return
        self._watched[number] = directory

    def _read(self) -> None:
        try:
            events = os.read(self._descriptor, 64 * 1024)
        except BlockingIOError:
            return
        appeared, at = False, 0
        while at < len(events):
            number, mask, _, length = _EVENT.unpack_from(events, at)
            name = os.fsdecode(events[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
            at += _EVENT.size + length
            if mask & _IN_Q_OVERFLOW:
                appeared = True
            elif mask & _IN_IGNORED:
                self._watched.pop(number, None)
            elif mask & _IN_CREATE and mask & _IN_ISDIR and number in self._watched:
                path = f"{self._watched[number]}/{name}"
                if path in self._directories:
                    self._watch(path)
                    appeared = True  # pods may have come before the watch
                elif self._is_pod(name):
                    appeared = True
        if appeared:
            self._on_new_pod()


def _call(name: str, *arguments: int | bytes) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result = int(getattr(library, name)(*arguments))
    if result < 0:
        error = ctypes.get_errno()
        if error == 2:
            raise FileNotFoundError(error, os.strerror(error), arguments[1])
        raise InotifyError(error, f"{name}: {os.strerror(error)}")
    return result
