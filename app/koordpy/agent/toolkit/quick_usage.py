"""CPU usage right now, measured over a tenth of a second: for decisions that cannot wait for collectors."""

from collections.abc import Mapping
from dataclasses import dataclass

from koordpy.agent.interface.cgroups import CgroupError
from koordpy.agent.interface.handle import Handle

MEASURING_SECONDS = 0.1
_JIFFIES_PER_SECOND = 100
_BUSY = (0, 1, 2, 5, 6)
"""user, nice, system, irq and softirq of a line of /proc/stat."""


@dataclass(frozen=True)
class CPUUsage:
    """Cores used by the node and by groups, by the keys that were asked for."""

    node: float
    groups: Mapping[str, float]


@dataclass(frozen=True)
class _Reading:
    at: float
    node_jiffies: int
    groups_ns: Mapping[str, int]


async def measure(handle: Handle, directories: Mapping[str, str]) -> CPUUsage | None:
    """Measure the node and the groups of cgroup directories; None if the node cannot be measured.

    Groups that cannot be read are left out.
    """
    before = _read(handle, directories)
    await handle.sleep(MEASURING_SECONDS)
    after = _read(handle, directories)
    if before is None or after is None or after.at <= before.at:
        return None
    seconds = after.at - before.at
    groups = {
        key: (used - before.groups_ns[key]) / seconds / 1e9
        for key, used in after.groups_ns.items()
        if key in before.groups_ns and used >= before.groups_ns[key]
    }
    jiffies = after.node_jiffies - before.node_jiffies
    return CPUUsage(max(jiffies, 0) / _JIFFIES_PER_SECOND / seconds, groups)


def _read(handle: Handle, directories: Mapping[str, str]) -> _Reading | None:
    try:
        with (handle.proc_root / "stat").open("rb") as file:
            fields = file.readline().split()
        busy = sum(int(fields[1 + number]) for number in _BUSY)
    except (OSError, ValueError, IndexError):
        return None
    groups: dict[str, int] = {}
    for key, directory in directories.items():
        try:
            groups[key] = handle.cgroups.cpu_usage_ns(directory)
        except CgroupError:
            continue
    return _Reading(handle.clock.monotonic(), busy, groups)
