"""CPUBurst: let containers of latency-sensitive pods exceed their CPU limit for a while.

Two means, by NodeSLO `cpuBurstStrategy` and the annotation `koordinator.sh/cpuBurst`: the kernel saves up
unused CPU time of a container (`cpu.cfs_burst_us`), and quotas of throttled containers are increased in steps
while the CPUs that pods share are not too busy (`share_pool`) and the container has not done so for too long
(`token_bucket`).

Rules: Koordinator, pkg/koordlet/qosmanager/plugins/cpuburst.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

from prometheus_client import Gauge

from koordpy.agent.interface import (
    CPU_BURST,
    NODE_CPU_INFO,
    RECONCILE_INTERVAL,
    CgroupError,
    FlagSet,
    Handle,
    PodMeta,
    QOSPlugin,
    Update,
)
from koordpy.agent.interface import gates as gate_names
from koordpy.agent.toolkit import rounds, usage
from koordpy.agent.toolkit.metric_queries import MetricQueries
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo import pod_cpu_burst
from koordpy.api.slo.cpu_burst import DEFAULT, CPUBurstConfig, CPUBurstStrategy
from koordpy.lib import int64

from . import burst, share_pool
from .burst import ContainerBurst, PodBurst, Step
from .share_pool import NodeState
from .token_bucket import TokenBucket

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
"""How often pods are checked whose values have not changed and whose quotas do not follow usage."""

_LABELS = ["node", "pod_namespace", "pod_name", "container_id", "container_name"]
BURST = Gauge("koordlet_container_scaled_cfs_burst_us", "CPU time a container may save up.", _LABELS)
QUOTA = Gauge("koordlet_container_scaled_cfs_quota_us", "CFS quota set in the last round.", _LABELS)


class CPUBurst(QOSPlugin):
    """The CPU burst strategy."""

    name: ClassVar[str] = "CPUBurst"
    feature: ClassVar[str | None] = gate_names.CPU_BURST
    interval_flag: ClassVar[str | None] = RECONCILE_INTERVAL
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "cgroup files of the node, writable",
            "a kernel with cpu.cfs_burst_us or cpu.max.burst (5.14), for bursts within the quota",
        )
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._metrics = MetricQueries(handle)
        self.buckets: dict[str, TokenBucket] = {}
        """By container id."""
        self._pods: dict[str, PodBurst] = {}
        self._strategy: CPUBurstStrategy | None = None
        self._seen: list[PodMeta] = []
        """The pods of the last round over all pods."""
        self._scaling: list[PodBurst] = []
        """Those of them whose quotas follow their usage."""
        self._checked_at = float("-inf")
        self._state: NodeState | None = None
        self._bursts: dict[str, set[tuple[str, ...]]] = {}
        self._quotas: set[tuple[str, ...]] = set()

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds."""
        rounds.declare_interval(flags)

    async def run(self) -> None:
        """Run rounds until cancelled."""
        await rounds.run(self.handle, self.name, self.reconcile)

    def reconcile(self) -> None:
        """Run a round: over all pods every few seconds, else over those that need it."""
        now = self.handle.clock.monotonic()
        due = now - self._checked_at >= CHECK_SECONDS
        if due:
            self._checked_at = now
        self.round(everything=due)

    def round(self, *, everything: bool = True) -> None:
        """Set bursts and quotas; without `everything` only of pods that changed or may exceed their quota."""
        self._state = None
        for labels in self._quotas:
            QUOTA.remove(*labels)
        self._quotas.clear()
        slo = self.handle.states.node_slo()
        strategy = slo.cpu_burst_strategy if slo is not None else None
        if strategy is None:
            self._seen, self._scaling = [], []
            self._forget(set())
            return
        pods = self.handle.states.pods()
        if not everything and strategy is self._strategy and pods == self._seen:
            for scaled in self._scaling:
                self._scale_quotas(scaled, strategy, pods)
            self._forget_buckets()
            return
        seen: set[str] = set()
        scaling: list[PodBurst] = []
        for meta in pods:
            uid = meta.pod.metadata.uid
            known = self._pods.get(uid)
            plan = self._plan(meta, strategy, known, everything)
            if plan is None:
                continue
            seen.add(uid)
            self._pods[uid] = plan
            changed = known is None or (plan.config, plan.containers) != (known.config, known.containers)
            if changed or everything:
                self._set_bursts(plan)
            if changed or everything or plan.scales_quota:
                self._scale_quotas(plan, strategy, pods)
            if plan.scales_quota and plan.has_running_limits:
                scaling.append(plan)
        self._strategy, self._seen, self._scaling = strategy, list(pods), scaling
        self._forget(seen)

    def node_state(self, strategy: CPUBurstStrategy, pods: Sequence[PodMeta]) -> NodeState:
        """Return how busy the shared CPUs are; computed once a round, and only if a quota depends on it."""
        if self._state is None:
            seconds = min(5 * self.handle.flags.integer(RECONCILE_INTERVAL), 10)
            window = timedelta(seconds=seconds)
            info = self.handle.metrics.fact(NODE_CPU_INFO)
            threshold = strategy.share_pool_threshold_percent
            if threshold is None:
                threshold = DEFAULT.share_pool_threshold_percent or 0

            def used(uids: Sequence[str]) -> dict[str, float]:
                averages = {
                    uid: self._metrics.average("pod_cpu_usage", window, {"pod_uid": uid}) for uid in uids
                }
                return {uid: average for uid, average in averages.items() if average is not None}

            self._state = share_pool.state(
                None if info is None else len(info.processors),
                self._metrics.average("node_cpu_usage", window),
                threshold,
                pods,
                used,
            )
        return self._state

    # --- what is known of pods -------------------------------------------------------------------

    def _plan(
        self, meta: PodMeta, strategy: CPUBurstStrategy, known: PodBurst | None, everything: bool
    ) -> PodBurst | None:
        """Return what applies to a pod, the known plan if nothing has changed; None if it never bursts."""
        pod = meta.pod
        asks_others = everything and self.handle.pod_policies.has(CPU_BURST)
        if (
            known is not None
            and known.meta.pod is pod
            and known.meta.cgroup_dir == meta.cgroup_dir
            and strategy is self._strategy
            and not asks_others
        ):
            return known
        if pod.status.phase not in ("Pending", "Running") or not usage.may_burst(pod):
            return None
        return burst.of_pod(meta, self._config(meta, strategy), self.handle.layout)

    def _config(self, meta: PodMeta, strategy: CPUBurstStrategy) -> CPUBurstConfig:
        own: CPUBurstConfig | None = None
        try:
            own = pod_cpu_burst.of_pod(meta.pod)
        except ValueError as error:
            log.warning("pod %s has the CPU burst settings of the node: %s", meta.pod.metadata.key, error)
            return strategy
        if own is None and self.handle.pod_policies.has(CPU_BURST):
            own = self.handle.pod_policies.policy(CPU_BURST, meta.pod)
        return strategy if own is None else pod_cpu_burst.over(own, strategy)

    def _forget(self, seen: set[str]) -> None:
        for uid in self._pods.keys() - seen:
            del self._pods[uid]
            self._show_bursts(uid, set())
        self._forget_buckets()

    def _forget_buckets(self) -> None:
        now = self.handle.clock.monotonic()
        for container_id, bucket in list(self.buckets.items()):
            if bucket.is_expired(now):
                del self.buckets[container_id]

    # --- CFS burst -------------------------------------------------------------------------------

    def _set_bursts(self, plan: PodBurst) -> None:
        shown: set[tuple[str, ...]] = set()
        for container in plan.containers:
            if self._write("cpu.cfs_burst_us", container.directory, container.burst, "CPUBurst", plan):
                labels = self._labels(plan, container)
                BURST.labels(*labels).set(container.burst)
                shown.add(labels)
        self._show_bursts(plan.meta.pod.metadata.uid, shown)
        self._write("cpu.cfs_burst_us", plan.meta.cgroup_dir, plan.burst, "CPUBurst", plan)

    def _show_bursts(self, uid: str, shown: set[tuple[str, ...]]) -> None:
        """Remove the series of containers of a pod that are gone."""
        for labels in self._bursts.pop(uid, set()) - shown:
            BURST.remove(*labels)
        if shown:
            self._bursts[uid] = shown

    # --- CFS quota -------------------------------------------------------------------------------

    def _scale_quotas(self, plan: PodBurst, strategy: CPUBurstStrategy, pods: Sequence[PodMeta]) -> None:
        for container in plan.containers:
            if not container.has_quota:
                continue
            try:
                current = self.handle.cgroups.cfs_quota(container.directory)
            except CgroupError as error:
                log.debug("CPU burst: %s", error)
                continue
            step = self._step(plan.config, container)
            if step in (Step.UP, Step.REMAIN):
                step = burst.overridden(step, self.node_state(strategy, pods))
            percent = plan.config.cfs_quota_burst_percent
            target = burst.next_quota(step, current, container.base_quota, percent)
            if target != current and self._set_quota(plan, container, current, target):
                labels = self._labels(plan, container)
                QUOTA.labels(*labels).set(target)
                self._quotas.add(labels)
                log.info(
                    "CPU burst: %s of %s: quota %d -> %d (%s)",
                    container.name,
                    plan.meta.pod.metadata.key,
                    current,
                    target,
                    step.value,
                )

    def _step(self, config: CPUBurstConfig, container: ContainerBurst) -> Step:
        allowed = self._allowed(config, container)  # takes tokens whatever the policy
        if config.policy not in (burst.AUTO, burst.QUOTA_ONLY):
            return Step.RESET
        if not allowed:
            return Step.DOWN
        throttled = self._metrics.last("container_cpu_throttled", {"container_id": container.container_id})
        return Step.UP if throttled is not None and throttled > 0 else Step.REMAIN

    def _allowed(self, config: CPUBurstConfig, container: ContainerBurst) -> bool:
        """Return whether the container's tokens allow to exceed its limit."""
        period, percent = config.cfs_quota_burst_period_seconds, config.cfs_quota_burst_percent
        if period is None or period < 0:
            return True
        if percent is None or percent < 100:
            return False
        limit = container.limit / 1000
        used = self._metrics.last("container_cpu_usage", {"container_id": container.container_id})
        now, rng = self.handle.clock.monotonic(), self.handle.rng
        bucket = self.buckets.get(container.container_id)
        if bucket is None:
            bucket = self.buckets[container.container_id] = TokenBucket(period, percent, now, rng)
        else:
            bucket.configure(period, percent, now, rng)
        return bucket.allows(int64.from_float((limit if used is None else used) / limit * 100), now)

    def _set_quota(self, plan: PodBurst, container: ContainerBurst, current: int, target: int) -> bool:
        """Change the quotas of a container and its pod by the same amount; the larger first when growing."""
        try:
            of_pod = self.handle.cgroups.cfs_quota(plan.meta.cgroup_dir)
        except CgroupError as error:
            log.info("CPU burst: %s", error)
            return False
        writes = [(container.directory, target)]
        if of_pod > 0:
            writes.insert(0 if target > current else 1, (plan.meta.cgroup_dir, of_pod + target - current))
        return all(
            self._write("cpu.cfs_quota_us", directory, quota, "CFSQuotaBurst", plan)
            for directory, quota in writes
        )

    def _write(self, resource: str, directory: str, value: int, reason: str, plan: PodBurst) -> bool:
        """Return whether the value could be set, or the node has no such resource."""
        formula = f"cpuBurst policy {plan.config.policy or 'none'} of {plan.meta.pod.metadata.key}"
        try:
            self.handle.executor.update(Update(resource, directory, str(value), reason, formula))
        except CgroupError as error:
            log.warning("CPU burst: %s", error)
            return False
        return True

    def _labels(self, plan: PodBurst, container: ContainerBurst) -> tuple[str, ...]:
        meta = plan.meta.pod.metadata
        return (self.handle.node_name, meta.namespace, meta.name, container.container_id, container.name)
