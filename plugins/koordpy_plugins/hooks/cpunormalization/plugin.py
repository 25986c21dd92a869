"""CPUNormalization: CFS quotas of LS pods on nodes whose CPUs are faster than the ones that limits mean.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/cpunormalization`.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from koordpy.agent.interface import CallbackTarget, Handle, StateType, Update
from koordpy.agent.interface.hook import (
    OFF,
    ContainerRequest,
    Hook,
    HookError,
    Level,
    NativeResources,
    PodRequest,
    Reconciler,
    Response,
    Rule,
    Stage,
    StageFunction,
)
from koordpy.agent.toolkit import cpu_normalization, cpu_values, hook_requests
from koordpy.api.core import Node
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.qos import QoSClass
from koordpy.lib.feature_gates import FeatureSpec

QUOTA: Final = "cpu.cfs_quota_us"
_SHARED: Final = frozenset({QoSClass.LS, QoSClass.NONE})


class CPUNormalization(Hook):
    """The hook. It does nothing until the Node has a ratio."""

    name: ClassVar[str] = "CPUNormalization"
    feature: ClassVar[str | None] = "CPUNormalization"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"CPUNormalization": OFF}
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "cgroup files of the node, writable",
            "Nodes with the annotation node.koordinator.sh/cpu-normalization-ratio (koord-manager writes it)",
        )
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.enabled = False
        self.ratio = cpu_normalization.OFF

    def read_node(self, node: Node) -> bool:
        """Read the ratio; return whether it changed by 0.01 or more. Raises ValueError."""
        ratio = cpu_normalization.ratio_of(node)
        enabled = ratio != cpu_normalization.OFF
        if self.enabled is enabled and abs(self.ratio - ratio) < cpu_normalization.EPSILON:
            return False
        self.enabled, self.ratio = enabled, ratio
        return True

    def rules(self) -> Sequence[Rule]:
        """The ratio of the Node."""
        return (Rule(self.name, StateType.NODE_METADATA, self.read_node, self.write_quotas),)

    def reconcilers(self) -> Sequence[Reconciler]:
        """The quotas of LS pods and pods without a class, and of their containers."""
        return (
            Reconciler(Level.POD, QUOTA, self.pod_quota, qos=_SHARED),
            Reconciler(Level.CONTAINER, QUOTA, self.container_quota, qos=_SHARED),
        )

    def stages(self) -> Sequence[StageFunction]:
        """The quota of a new or updated container. A runtime does not know that of a new pod."""
        return (
            StageFunction(Stage.PRE_RUN_POD_SANDBOX, self.name, self.pod_quota),
            StageFunction(Stage.PRE_CREATE_CONTAINER, self.name, self.container_quota),
            StageFunction(Stage.PRE_UPDATE_CONTAINER_RESOURCES, self.name, self.container_quota),
        )

    def pod_quota(self, request: PodRequest, response: Response) -> None:
        """Scale the quota of a pod's limits."""
        self._scale(request, request.native, response)

    def container_quota(self, request: ContainerRequest, response: Response) -> None:
        """Scale the quota of a container's limit."""
        self._scale(request.pod, request.native, response)

    def _scale(self, pod: PodRequest, native: NativeResources | None, response: Response) -> None:
        """Set the scaled quota; also where the ratio scales nothing, to restore an earlier one."""
        if not self.enabled or native is None or native.cfs_quota is None or not shares_cpus(pod):
            return
        if native.cfs_quota > 0:
            response.set(
                QUOTA,
                cpu_values.scaled_quota(native.cfs_quota, self.ratio),
                f"limit {native.cfs_quota} us / CPU normalization ratio {self.ratio:g}",
            )

    def write_quotas(self, target: CallbackTarget) -> None:
        """Write the quotas of all pods, so that no container ever exceeds its pod."""
        pods: list[Update] = []
        containers: list[Update] = []
        for meta, requests in hook_requests.each(target.pods, self.handle.layout):
            if hook_requests.reconciled_qos(requests.pod) not in _SHARED:
                continue
            if meta.pod.status.phase not in ("Pending", "Running"):
                continue
            response = Response()
            self.pod_quota(requests.pod, response)
            pods += hook_requests.updates(requests.pod, response, self.name)
            for container in requests.running:
                response = Response()
                self.container_quota(container, response)
                containers += hook_requests.updates(container, response, self.name)
        self.handle.executor.leveled_update_batch([pods, containers])


def shares_cpus(pod: PodRequest) -> bool:
    """Return whether a pod runs on CPUs that others use too. A pod without any label always counts as one."""
    if not pod.labels:
        return True
    if pod.qos is QoSClass.NONE:
        try:
            return not pod.resource_status().cpuset
        except HookError:
            return True
    return pod.qos is QoSClass.LS
