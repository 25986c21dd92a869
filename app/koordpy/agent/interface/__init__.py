"""The interface of the node agent's plugins, and what they are given.

A `QOSPlugin` is installed as an entry point of the group `koordpy.qos` and enabled by a feature gate. On
every node it goes through four steps:

1. `init_flags` declares its command line flags.
2. It is constructed with its arguments and a `Handle`, and set up, whether its gate is on or not.
3. `run` is called once the states of the node are known, if the gate is on.
4. `stop` reverts or completes what must not be left behind.

The handle has the states of the node, its metrics, its cgroup files to read and the only executor that writes
them. Source: Koordinator, `pkg/koordlet/qosmanager/framework`.
"""

from koordpy.lib.endpoint import Answer, Endpoint, Request

from .audit import Audit, NoAudit
from .cgroups import (
    CgroupError,
    Cgroups,
    Executor,
    InvalidValueError,
    MemoryStat,
    Pressure,
    PressureStall,
    UnsupportedError,
    Update,
)
from .collector import CollectError, Collector
from .eviction import Eviction, EvictionExecutor, ExecutorInitializer
from .facts import GPU_DEVICES, NODE_CPU_INFO, GPUDevice, NodeCPUInfo, Processor
from .flags import Flag, FlagError, FlagSet, FlagValue
from .handle import Handle
from .layout import CgroupLayout, kubelet_uid
from .metric_kinds import KINDS
from .metrics import (
    COLLECT_INTERVAL,
    Aggregation,
    Fact,
    MetricError,
    MetricKind,
    Metrics,
    Points,
    Sample,
    Series,
    unix_milliseconds,
)
from .node_plugin import NodePlugin
from .plugin import RECONCILE_INTERVAL, QOSPlugin
from .pod_policies import CPU_BURST, MEMORY_QOS, PodPolicies, PolicyType
from .pressure import PressureCallback, PressureEvent, PressureSource
from .service import DeclaresFlags, Service
from .states import Callback, CallbackError, CallbackTarget, PodMeta, States, StateType

__all__ = [
    "COLLECT_INTERVAL",
    "CPU_BURST",
    "GPU_DEVICES",
    "KINDS",
    "MEMORY_QOS",
    "NODE_CPU_INFO",
    "RECONCILE_INTERVAL",
    "Aggregation",
    "Answer",
    "Audit",
    "Callback",
    "CallbackError",
    "CallbackTarget",
    "CgroupError",
    "CgroupLayout",
    "Cgroups",
    "CollectError",
    "Collector",
    "DeclaresFlags",
    "Endpoint",
    "Eviction",
    "EvictionExecutor",
    "Executor",
    "ExecutorInitializer",
    "Fact",
    "Flag",
    "FlagError",
    "FlagSet",
    "FlagValue",
    "GPUDevice",
    "Handle",
    "InvalidValueError",
    "MemoryStat",
    "MetricError",
    "MetricKind",
    "Metrics",
    "NoAudit",
    "NodeCPUInfo",
    "NodePlugin",
    "PodMeta",
    "PodPolicies",
    "Points",
    "PolicyType",
    "Pressure",
    "PressureCallback",
    "PressureEvent",
    "PressureSource",
    "PressureStall",
    "Processor",
    "QOSPlugin",
    "Request",
    "Sample",
    "Series",
    "Service",
    "StateType",
    "States",
    "UnsupportedError",
    "Update",
    "kubelet_uid",
    "unix_milliseconds",
]
