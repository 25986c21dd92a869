"""How many files the process may open: an agent keeps some for every pod and container."""

import resource
from typing import Final

WANTED: Final = 65536
"""More than the files of the most pods that a node can have."""


def raised() -> int:
    """Raise the limit as far as wanted and allowed; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
