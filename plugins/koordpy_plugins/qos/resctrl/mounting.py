"""Mounts the resctrl file system where the node has not done so."""

import ctypes
import os
from pathlib import Path


def mount(root: Path) -> None:
    """Mount resctrl at its folder. Raises OSError without CAP_SYS_ADMIN, or where the kernel has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"resctrl", os.fsencode(root), b"resctrl", 0, None):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(root))
