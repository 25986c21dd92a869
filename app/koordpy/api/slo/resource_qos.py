"""CPU, memory, cache, block device and network settings of each QoS class.

Source: Koordinator, `apis/slo/v1alpha1/nodeslo_types.go` (`ResourceQOSStrategy`) and
`pkg/util/sloconfig/nodeslo_config.go`.
"""

from typing import Annotated, Final

import msgspec

from .rules import Above, AtLeast, AtMost, Below, Flag, Int64, IntOrString, Percent
from .strategy import Strategy


class CPUQOS(Strategy, frozen=True):
    """CPU priorities of the kernel: group identity (or core scheduling), and SCHED_IDLE."""

    group_identity: Annotated[Int64, AtLeast(-1), AtMost(2)] | None = None
    sched_idle: Flag | None = None
    core_expeller: bool | None = None


class CPUQOSCfg(CPUQOS, frozen=True):
    """The CPU section of a class."""

    enable: bool | None = None


class MemoryQOS(Strategy, frozen=True):
    """Memory protection, reclaim and priorities of the kernel; pods can override them."""

    min_limit_percent: Percent | None = None
    low_limit_percent: Percent | None = None
    throttling_percent: Percent | None = None
    wmark_ratio: Percent | None = None
    wmark_scale_permill: Annotated[Int64, AtLeast(1), AtMost(1000)] | None = None
    wmark_min_adj: Annotated[Int64, AtLeast(-25), AtMost(50)] | None = None
    priority_enable: Flag | None = None
    priority: Annotated[Int64, AtLeast(0), AtMost(12)] | None = None
    oom_kill_group: Flag | None = None
    page_cache_enable: bool | None = None
    page_cache_limit_percent: Percent | None = None
    page_cache_limit_size: Int64 | None = None
    """Bytes."""
    page_cache_reclaim_sync: bool | None = None


class MemoryQOSCfg(MemoryQOS, frozen=True):
    """The memory section of a class."""

    enable: bool | None = None


class ResctrlQOS(Strategy, frozen=True):
    """Shares of the last-level cache and of the memory bandwidth."""

    cat_range_start_percent: Annotated[Percent, Below("catRangeEndPercent")] | None = None
    cat_range_end_percent: Annotated[Percent, Above("catRangeStartPercent")] | None = None
    mba_percent: Percent | None = None


class ResctrlQOSCfg(ResctrlQOS, frozen=True):
    """The resctrl section of a class."""

    enable: bool | None = None


class IOCfg(Strategy, frozen=True):
    """Limits, weight, latency targets (microseconds) and cost model of one block device."""

    read_iops: Int64 | None = msgspec.field(default=None, name="readIOPS")
    write_iops: Int64 | None = msgspec.field(default=None, name="writeIOPS")
    read_bps: Int64 | None = msgspec.field(default=None, name="readBPS")
    write_bps: Int64 | None = msgspec.field(default=None, name="writeBPS")
    io_weight_percent: Int64 | None = None
    read_latency: Int64 | None = None
    write_latency: Int64 | None = None
    read_latency_percent: Int64 | None = None
    write_latency_percent: Int64 | None = None
    enable_user_model: bool | None = None
    model_read_bps: Int64 | None = msgspec.field(default=None, name="modelReadBPS")
    model_write_bps: Int64 | None = msgspec.field(default=None, name="modelWriteBPS")
    model_read_seq_iops: Int64 | None = msgspec.field(default=None, name="modelReadSeqIOPS")
    model_write_seq_iops: Int64 | None = msgspec.field(default=None, name="modelWriteSeqIOPS")
    model_read_rand_iops: Int64 | None = msgspec.field(default=None, name="modelReadRandIOPS")
    model_write_rand_iops: Int64 | None = msgspec.field(default=None, name="modelWriteRandIOPS")


class BlockCfg(Strategy, frozen=True):
    """One block device: `type` is device, volumegroup or podvolume."""

    name: str = ""
    type: str = ""
    io_cfg: IOCfg = msgspec.field(default_factory=IOCfg)


class BlkIOQOS(Strategy, frozen=True):
    """Block devices."""

    blocks: list[BlockCfg] = []


class BlkIOQOSCfg(BlkIOQOS, frozen=True):
    """The block device section of a class."""

    enable: bool | None = None


class NetworkQOS(Strategy, frozen=True):
    """Bandwidth: an integer is a percentage, a text an amount."""

    ingress_request: IntOrString | None = None
    ingress_limit: IntOrString | None = None
    egress_request: IntOrString | None = None
    egress_limit: IntOrString | None = None


class NetworkQOSCfg(NetworkQOS, frozen=True):
    """The network section of a class."""

    enable: bool | None = None


class ResourceQOS(Strategy, frozen=True):
    """All sections of one class."""

    cpu_qos: CPUQOSCfg | None = msgspec.field(default=None, name="cpuQOS")
    memory_qos: MemoryQOSCfg | None = msgspec.field(default=None, name="memoryQOS")
    blkio_qos: BlkIOQOSCfg | None = msgspec.field(default=None, name="blkioQOS")
    resctrl_qos: ResctrlQOSCfg | None = msgspec.field(default=None, name="resctrlQOS")
    network_qos: NetworkQOSCfg | None = msgspec.field(default=None, name="networkQOS")


class ResourceQOSPolicies(Strategy, frozen=True):
    """The mechanisms in use: groupIdentity or coreSched, tc or terway-qos."""

    cpu_policy: str | None = None
    net_qos_policy: str | None = msgspec.field(default=None, name="netQOSPolicy")


class ResourceQOSStrategy(Strategy, frozen=True):
    """The classes."""

    policies: ResourceQOSPolicies | None = None
    lsr_class: ResourceQOS | None = None
    ls_class: ResourceQOS | None = None
    be_class: ResourceQOS | None = None
    system_class: ResourceQOS | None = None
    cgroup_root: ResourceQOS | None = None


# --- defaults ------------------------------------------------------------------------------------

CLUSTER_DEFAULT: Final = ResourceQOSStrategy()
"""The defaults of the cluster's configuration; nodes fill in the rest."""


def _class(cpu: CPUQOSCfg, memory: MemoryQOSCfg, cat_range_end_percent: int = 100) -> ResourceQOS:
    return ResourceQOS(
        cpu_qos=cpu,
        memory_qos=memory,
        blkio_qos=BlkIOQOSCfg(enable=False),
        resctrl_qos=_resctrl(cat_range_end_percent),
        network_qos=NetworkQOSCfg(
            enable=False, ingress_request=0, ingress_limit=0, egress_request=0, egress_limit=0
        ),
    )


def _cpu(group_identity: int, *, core_expeller: bool) -> CPUQOSCfg:
    return CPUQOSCfg(enable=False, group_identity=group_identity, sched_idle=0, core_expeller=core_expeller)


def _memory(wmark_ratio: int, wmark_scale_permill: int, wmark_min_adj: int) -> MemoryQOSCfg:
    return MemoryQOSCfg(
        enable=False,
        min_limit_percent=0,
        low_limit_percent=0,
        throttling_percent=0,
        wmark_ratio=wmark_ratio,
        wmark_scale_permill=wmark_scale_permill,
        wmark_min_adj=wmark_min_adj,
        priority_enable=0,
        priority=0,
        oom_kill_group=0,
    )


def _resctrl(cat_range_end_percent: int) -> ResctrlQOSCfg:
    return ResctrlQOSCfg(
        enable=False,
        cat_range_start_percent=0,
        cat_range_end_percent=cat_range_end_percent,
        mba_percent=100,
    )


NO_CPU_QOS: Final = _cpu(0, core_expeller=False)
NO_MEMORY_QOS: Final = _memory(0, 50, 0)
NO_RESCTRL_QOS: Final = _resctrl(100)
"""The values of a disabled section."""

_LATENCY_SENSITIVE: Final = _class(_cpu(2, core_expeller=True), _memory(95, 20, -25))

DEFAULT: Final = ResourceQOSStrategy(
    policies=ResourceQOSPolicies(cpu_policy="groupIdentity", net_qos_policy="tc"),
    lsr_class=_LATENCY_SENSITIVE,
    ls_class=_LATENCY_SENSITIVE,
    be_class=_class(_cpu(-1, core_expeller=False), _memory(95, 20, 50), cat_range_end_percent=30),
    system_class=_class(NO_CPU_QOS, NO_MEMORY_QOS),
    cgroup_root=ResourceQOS(blkio_qos=BlkIOQOSCfg(enable=False)),
)
"""The defaults of a node for an empty NodeSLO."""
