"""What the block I/O strategy wants to be written, per cgroup directory.

A target is the best-effort directory, a pod's directory (limits and a weight per disk) or the root (latency
targets and cost model of blk-iocost). What a disk has from an earlier round and is no longer configured is
reset. Source: Koordinator, `pkg/koordlet/qosmanager/plugins/blkio`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from koordpy.agent.interface import PodMeta, Update
from koordpy.api.slo.resource_qos import BlockCfg, IOCfg

from .disks import Disks, TargetError

REASON: Final = "UpdateBlkIO"

READ_IOPS: Final = "blkio.throttle.read_iops_device"
READ_BPS: Final = "blkio.throttle.read_bps_device"
WRITE_IOPS: Final = "blkio.throttle.write_iops_device"
WRITE_BPS: Final = "blkio.throttle.write_bps_device"
WEIGHT: Final = "blkio.cost.weight"
COST_QOS: Final = "blkio.cost.qos"
COST_MODEL: Final = "blkio.cost.model"

DEFAULT_WEIGHT: Final = 100
DEFAULT_LATENCY_US: Final = 3000
DEFAULT_LATENCY_PERCENT: Final = 95

_NUMBER: Final = re.compile("[0-9]+:[0-9]+")

Reader = Callable[[str, str], str]
"""Returns the text of a resource's file in a directory; raises OSError."""


@dataclass(frozen=True)
class Target:
    """A directory, and the blocks that are configured for it; none if everything is to be reset."""

    directory: str
    blocks: Sequence[BlockCfg]
    pod: PodMeta | None = None

    @property
    def is_root(self) -> bool:
        """Whether it is the root, which has latency targets instead of limits."""
        return not self.directory

    @property
    def recorded(self) -> tuple[str, ...]:
        """The files that tell which disks have settings."""
        return (COST_QOS,) if self.is_root else (READ_IOPS, READ_BPS, WRITE_IOPS, WRITE_BPS, WEIGHT)


def updates(target: Target, disks: Disks, read: Reader) -> list[Update]:
    """Return what to write for a target, of configured disks first. Raises TargetError: then nothing."""
    recorded = _recorded(target, read)
    wanted: list[Update] = []
    for block in target.blocks:
        number = disks.number(block, target.pod)
        recorded.pop(number, None)
        lines = _cost(number, block.io_cfg) if target.is_root else _limits(number, block.io_cfg)
        wanted.extend(Update(file, target.directory, value, REASON) for file, value in lines)
    for number in recorded:
        lines = [(COST_QOS, f"{number} enable=0")] if target.is_root else _limits(number, IOCfg())
        wanted.extend(Update(file, target.directory, value, REASON) for file, value in lines)
    return wanted


def _recorded(target: Target, read: Reader) -> dict[str, None]:
    """The disks that have settings, in the order of the files. Raises TargetError."""
    found: dict[str, None] = {}
    for file in target.recorded:
        try:
            text = read(file, target.directory)
        except OSError as error:
            raise TargetError(str(error)) from None
        found.update(dict.fromkeys(_numbers(file, text)))
    return found


def _numbers(file: str, text: str) -> Iterator[str]:
    for line in _lines(text):
        word, space, _ = line.partition(" ")
        if not space:
            raise TargetError(f"{file}: line {line!r}: expected a disk and its value")
        if _NUMBER.match(word):
            yield word


def _lines(text: str) -> Iterable[str]:
    """The lines as Go's scanner has them: a last line break ends a line, a carriage return before it too."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _limits(number: str, io: IOCfg) -> list[tuple[str, str]]:
    return [
        (READ_IOPS, f"{number} {_or(io.read_iops, 0)}"),
        (READ_BPS, f"{number} {_or(io.read_bps, 0)}"),
        (WRITE_IOPS, f"{number} {_or(io.write_iops, 0)}"),
        (WRITE_BPS, f"{number} {_or(io.write_bps, 0)}"),
        (WEIGHT, f"{number} {_or(io.io_weight_percent, DEFAULT_WEIGHT)}"),
    ]


def _cost(number: str, io: IOCfg) -> list[tuple[str, str]]:
    model = "ctrl=auto"
    if io.enable_user_model:
        model = (
            f"ctrl=user rbps={_or(io.model_read_bps, 0)} rseqiops={_or(io.model_read_seq_iops, 0)}"
            f" rrandiops={_or(io.model_read_rand_iops, 0)} wbps={_or(io.model_write_bps, 0)}"
            f" wseqiops={_or(io.model_write_seq_iops, 0)} wrandiops={_or(io.model_write_rand_iops, 0)}"
        )
    targets = (
        f"enable=1 ctrl=user rpct={_or(io.read_latency_percent, DEFAULT_LATENCY_PERCENT)}"
        f" rlat={_or(io.read_latency, DEFAULT_LATENCY_US)}"
        f" wpct={_or(io.write_latency_percent, DEFAULT_LATENCY_PERCENT)}"
        f" wlat={_or(io.write_latency, DEFAULT_LATENCY_US)}"
    )
    return [(COST_QOS, f"{number} {targets}"), (COST_MODEL, f"{number} {model}")]


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
