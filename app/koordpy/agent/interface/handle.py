"""What collectors, hooks and QoS plugins are given."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGates

from .audit import Audit, NoAudit
from .cgroups import Cgroups, Executor
from .eviction import Eviction
from .flags import FlagSet
from .layout import CgroupLayout
from .metrics import Metrics
from .pod_policies import PodPolicies
from .pressure import PressureSource
from .states import States


@dataclass(frozen=True)
class Handle:
    """What plugins may use, on one node.

    `client` is None if nothing can be written to the API server, `events` if no events are recorded,
    `eviction` if nothing can be evicted.
    """

    node_name: str
    states: States
    """The node, its pods, NodeSLO and topology."""
    metrics: Metrics
    """The node's metrics."""
    layout: CgroupLayout
    """The paths of pods' cgroups."""
    cgroups: Cgroups
    """Reads cgroup files."""
    executor: Executor
    """Writes cgroup files; nothing else does."""
    cluster: Cluster
    """Stores of other API objects, for plugins that follow some."""
    gates: FeatureGates
    flags: FlagSet
    clock: Clock
    pod_policies: PodPolicies = field(default_factory=PodPolicies)
    """Policies that plugins supply for single pods."""
    audit: Audit = field(default_factory=NoAudit)
    """Records what plugins do to the node besides writing files, such as evictions."""
    rng: random.Random = field(default_factory=random.Random)
    proc_root: Path = Path("/proc")
    """Where the node's procfs is; its processes have the pids that it shows."""
    sys_root: Path = Path("/sys")
    """Where the node's sysfs is."""
    sys_fs_root: Path | None = None
    """Where the node's /sys/fs is, with resctrl; None: below `sys_root`."""
    client: Client | None = None
    events: Recorder | None = None
    eviction: Eviction | None = None
    pressure: PressureSource | None = None
    """Pressure of latency-sensitive pods; None unless the gate PressureTriggers is on."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)

    @property
    def resctrl_root(self) -> Path:
        """Where the node's resctrl file system is mounted."""
        return (self.sys_fs_root or self.sys_root / "fs") / "resctrl"
