"""Whether the agent is in the network of its node."""

import os
from pathlib import Path


def is_of_node(proc_root: Path, own: Path = Path("/proc")) -> bool:
    """Return whether this process has the network of process 1 of a procfs, as far as that can be seen.

    Without the node's processes (hostPID, or a procfs of the node at `proc_root`) it cannot be seen.
    """
    try:
        return os.readlink(proc_root / "1/ns/net") == os.readlink(own / "self/ns/net")
    except OSError:
        return True
