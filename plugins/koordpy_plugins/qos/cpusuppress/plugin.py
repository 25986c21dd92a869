"""CPUSuppress: limit best-effort pods to the CPU that latency-sensitive pods leave.

Every round computes the remaining CPU (`allowance`) and assigns it to the besteffort cgroup, either as a set
of CPUs (`cpu_selection`) or as a CFS quota, by NodeSLO `resourceUsedThresholdWithBE.cpuSuppressPolicy`; the
settings of the other policy are reset.

Rules: Koordinator, pkg/koordlet/qosmanager/plugins/cpusuppress.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from prometheus_client import Gauge

from koordpy.agent.interface import (
    NODE_CPU_INFO,
    CgroupError,
    FlagSet,
    Handle,
    NodeCPUInfo,
    PodMeta,
    QOSPlugin,
    Update,
)
from koordpy.agent.interface.gates import BE_CPU_MANAGER, BE_CPU_SUPPRESS, is_feature_disabled
from koordpy.agent.toolkit import quick_usage, suppression, usage
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.agent.toolkit.pace import Pace
from koordpy.api import quantity
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.threshold import CFS_QUOTA, CPUSET, ResourceThresholdStrategy
from koordpy.lib import cpuset

from . import allowance, pools
from .cpuset_writes import CPUSetWrite, CPUSetWrites
from .node_view import CPUView, PodView

log = logging.getLogger(__name__)

INTERVAL_FLAG = "cpu-suppress-interval-seconds"
USING, RECOVERED = "using", "recovered"
MIN_CPUS = 2
REASON = "AdjustBEByNodeCPUUsage"
CHECK_SECONDS = 30.0
"""How often a disabled strategy checks that what it recovered still is."""

SUPPRESS_CORES = Gauge("koordlet_be_suppress_cpu_cores", "Cores given to best-effort pods.", ["node", "type"])
LS_USED_CORES = Gauge("koordlet_be_suppress_ls_used_cpu_cores", "Cores used by other pods.", ["node"])


@dataclass(frozen=True)
class Inputs:
    """The inputs of one round. Usage is in cores; None where there is no sample."""

    slo: NodeSLOSpec | None
    node: Node | None
    topology: NodeResourceTopology | None
    pods: Sequence[PodMeta]
    cpus: NodeCPUInfo | None
    node_used: float | None
    pod_used: Mapping[str, float]
    application_used: Mapping[str, float]

    @property
    def threshold(self) -> ResourceThresholdStrategy:
        """The strategy, an empty one where there is none."""
        section = self.slo.resource_used_threshold_with_be if self.slo is not None else None
        return section or ResourceThresholdStrategy()


@dataclass(frozen=True)
class _Basis:
    """What a recovery depends on."""

    uids: frozenset[str]
    allocations: Mapping[str, str]
    topology: NodeResourceTopology | None
    cpus: NodeCPUInfo | None


class CPUSuppress(QOSPlugin):
    """The CPU suppress strategy."""

    name: ClassVar[str] = "CPUSuppresss"  # Koordinator's spelling
    feature: ClassVar[str | None] = BE_CPU_SUPPRESS
    interval_flag: ClassVar[str | None] = INTERVAL_FLAG
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "cgroup files of the node, writable",
            "NodeSLOs with resourceUsedThresholdWithBE.enable (koord-manager creates them)",
        )
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.policies: dict[str, str] = {}
        """Policy to `using` or `recovered`; empty after a restart, so that both are reset once."""
        self._best_effort = handle.layout.qos("BestEffort")
        self._metrics = MetricQueries(handle)
        self._recovered: tuple[_Basis, float] | None = None
        """What was recovered from, and when, while the strategy is disabled."""
        self._pods, self._cpus = PodView(), CPUView()
        self._walked: dict[tuple[int, bool], tuple[tuple[tuple[str, int], ...], list[str]]] = {}
        """The directories that were found last, by depth and whether of that depth alone."""
        self._cpusets = CPUSetWrites(handle.executor, REASON)
        self._formula = ""
        """How the latest allowance was computed."""

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds."""
        flags.declare(INTERVAL_FLAG, 1, "seconds between CPU suppress rounds; 0 or less disables it")

    async def run(self) -> None:
        """Run rounds until cancelled."""
        interval = self.handle.flags.integer(INTERVAL_FLAG)
        pace = Pace(self.handle, ("cpu",))
        pressed = False
        while True:
            await self.reconcile(pressed=pressed)
            pressed = await pace.next_round(interval)

    async def reconcile(self, *, pressed: bool = False) -> None:
        """Run a round, with usage measured at once where pods are under pressure.

        While the strategy is disabled and nothing that matters has changed, that is done only every
        `CHECK_SECONDS`.
        """
        inputs = self._static_inputs()
        try:
            disabled = is_feature_disabled(inputs.slo, BE_CPU_SUPPRESS)
        except ValueError:
            return
        if disabled or self.handle.gates.enabled(BE_CPU_MANAGER):
            self._recover(inputs)
            return
        self._recovered = None
        self.round(await self.observe_now() if pressed else self._with_last_usage(inputs))

    def _recover(self, inputs: Inputs) -> None:
        now = self.handle.clock.monotonic()
        basis = _Basis(
            frozenset(meta.pod.metadata.uid for meta in inputs.pods),
            pools.allocations(inputs.pods),
            inputs.topology,
            inputs.cpus,
        )
        known = self._recovered
        if known is not None and known[0] == basis and now - known[1] < CHECK_SECONDS:
            return
        self.round(inputs)
        if self.policies.get(CFS_QUOTA) == RECOVERED and self.policies.get(CPUSET) == RECOVERED:
            self._recovered = basis, now

    def observe(self) -> Inputs:
        """Collect the inputs of one round."""
        return self._with_last_usage(self._static_inputs())

    def _static_inputs(self) -> Inputs:
        """Return the inputs without usage."""
        states = self.handle.states
        return Inputs(
            slo=states.node_slo(),
            node=states.node(),
            topology=states.topology(),
            pods=states.pods(),
            cpus=self.handle.metrics.fact(NODE_CPU_INFO),
            node_used=None,
            pod_used={},
            application_used={},
        )

    def _with_last_usage(self, inputs: Inputs) -> Inputs:
        self._pods.update(inputs.pods)
        names = [application.name for application in _applications(inputs)]
        return replace(
            inputs,
            node_used=self._metrics.last("node_cpu_usage"),
            pod_used=self._metrics.lasts("pod_cpu_usage", "pod_uid", self._pods.uids),
            application_used=self._metrics.lasts("host_application_cpu_usage", "host_app_name", names),
        )

    async def observe_now(self) -> Inputs:
        """Collect the inputs, with usage measured now; the last known one if that is not possible."""
        inputs = self._static_inputs()
        pods = {f"pod/{meta.pod.metadata.uid}": meta.cgroup_dir for meta in inputs.pods}
        layout = self.handle.layout
        hosts = {f"app/{each.name}": layout.host_application(each) for each in _applications(inputs)}
        usage_now = await quick_usage.measure(self.handle, {**pods, **hosts})
        if usage_now is None:
            return self._with_last_usage(inputs)
        groups = usage_now.groups
        return replace(
            inputs,
            node_used=usage_now.node,
            pod_used={key.removeprefix("pod/"): groups[key] for key in pods if key in groups},
            application_used={key.removeprefix("app/"): groups[key] for key in hosts if key in groups},
        )

    def round(self, inputs: Inputs) -> None:
        """Adjust once, or reset the adjustments when the strategy is disabled."""
        try:
            disabled = is_feature_disabled(inputs.slo, BE_CPU_SUPPRESS)
        except ValueError as error:
            log.debug("CPU suppress is skipped: %s", error)
            return
        if self.handle.gates.enabled(BE_CPU_MANAGER):
            self._recover_quota()
            self._recover_cpuset_for_cpu_manager(inputs)
            return
        if disabled:
            self._recover_quota()
            self._recover_cpuset(inputs, depth=2)
            return
        if inputs.node is None or not inputs.pods or inputs.node_used is None or inputs.slo is None:
            return
        self._pods.update(inputs.pods)
        found = suppression_of(inputs, self.handle.node_name, self._pods.is_not_best_effort)
        if inputs.cpus is None or found is None:
            return
        suppress, self._formula = found
        if inputs.threshold.cpu_suppress_policy == CFS_QUOTA:
            self._adjust_quota(suppress, inputs.node)
            self.policies[CFS_QUOTA] = USING
            self._recover_cpuset(inputs, depth=2)
        else:
            self._adjust_cpuset(suppress, inputs, inputs.cpus)
            self.policies[CPUSET] = USING
            self._recover_quota()

    # --- CFS quota -------------------------------------------------------------------------------

    def _adjust_quota(self, suppress: int, node: Node) -> None:
        try:
            current = self.handle.cgroups.cfs_quota(self._best_effort)
        except CgroupError as error:
            log.warning("CPU suppress: %s", error)
            return
        quota = allowance.next_quota(suppress, current, quantity.value(node.status.capacity.get("cpu", 0)))
        if quota is None:
            return
        if self._write_quota(quota, REASON):
            SUPPRESS_CORES.labels(self.handle.node_name, CFS_QUOTA).set(quota / allowance.CFS_PERIOD_US)

    def _recover_quota(self) -> None:
        if self.policies.get(CFS_QUOTA) == RECOVERED:
            return
        if self._write_quota(allowance.UNLIMITED, "suppressBECPU"):
            self.policies[CFS_QUOTA] = RECOVERED

    def _write_quota(self, quota: int, reason: str) -> bool:
        formula = "no suppression" if quota == allowance.UNLIMITED else self._formula
        update = Update("cpu.cfs_quota_us", self._best_effort, str(quota), reason, formula)
        try:
            self.handle.executor.update(update, cached=False)
        except CgroupError as error:
            log.warning("CPU suppress: %s", error)
            return False
        return True

    # --- CPU set ---------------------------------------------------------------------------------

    def _adjust_cpuset(self, suppress: int, inputs: Inputs, cpus: NodeCPUInfo) -> None:
        try:
            old = self.handle.cgroups.cpus(self._best_effort)
        except (CgroupError, ValueError) as error:
            log.warning("CPU suppress: %s", error)
            return
        if inputs.topology is None:
            return
        view = self._cpus
        view.update(cpus, inputs.topology, inputs.pods)
        count = max(-(-suppress // 1000), MIN_CPUS)
        new = view.choose(allowance.step_limited(count, len(old), len(cpus.processors)))
        policy = view.kubelet_policy
        if policy is None:
            return
        writes: list[CPUSetWrite] = []
        if policy == "static":
            # The kubelet writes the pod-level cgroups; koordpy writes only those of containers.
            writes += self._recovery(inputs, depth=1)
            if new:
                writes.append(self._write(new, self._directories(2, exactly=True), self._formula))
        elif new:
            directories = self._directories(2)
            writes.append(self._write(old | new, directories, self._formula))
            writes.append(self._write(new, directories[::-1], self._formula))
        self._request(writes)
        if new:
            SUPPRESS_CORES.labels(self.handle.node_name, CPUSET).set(len(new))

    def _recover_cpuset(self, inputs: Inputs, depth: int) -> None:
        self._request(self._recovery(inputs, depth))

    def _recovery(self, inputs: Inputs, depth: int) -> list[CPUSetWrite]:
        """Return the writes of a recovery; none while the CPUs are not known."""
        pool = pools.share_pool(inputs.cpus, inputs.topology, inputs.pods)
        if pool is None:
            return []
        self.policies[CPUSET] = RECOVERED
        return [self._write(pool, self._directories(depth))]

    def _recover_cpuset_for_cpu_manager(self, inputs: Inputs) -> None:
        """Recover all but the containers of pods whose CPUs the scheduler allocated."""
        pool = pools.share_pool(inputs.cpus, inputs.topology, inputs.pods)
        if pool is None:
            return
        kept = [meta.cgroup_dir for meta in inputs.pods if pools.has_allocated_cpus(meta)]
        containers = [
            directory
            for directory in self._directories(2, exactly=True)
            if not any(pod in directory for pod in kept)
        ]
        self._request([self._write(pool, self._directories(1) + containers)])
        self.policies[CPUSET] = RECOVERED

    def _directories(self, depth: int, *, exactly: bool = False) -> list[str]:
        walked = tuple(self.handle.cgroups.walk(self._best_effort, depth))
        known = self._walked.get((depth, exactly))
        if known is not None and known[0] == walked:
            return known[1]
        found = [directory for directory, level in walked if level == depth or not exactly]
        self._walked[depth, exactly] = walked, found
        return found

    def _write(
        self, cpus: frozenset[int], directories: Sequence[str], formula: str = "no suppression"
    ) -> CPUSetWrite:
        return CPUSetWrite(cpuset.render(cpus), directories, formula)

    def _request(self, writes: Sequence[CPUSetWrite]) -> None:
        self._cpusets.request(writes, self.handle.clock.monotonic())


def suppress_milli(inputs: Inputs, node_name: str = "") -> int | None:
    """Return the milli-cores that best-effort pods may use; None without node, usage or threshold."""
    found = suppression_of(inputs, node_name)
    return None if found is None else found[0]


def suppression_of(
    inputs: Inputs, node_name: str = "", pod_filter: Callable[[Pod], bool] = usage.is_not_best_effort
) -> tuple[int, str] | None:
    """Return the milli-cores that best-effort pods may use, and how they are computed.

    `pod_filter` says which pods are latency sensitive.
    """
    percent = inputs.threshold.cpu_suppress_threshold_percent
    if inputs.node is None or inputs.node_used is None or inputs.slo is None or percent is None:
        return None
    pods, applications, system = usage.split(
        inputs.node_used,
        usage.reserved_milli_cpu(inputs.node) / 1000.0,
        inputs.pods,
        inputs.pod_used,
        inputs.slo.host_applications,
        inputs.application_used,
        pod_filter,
        usage.is_not_best_effort_application,
    )
    LS_USED_CORES.labels(node_name).set(pods)
    capacity = quantity.milli_value(inputs.node.status.capacity.get("cpu", 0))
    least = inputs.threshold.cpu_suppress_min_percent
    suppress = suppression.suppress_milli(capacity, percent, least, pods, applications, system)
    formula = (
        f"{percent}% of {capacity}m - LS pods {1000 * pods:.0f}m - LS host applications "
        f"{1000 * applications:.0f}m - system {1000 * system:.0f}m -> {suppress}m"
    )
    return suppress, f"{formula} (at least {least}%)" if least else formula


def _applications(inputs: Inputs) -> Sequence[HostApplicationSpec]:
    return inputs.slo.host_applications if inputs.slo is not None else ()
