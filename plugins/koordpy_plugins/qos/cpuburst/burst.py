"""The values of one container: its burst, and the steps of its CFS quota."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from koordpy.agent.interface import CgroupLayout, PodMeta
from koordpy.api import quantity
from koordpy.api.core import Container
from koordpy.api.resource_names import CPU
from koordpy.api.slo.cpu_burst import DEFAULT, CPUBurstConfig
from koordpy.lib import int64

from .share_pool import NodeState

PERIOD_US: Final = 100_000
SMALLEST_QUOTA: Final = 1000
INCREASE: Final = 1.2
DECREASE: Final = 0.8

AUTO, BURST_ONLY, QUOTA_ONLY = "auto", "cpuBurstOnly", "cfsQuotaBurstOnly"


class Step(Enum):
    """What happens to a quota."""

    UP = "up"
    DOWN = "down"
    REMAIN = "remain"
    RESET = "reset"


@dataclass(frozen=True, slots=True)
class ContainerBurst:
    """A container with an id: its directory, CPU limit, and what follows from the configuration.

    `limit` is in milli-CPU and -1 without one, `base_quota` and `burst` are in microseconds of a period.
    """

    name: str
    container_id: str
    directory: str
    is_running: bool
    limit: int
    base_quota: int
    burst: int

    @property
    def has_quota(self) -> bool:
        """Whether it runs with a limit, so that its quota can be scaled."""
        return self.is_running and self.base_quota > 0


@dataclass(frozen=True, slots=True)
class PodBurst:
    """A pod that may burst, with its configuration and containers."""

    meta: PodMeta
    config: CPUBurstConfig
    containers: tuple[ContainerBurst, ...]

    @property
    def burst(self) -> int:
        """The sum of the containers."""
        return sum(container.burst for container in self.containers)

    @property
    def has_running_limits(self) -> bool:
        """Whether the quota of any container can be scaled."""
        return any(container.has_quota for container in self.containers)

    @property
    def scales_quota(self) -> bool:
        """Whether quotas may exceed their limits, or tokens are counted for that."""
        period = self.config.cfs_quota_burst_period_seconds
        return self.config.policy in (AUTO, QUOTA_ONLY) or (period is not None and period >= 0)


def of_pod(meta: PodMeta, config: CPUBurstConfig, layout: CgroupLayout) -> PodBurst:
    """Return what a pod's configuration means for its containers; those of unknown runtimes are left out."""
    specs = {container.name: container for container in meta.pod.spec.containers}
    found: list[ContainerBurst] = []
    for status in meta.pod.status.container_statuses:
        spec = specs.get(status.name)
        if spec is None or not status.container_id:
            continue
        try:
            directory = layout.container(meta.cgroup_dir, status.container_id)
        except ValueError:
            continue
        limit = limit_of(spec)
        found.append(
            ContainerBurst(
                status.name,
                status.container_id,
                directory,
                status.state is not None and status.state.running is not None,
                limit,
                base_quota(limit),
                static_burst(limit, config),
            )
        )
    return PodBurst(meta, config, tuple(found))


def limit_of(container: Container) -> int:
    """Return the CPU limit in milli-CPU, -1 without one."""
    amount = container.resources.limits.get(CPU)
    return -1 if amount is None else quantity.milli_value(amount)


def base_quota(limit: int) -> int:
    """Return the quota of a CPU limit, -1 without one."""
    quota = int64.quotient(limit * PERIOD_US, 1000)
    return -1 if quota <= 0 else max(quota, SMALLEST_QUOTA)


def static_burst(limit: int, config: CPUBurstConfig) -> int:
    """Return the CPU time that a container may save up, in microseconds."""
    if config.policy not in (AUTO, BURST_ONLY) or limit <= 0:
        return 0
    percent = config.cpu_burst_percent
    if percent is None:
        percent = DEFAULT.cpu_burst_percent or 0
    return int64.from_float((limit / 1000) * (percent / 100) * PERIOD_US)


def overridden(step: Step, node: NodeState) -> Step:
    """Return what the state of the node leaves of a step."""
    if node is NodeState.OVERLOAD and step in (Step.UP, Step.REMAIN):
        return Step.DOWN
    if node in (NodeState.COOLING, NodeState.UNKNOWN) and step is Step.UP:
        return Step.REMAIN
    return step


def next_quota(step: Step, current: int, base: int, percent: int | None) -> int:
    """Return the quota after a step: at least that of the limit, at most `percent` of it."""
    ceiling = base
    if percent is not None and percent > 100:
        ceiling = int64.from_float(base * float(percent) / 100)
    target = {
        Step.UP: int64.from_float(current * INCREASE),
        Step.DOWN: int64.from_float(current * DECREASE),
        Step.RESET: base,
        Step.REMAIN: current,
    }[step]
    return max(base, min(target, ceiling))
