"""Shares of the last-level cache and of the memory bandwidth, in the terms of the kernel's resctrl files.

A control group is a directory of the resctrl file system. Its `schemata` hold a bit mask of cache ways (line
`L3`) and a limit of the memory bandwidth (line `MB`) per L3 cache, its `tasks` the ids of its threads.
Source: Koordinator, `pkg/koordlet/util/system/resctrl.go`, `pkg/koordlet/util/resctrl` and
`pkg/koordlet/qosmanager/plugins/resctrl`.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from koordpy.api.needs import Privilege, PrivilegeNeed
from koordpy.api.slo.reading import parse, read
from koordpy.api.slo.rules import Int64
from koordpy.api.slo.strategy import Strategy
from koordpy.lib import int64

ANNOTATION: Final = "node.koordinator.sh/resctrl"
POD_GROUP_PREFIX: Final = "koordlet-"

INTEL: Final = "GenuineIntel"
AMD: Final = "AuthenticAMD"

PRIVILEGES: Final = (
    PrivilegeNeed(
        privilege=Privilege.SYS_FS,
        purpose="the resctrl file system, which the node has mounted",
        without="no shares are set, and the log says that resctrl is not mounted",
        cpu_flag="cat_l3",
    ),
    PrivilegeNeed(
        privilege=Privilege.DAC_OVERRIDE,
        purpose="creating resctrl groups, in a folder that nobody may write",
        without="no groups are created, and the log says so",
        cpu_flag="cat_l3",
    ),
    PrivilegeNeed(
        privilege=Privilege.HOST_PID,
        purpose="the threads of containers",
        without="no threads move into the groups, and the log says so",
        cpu_flag="cat_l3",
    ),
)
"""What strategies that keep resctrl groups need."""

_AMD_UNLIMITED: Final = 2048
_AMD_PER_HUNDRED: Final = 160
"""What 100 % would be in AMD's unit of 1/8 GB/s, as Koordinator measured it on Milan."""

_HEX: Final = re.compile(r"[0-9a-fA-F]+")


def mask_of_cbm(text: str) -> int:
    """Read `info/L3/cbm_mask`: hexadecimal digits of at most 32 bits. Raises ValueError."""
    if not _HEX.fullmatch(text) or (mask := int(text, 16)) >= 1 << 32:
        raise ValueError(f"cache bit mask {text!r}: expected hexadecimal digits of 32 bits")
    return mask


def cache_mask(cbm: int, start_percent: int, end_percent: int) -> int:
    """Return the mask of the cache ways from a start to an end percentage, both rounded up to whole ways.

    Raises ValueError for a root mask whose bits are not all low, or for percentages that are no range.
    """
    if cbm & (cbm + 1):
        raise ValueError(f"cache bit mask {cbm:#x}: expected all bits to be low ones")
    if start_percent < 0 or end_percent > 100 or end_percent <= start_percent:
        raise ValueError(f"cache range {start_percent} to {end_percent}: expected 0 <= start < end <= 100")
    ways = float(cbm.bit_length())
    start, end = (math.ceil(ways * percent / 100) for percent in (start_percent, end_percent))
    return (1 << end) - (1 << start)


def bandwidth(percent: int, vendor: str) -> int:
    """Return the value of the line `MB` for a percentage: AMD has absolute amounts, others steps of 10."""
    if vendor == AMD:
        if percent == 100:
            return _AMD_UNLIMITED
        return int64.from_float(float(int64.wrap(_AMD_PER_HUNDRED * percent)) / 100)
    tens = int64.quotient(percent, 10) * 10
    return percent if tens == percent else tens + 10


def class_bandwidth(percent: int | None, vendor: str) -> int | None:
    """Return the value of the line `MB` of a QoS class; None for a percentage that is not in 1 to 100."""
    return None if percent is None or not 1 <= percent <= 100 else bandwidth(percent, vendor)


def cache_line(masks: dict[int, int]) -> str:
    """Return the line `L3` for masks by cache id, with its line break; "" without caches."""
    return _line("L3", {cache: f"{mask:x}" for cache, mask in masks.items()})


def bandwidth_line(limits: dict[int, int]) -> str:
    """Return the line `MB` for limits by cache id, with its line break; "" without caches."""
    return _line("MB", {cache: str(limit) for cache, limit in limits.items()})


def _line(name: str, values: dict[int, str]) -> str:
    if not values:
        return ""
    return f"{name}:" + "".join(f"{cache}={values[cache]};" for cache in sorted(values)) + "\n"


def parse_schemata(text: str) -> dict[str, dict[int, str]]:
    """Read a `schemata` file: the name of a line to cache id to the text of the value.

    Lines and entries of another form are left out.
    """
    lines: dict[str, dict[int, str]] = {}
    for line in text.splitlines():
        name, mark, entries = line.strip().partition(":")
        if not mark or ":" in entries:
            continue
        found = lines[name] = {}
        for entry in entries.split(";"):
            cache, mark, value = entry.partition("=")
            number = int64.parse(cache.strip(), bits=32)
            if mark and number is not None:
                found[number] = value.strip()
    return lines


# --- the annotation of a pod -----------------------------------------------------------------------


class Schemata(Strategy, frozen=True):
    """A percentage of the memory bandwidth, and a range of percentages of the cache."""

    percent: Int64 = 0
    range: list[Int64 | None] = []


class CacheSchemata(Schemata, frozen=True):
    """The same for one L3 cache."""

    cache_id: Int64 = msgspec.field(default=0, name="cacheID")


class Allocation(Strategy, frozen=True):
    """One of the two resources: for all caches, and exceptions."""

    schemata: Schemata = Schemata()
    schemata_per_cache: list[CacheSchemata] = []


class PodResctrl(Strategy, frozen=True):
    """The annotation `node.koordinator.sh/resctrl`."""

    llc: Allocation = Allocation()
    mb: Allocation = Allocation()


def pod_group(uid: str) -> str:
    """Return the control group of a pod that has the annotation."""
    return POD_GROUP_PREFIX + uid


def read_annotation(text: str) -> PodResctrl:
    """Read the annotation of a pod. Raises DecodeError (a ValueError)."""
    return read(PodResctrl, parse(text), f"annotation {ANNOTATION}")


def pod_schemata(wanted: PodResctrl, cbm: int, vendor: str, cache_ids: Iterable[int]) -> str:
    """Return the schemata of an annotated pod's group; "" if nothing in the annotation is valid.

    A cache range that is impossible ends the reading: what was read before it stays. A line is left out
    unless all its values are positive; of cache masks there must be one for every cache.
    """
    ids = list(cache_ids)
    masks, limits = dict.fromkeys(ids, 0), dict.fromkeys(ids, 0)
    for item, caches in (
        *([(wanted.mb.schemata, ids)] if wanted.mb.schemata.percent else []),
        *((item, [item.cache_id]) for item in wanted.mb.schemata_per_cache),
    ):
        limits.update(dict.fromkeys(caches, _pod_bandwidth(item.percent, vendor)))
    ranges = [
        (wanted.llc.schemata, ids),
        *((item, [item.cache_id]) for item in wanted.llc.schemata_per_cache),
    ]
    for item, caches in ranges:
        if len(item.range) != 2:
            continue
        start, end = (percent or 0 for percent in item.range)
        try:
            mask = cache_mask(cbm, start, end)
        except ValueError:
            break
        masks.update(dict.fromkeys(caches, mask))
    text = ""
    if ids and len(masks) == len(set(ids)) and all(mask > 0 for mask in masks.values()):
        text += cache_line(masks)
    if ids and all(limit > 0 for limit in limits.values()):
        text += bandwidth_line({cache: limits.get(cache, 0) for cache in masks})
    return text


def _pod_bandwidth(percent: int, vendor: str) -> int:
    """Only Intel's and AMD's processors are known here; 0, which is invalid, for others."""
    return bandwidth(percent, vendor) if vendor in (INTEL, AMD) else 0


# --- the file system ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Processors:
    """What /proc/cpuinfo says of the first processor."""

    vendor: str
    flags: frozenset[str]

    @property
    def can_allocate(self) -> bool:
        """Whether cache and memory bandwidth can be allocated."""
        return {"cat_l3", "mba"} <= self.flags

    @property
    def can_monitor(self) -> bool:
        """Whether cache occupancy and memory bandwidth can be measured per group."""
        return {"cqm_mbm_total", "cqm_mbm_local", "cqm_llc", "cqm_occup_llc"} <= self.flags


def processors(proc_root: Path) -> Processors:
    """Read /proc/cpuinfo up to the flags of the first processor. Raises OSError."""
    vendor = "unknown"
    with (proc_root / "cpuinfo").open() as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "vendor_id":
                vendor = value.strip()
            elif name.strip() == "flags":
                return Processors(vendor, frozenset(value.split()))
    return Processors(vendor, frozenset())


@dataclass(frozen=True)
class ResctrlFiles:
    """Reads the resctrl file system, which is mounted at `root` (/sys/fs/resctrl)."""

    root: Path

    @property
    def is_mounted(self) -> bool:
        """Whether the cache can be allocated through the files."""
        return self.cbm_file.exists()

    @property
    def cbm_file(self) -> Path:
        """The file with the mask of all cache ways."""
        return self.root / "info" / "L3" / "cbm_mask"

    def cbm(self) -> int:
        """Return the mask of all cache ways. Raises OSError or ValueError."""
        return mask_of_cbm(self.cbm_file.read_text().strip())

    def cache_ids(self) -> tuple[int, ...]:
        """Return the ids of the L3 caches, ascending. Raises OSError."""
        lines = parse_schemata((self.root / "schemata").read_text())
        return tuple(sorted(lines.get("L3", ())))

    def group(self, name: str) -> Path:
        """Return the directory of a control group."""
        return self.root / name

    def schemata(self, group: str) -> dict[str, dict[int, str]]:
        """Return the schemata of a group. Raises OSError."""
        return parse_schemata((self.root / group / "schemata").read_text())

    def tasks(self, group: str) -> frozenset[int]:
        """Return the ids of a group's threads. Raises OSError or ValueError."""
        return frozenset(map(int, (self.root / group / "tasks").read_text().split()))


def new_tasks(ids: Iterable[int], known: frozenset[int]) -> list[int]:
    """Return the ids that are not in a group yet, in their order; duplicates stay."""
    return [task for task in ids if task not in known]
