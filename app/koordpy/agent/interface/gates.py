"""The node agent's feature gates, with Koordinator's names, defaults and stages.

A gate switches a plugin or a service of the agent at its start. Some features are also switched at run time,
by the node's NodeSLO. Source: Koordinator, `pkg/features/koordlet_features.go`.
"""

from typing import Final

from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates, FeatureSpec, Stage

ACCELERATORS: Final = "Accelerators"
"""Usage of GPUs and other devices, and the node's Device."""
AUDIT_EVENTS: Final = "AuditEvents"
"""The audit log of everything that is written to the node."""
AUDIT_EVENTS_HTTP_HANDLER: Final = "AuditEventsHTTPHandler"
"""`/events` serves the audit log."""
BE_CPU_EVICT: Final = "BECPUEvict"
"""Evict best-effort pods that get too little of the CPU that they request."""
BE_CPU_MANAGER: Final = "BECPUManager"
"""Best-effort pods have CPUs or NUMA nodes of their own; CPU suppress only recovers."""
BE_CPU_SUPPRESS: Final = "BECPUSuppress"
"""Limit best-effort pods to the CPU that others leave."""
BE_MEMORY_EVICT: Final = "BEMemoryEvict"
"""Evict best-effort pods when the node's memory is short."""
BLK_IO_RECONCILE: Final = "BlkIOReconcile"
"""Limits, weights and latency targets of block devices."""
CGROUP_RECONCILE: Final = "CgroupReconcile"
"""Memory QoS in cgroups."""
COLD_PAGE_COLLECTOR: Final = "ColdPageCollector"
"""Memory that was not used for a while."""
CPI_COLLECTOR: Final = "CPICollector"
"""Cycles and instructions of containers."""
CPU_ALLOCATABLE_EVICT: Final = "CPUAllocatableEvict"
"""Evict pods of low priority that request more CPU than is allocatable."""
CPU_BURST: Final = "CPUBurst"
"""Let containers exceed their CPU limit for a short time."""
CPU_EVICT: Final = "CPUEvict"
"""Evict pods of low priority when the node's CPU is short."""
HAMI_CORE_VGPU_MONITOR: Final = "HamiCoreVGPUMonitor"
"""Measure virtual GPUs of HAMi."""
HUGE_PAGE_REPORT: Final = "HugePageReport"
"""Huge pages in the node's NodeResourceTopology."""
LIBPFM4: Final = "Libpfm4"
"""Count cycles and instructions of containers as a group, as koordlet does with libpfm4."""
MEMORY_ALLOCATABLE_EVICT: Final = "MemoryAllocatableEvict"
"""Evict pods of low priority that request more memory than is allocatable."""
MEMORY_EVICT: Final = "MemoryEvict"
"""Evict pods of low priority when the node's memory is short."""
NODE_METRIC_PROM_METRICS: Final = "NodeMetricPromMetrics"
"""The values of the NodeMetric as Prometheus series."""
NODE_TOPOLOGY_REPORT: Final = "NodeTopologyReport"
"""The node's NodeResourceTopology."""
PER_CPU_METRIC: Final = "PerCPUMetric"
"""Prometheus series of the share pools."""
POD_RESOURCES_PROXY: Final = "PodResourcesProxy"
"""A proxy of the kubelet's pod resources."""
PSI_COLLECTOR: Final = "PSICollector"
"""Pressure stall information of pods and containers."""
RDMA_DEVICES: Final = "RDMADevices"
"""RDMA devices in the node's Device."""
RDT_RESCTRL: Final = "RdtResctrl"
"""Shares of the last-level cache and of the memory bandwidth."""
RESCTRL_COLLECTOR: Final = "ResctrlCollector"
"""Occupancy of the last-level cache and memory bandwidth."""
SYSTEM_CONFIG: Final = "SystemConfig"
"""Settings of the node's kernel."""

_ON: Final = FeatureSpec(default=True, stage=Stage.BETA)
_OFF: Final = FeatureSpec(default=False, stage=Stage.ALPHA)

KOORDLET: Final = {
    ACCELERATORS: _OFF,
    AUDIT_EVENTS: _OFF,
    AUDIT_EVENTS_HTTP_HANDLER: _OFF,
    BE_CPU_EVICT: _OFF,
    BE_CPU_MANAGER: _OFF,
    BE_CPU_SUPPRESS: _ON,
    BE_MEMORY_EVICT: _OFF,
    BLK_IO_RECONCILE: _OFF,
    CGROUP_RECONCILE: _OFF,
    COLD_PAGE_COLLECTOR: _OFF,
    CPI_COLLECTOR: _OFF,
    CPU_ALLOCATABLE_EVICT: _OFF,
    CPU_BURST: _ON,
    CPU_EVICT: _OFF,
    HAMI_CORE_VGPU_MONITOR: _OFF,
    HUGE_PAGE_REPORT: _OFF,
    LIBPFM4: _OFF,
    MEMORY_ALLOCATABLE_EVICT: _OFF,
    MEMORY_EVICT: _OFF,
    NODE_METRIC_PROM_METRICS: _OFF,
    NODE_TOPOLOGY_REPORT: _ON,
    PER_CPU_METRIC: _OFF,
    POD_RESOURCES_PROXY: _OFF,
    PSI_COLLECTOR: _OFF,
    RDMA_DEVICES: _OFF,
    RDT_RESCTRL: _ON,
    RESCTRL_COLLECTOR: _OFF,
    SYSTEM_CONFIG: _OFF,
}
"""All gates of koordlet; those of its runtime hooks are declared by the hooks."""

REFUSED: Final = {
    POD_RESOURCES_PROXY: (
        "a proxy of the kubelet's pod resources is a gRPC server, which the node agent does not have; "
        "clients of pod resources are to ask the kubelet, or koordlet stays on the nodes for this"
    ),
}
"""Gates of koordlet that the agent does not start with, and why."""

PRESSURE_TRIGGERS: Final = "PressureTriggers"
"""Suppress and evict when latency-sensitive pods come under pressure (PSI). Koordlet has no such gate."""

GATES: Final = {**KOORDLET, PRESSURE_TRIGGERS: _OFF}
"""All gates of the node agent."""

_SWITCHED_BY_THRESHOLDS: Final = frozenset(
    {
        BE_CPU_EVICT,
        BE_CPU_SUPPRESS,
        BE_MEMORY_EVICT,
        CPU_ALLOCATABLE_EVICT,
        CPU_EVICT,
        MEMORY_ALLOCATABLE_EVICT,
        MEMORY_EVICT,
    }
)


def check(gates: FeatureGates) -> None:
    """Raise FeatureGateError if a gate is on that the agent refuses."""
    for name, reason in REFUSED.items():
        if gates.enabled(name):
            raise FeatureGateError(f"feature gate {name!r} cannot be switched on: {reason}")


def is_feature_disabled(slo: NodeSLOSpec | None, feature: str) -> bool:
    """Return whether a node's NodeSLO disables a feature at run time.

    Raises ValueError if the NodeSLO does not decide it: then nothing may be changed, not even reverted.
    """
    if slo is None:
        raise ValueError("the node has no NodeSLO")
    if feature not in _SWITCHED_BY_THRESHOLDS:
        raise ValueError(f"NodeSLO has no switch for {feature}")
    threshold = slo.resource_used_threshold_with_be
    if threshold is None or threshold.enable is None:
        raise ValueError("NodeSLO resourceUsedThresholdWithBE.enable is not set")
    return not threshold.enable
