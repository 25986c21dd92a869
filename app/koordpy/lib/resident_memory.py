"""Give back memory that only the start of a process needed.

Libraries are mapped files. Pages of which anything was used stay counted as memory of the process, although
most are needed at the start alone: to read settings, build models, make the first connections. They can be
given back at no risk: whatever is used again is mapped again from the page cache.
"""

import ctypes
import logging
import re
from collections.abc import Iterable, Iterator
from typing import Final

log = logging.getLogger(__name__)

_MADV_DONTNEED: Final = 4  # `madvise(2)`

_MAPPING: Final = re.compile(rb"([0-9a-f]+)-([0-9a-f]+) (r-[x-]p) [0-9a-f]+ \S+ [1-9]\d* +/")
"""The head of a private mapping of a file that cannot be written."""


def clean_mappings(smaps: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the first and last address of mappings of files whose pages are all the file's own.

    `smaps` has the lines of /proc/PID/smaps. Where the loader has changed something before it made a mapping
    read-only, that counts as anonymous memory, and would be lost: such mappings are left out.
    """
    found: tuple[int, int] | None = None
    for line in smaps:
        if line.startswith(b"Anonymous:"):
            if found is not None and line.split()[1] == b"0":
                yield found
            found = None
        elif match := _MAPPING.match(line):
            found = int(match[1], 16), int(match[2], 16)


def return_clean_pages() -> None:
    """Give back the pages of libraries; those in use come back at once. Only on Linux with procfs."""
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    try:
        with open("/proc/self/smaps", "rb") as file:
            mappings = list(clean_mappings(file))
    except OSError as error:
        log.debug("pages of libraries are kept: %s", error)
        return
    for first, last in mappings:
        madvise(first, last - first, _MADV_DONTNEED)
