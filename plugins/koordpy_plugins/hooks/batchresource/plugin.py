"""BatchResource: CPU shares, CFS quotas and memory limits of BE pods, by their batch resources.

The kubelet knows cpu and memory only, so that it creates these pods without shares and limits. Source:
Koordinator, `pkg/koordlet/runtimehooks/hooks/batchresource`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from koordpy.agent.interface import CallbackTarget, Handle, StateType, Update
from koordpy.agent.interface.hook import (
    ON,
    ContainerRequest,
    Hook,
    Level,
    PodRequest,
    Reconciler,
    Response,
    Rule,
    Stage,
    StageFunction,
)
from koordpy.agent.toolkit import cpu_values, hook_requests
from koordpy.api import extension
from koordpy.api.extended_resource_spec import Amounts
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.qos import QoSClass
from koordpy.lib import int64
from koordpy.lib.feature_gates import FeatureSpec

from .rule import BatchRule

SHARES: Final = "cpu.shares"
QUOTA: Final = "cpu.cfs_quota_us"
MEMORY: Final = "memory.limit_in_bytes"
UNLIMITED: Final = -1
_BE: Final = frozenset({QoSClass.BE})


class BatchResource(Hook):
    """The hook."""

    name: ClassVar[str] = "BatchResource"
    feature: ClassVar[str | None] = "BatchResource"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"BatchResource": ON}
    needs: ClassVar[Needs] = Needs(elsewhere=("cgroup files of the node, writable",))

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.rule = BatchRule()

    def rules(self) -> Sequence[Rule]:
        """Two: the suppress policy of the NodeSLO, and the Node's CPU normalization ratio."""
        return (
            Rule(
                f"{self.name} (nodeSLO)",
                StateType.NODE_SLO_SPEC,
                self.rule.read_slo,
                self.write_quotas_in_turn,
            ),
            Rule(f"{self.name} (nodeMeta)", StateType.NODE_METADATA, self.rule.read_node, self.write_quotas),
        )

    def reconcilers(self) -> Sequence[Reconciler]:
        """All three resources of pods and of containers."""
        functions: tuple[tuple[Level, str, Callable[[Any, Response], None]], ...] = (
            (Level.POD, SHARES, self.pod_shares),
            (Level.POD, QUOTA, self.pod_quota),
            (Level.POD, MEMORY, self.pod_memory),
            (Level.CONTAINER, SHARES, self.container_shares),
            (Level.CONTAINER, QUOTA, self.container_quota),
            (Level.CONTAINER, MEMORY, self.container_memory),
        )
        return [Reconciler(level, resource, apply, qos=_BE) for level, resource, apply in functions]

    def stages(self) -> Sequence[StageFunction]:
        """All resources of a new pod, and of a new or updated container."""
        return (
            StageFunction(Stage.PRE_RUN_POD_SANDBOX, self.name, self.pod),
            StageFunction(Stage.PRE_CREATE_CONTAINER, self.name, self.container),
            StageFunction(Stage.PRE_UPDATE_CONTAINER_RESOURCES, self.name, self.container),
        )

    # --- pods ------------------------------------------------------------------------------------

    def pod(self, request: PodRequest, response: Response) -> None:
        """Set all resources of a pod."""
        self.pod_shares(request, response)
        self.pod_quota(request, response)
        self.pod_memory(request, response)

    def pod_shares(self, request: PodRequest, response: Response) -> None:
        """Set the shares: of all positive requests."""
        if request.qos != QoSClass.BE or request.batch is None:
            return
        milli = sum(
            max(0, _amount(container.requests, extension.BATCH_CPU)) for container in request.batch.values()
        )
        response.set(SHARES, cpu_values.shares(int64.wrap(milli)), f"batch-cpu requests {milli}m")

    def pod_quota(self, request: PodRequest, response: Response) -> None:
        """Set the quota: of all limits, none if a container is unlimited."""
        if request.qos == QoSClass.BE and request.batch is not None:
            limits = [_amount(container.limits, extension.BATCH_CPU) for container in request.batch.values()]
            self._set_quota(response, UNLIMITED if any(limit <= 0 for limit in limits) else sum(limits))

    def pod_memory(self, request: PodRequest, response: Response) -> None:
        """Set the memory limit: all limits, none if a container is unlimited, 0 without containers."""
        if request.qos != QoSClass.BE or request.batch is None:
            return
        limits = [_amount(container.limits, extension.BATCH_MEMORY) for container in request.batch.values()]
        limit = UNLIMITED if any(limit <= 0 for limit in limits) else int64.wrap(sum(limits))
        response.set(MEMORY, limit, "batch-memory limits" if limit > 0 else "no batch-memory limit")

    # --- containers ------------------------------------------------------------------------------

    def container(self, request: ContainerRequest, response: Response) -> None:
        """Set all resources of a container."""
        self.container_shares(request, response)
        self.container_quota(request, response)
        self.container_memory(request, response)

    def container_shares(self, request: ContainerRequest, response: Response) -> None:
        """Set the shares of the request."""
        if request.pod.qos == QoSClass.BE and request.batch is not None:
            milli = max(0, _amount(request.batch.requests, extension.BATCH_CPU))
            response.set(SHARES, cpu_values.shares(milli), f"batch-cpu request {milli}m")

    def container_quota(self, request: ContainerRequest, response: Response) -> None:
        """Set the quota of the limit."""
        if request.pod.qos == QoSClass.BE and request.batch is not None:
            self._set_quota(response, max(0, _amount(request.batch.limits, extension.BATCH_CPU)))

    def container_memory(self, request: ContainerRequest, response: Response) -> None:
        """Set the memory limit."""
        if request.pod.qos == QoSClass.BE and request.batch is not None:
            limit = _amount(request.batch.limits, extension.BATCH_MEMORY)
            response.set(
                MEMORY,
                limit if limit > 0 else UNLIMITED,
                "batch-memory limit" if limit > 0 else "no batch-memory limit",
            )

    def _set_quota(self, response: Response, milli: int) -> None:
        if not self.rule.quota_enabled:
            response.set(QUOTA, UNLIMITED, "CPU is suppressed by the quota of all best-effort pods")
            return
        quota, ratio = cpu_values.quota(int64.wrap(milli)), self.rule.ratio
        formula = f"batch-cpu limit {milli}m" if quota > 0 else "no batch-cpu limit"
        scaled = cpu_values.scaled_quota(quota, ratio)
        response.set(
            QUOTA, scaled, f"{formula} / CPU normalization ratio {ratio:g}" if ratio > 1 else formula
        )

    # --- rule updates ----------------------------------------------------------------------------

    def write_quotas_in_turn(self, target: CallbackTarget) -> None:
        """Write the quotas of all BE pods, pod after pod."""
        for pods, containers in self._quotas(target):
            self.handle.executor.update_batch([*pods, *containers])

    def write_quotas(self, target: CallbackTarget) -> None:
        """Write the quotas of all BE pods, so that no container ever exceeds its pod."""
        found = self._quotas(target)
        self.handle.executor.leveled_update_batch(
            [
                [update for pods, _ in found for update in pods],
                [update for _, containers in found for update in containers],
            ]
        )

    def _quotas(self, target: CallbackTarget) -> list[tuple[list[Update], list[Update]]]:
        found = []
        for _, requests in hook_requests.each(target.pods, self.handle.layout):
            if requests.pod.qos != QoSClass.BE:
                continue
            response = Response()
            self.pod_quota(requests.pod, response)
            pods = hook_requests.updates(requests.pod, response, self.name)
            containers = []
            for container in requests.running:
                response = Response()
                self.container_quota(container, response)
                containers += hook_requests.updates(container, response, self.name)
            found.append((pods, containers))
        return found


def _amount(amounts: Amounts | None, name: str) -> int:
    """Return an amount, rounded up; -1 where it is missing."""
    amount = None if amounts is None else amounts.get(name)
    return UNLIMITED if amount is None else amount.value()
