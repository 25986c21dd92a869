"""CPUSetAllocator: the CPUs of containers, and no CFS quota for pods that have CPUs of their own.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/cpuset`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from prometheus_client import Gauge

from koordpy.agent.interface import CallbackTarget, FlagSet, Handle, StateType
from koordpy.agent.interface.gates import BE_CPU_MANAGER, PER_CPU_METRIC
from koordpy.agent.interface.hook import (
    ON,
    ContainerRequest,
    Hook,
    HookError,
    HostApplicationRequest,
    Level,
    PodRequest,
    Reconciler,
    Response,
    Rule,
    Stage,
    StageFunction,
)
from koordpy.agent.toolkit import hook_requests
from koordpy.api import extension
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.qos import KubeQoS, QoSClass
from koordpy.api.resource_status import NUMANodeResource
from koordpy.lib.feature_gates import FeatureSpec

from . import rule

log = logging.getLogger(__name__)

CPUSET: Final = "cpuset.cpus"
QUOTA: Final = "cpu.cfs_quota_us"
KEEP_QUOTA_FLAG: Final = "disable-unset-cpu-quota"
_EXCLUSIVE: Final = frozenset({QoSClass.LSE, QoSClass.LSR})
_SHARED: Final = frozenset({QoSClass.LS, QoSClass.BE, QoSClass.SYSTEM, QoSClass.NONE})

SHARE_POOL_CORES = Gauge("koordlet_cpuset_share_pool_cpu_cores", "CPUs of the shared pools.", ["node"])
BE_SHARE_POOL_CORES = Gauge(
    "koordlet_cpuset_be_share_pool_cpu_cores", "CPUs of the shared pools of best-effort pods.", ["node"]
)
SHARE_POOL_INFO = Gauge(
    "koordlet_cpuset_share_pool_info", "1 for each CPU of the shared pools.", ["node", "cpu"]
)
BE_SHARE_POOL_INFO = Gauge(
    "koordlet_cpuset_be_share_pool_info",
    "1 for each CPU of the shared pools of best-effort pods.",
    ["node", "cpu"],
)


class CPUSetAllocator(Hook):
    """The hook."""

    name: ClassVar[str] = "CPUSetAllocator"
    feature: ClassVar[str | None] = "CPUSetAllocator"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"CPUSetAllocator": ON}
    needs: ClassVar[Needs] = Needs(
        elsewhere=("cgroup files of the node, writable", "a NodeResourceTopology of the node")
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.rule: rule.PoolRule | None = None

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the flag that keeps quotas."""
        flags.declare(KEEP_QUOTA_FLAG, False, "keep the CFS quota of pods that have CPUs of their own")

    def read_topology(self, topology: NodeResourceTopology) -> bool:
        """Read the pools; return whether they changed. Raises ValueError, and keeps the old ones."""
        found = rule.parse(topology.metadata.annotations)
        self._record(rule.cpus(found.pools), SHARE_POOL_CORES, SHARE_POOL_INFO)
        self._record(rule.cpus(found.best_effort_pools), BE_SHARE_POOL_CORES, BE_SHARE_POOL_INFO)
        changed = found != self.rule
        self.rule = found
        return changed

    def _record(self, cpus: list[int], cores: Gauge, info: Gauge) -> None:
        node = self.handle.node_name
        cores.labels(node).set(len(cpus))
        if self.handle.gates.enabled(PER_CPU_METRIC):
            info.clear()
            for cpu in cpus:
                info.labels(node, str(cpu)).set(1)

    def rules(self) -> Sequence[Rule]:
        """The pools of the NodeResourceTopology."""
        return (Rule(self.name, StateType.NODE_TOPOLOGY, self.read_topology, self.write_cpusets),)

    def reconcilers(self) -> Sequence[Reconciler]:
        """CPUs of all containers and sandboxes; quotas only where pods have CPUs of their own."""
        return (
            Reconciler(Level.CONTAINER, CPUSET, self.container, qos=_EXCLUSIVE),
            Reconciler(Level.SANDBOX, CPUSET, self.container, qos=_EXCLUSIVE),
            Reconciler(Level.POD, QUOTA, self.pod_quota, qos=_EXCLUSIVE),
            Reconciler(Level.CONTAINER, CPUSET, self.container_cpuset, qos=_SHARED),
            Reconciler(Level.SANDBOX, CPUSET, self.container_cpuset, qos=_SHARED),
            Reconciler(Level.HOST_APPLICATION, CPUSET, self.host_application),
        )

    def stages(self) -> Sequence[StageFunction]:
        """The quota of a new pod; CPUs and quota of a new or updated container."""
        return (
            StageFunction(Stage.PRE_RUN_POD_SANDBOX, self.name, self.pod_quota),
            StageFunction(Stage.PRE_CREATE_CONTAINER, self.name, self.container),
            StageFunction(Stage.PRE_UPDATE_CONTAINER_RESOURCES, self.name, self.container),
        )

    # --- values ----------------------------------------------------------------------------------

    def container(self, request: ContainerRequest, response: Response) -> None:
        """Set the CPUs and unset the quota of a container. Raises HookError."""
        self.container_cpuset(request, response)
        self._unset_quota(request.pod, response)

    def pod_quota(self, request: PodRequest, response: Response) -> None:
        """Unset the quota of a pod. Raises HookError."""
        self._unset_quota(request, response)

    def container_cpuset(self, request: ContainerRequest, response: Response) -> None:
        """Set the CPUs of a container or sandbox. Raises HookError."""
        allocated = request.pod.resource_status().cpuset
        if allocated:
            response.set(CPUSET, allocated, f"annotation {extension.ANNOTATION_RESOURCE_STATUS}")
            return
        found = None if self.rule is None else self._from_pools(request, self.rule)
        if found is not None:
            cpus, formula = found
            response.set(CPUSET, cpus, formula)

    def host_application(self, request: HostApplicationRequest, response: Response) -> None:
        """Set the CPUs of a host application. Raises HookError for other classes than LS."""
        if self.rule is None:
            return
        if request.qos != QoSClass.LS:
            raise HookError(f"only LS is supported for host application {request.name}")
        response.set(CPUSET, self.rule.all_shared, "all shared pools")

    def _from_pools(self, request: ContainerRequest, pools: rule.PoolRule) -> tuple[str, str] | None:
        """Return the CPUs for a pod without CPUs of its own, None to leave them to kubelet."""
        qos, status = request.pod.qos, request.pod.resource_status()
        if any(map(_has_cpu, status.numa_nodes)):
            best_effort = qos is QoSClass.BE
            if not best_effort or self.handle.gates.enabled(BE_CPU_MANAGER):
                return pools.on_nodes(status, best_effort=best_effort), "shared pools of the NUMA nodes"
        if qos is QoSClass.SYSTEM and pools.system_cpuset:
            return pools.system_cpuset, "CPUs of the class SYSTEM"
        if qos is QoSClass.LS:
            return pools.all_shared, "all shared pools"
        if request.kube_qos == KubeQoS.BEST_EFFORT:
            return "", "CPUs of the QoS directory"
        if pools.kubelet.policy == rule.STATIC:
            return None
        return pools.all_shared, "all shared pools"

    def _unset_quota(self, pod: PodRequest, response: Response) -> None:
        if not self.handle.flags.boolean(KEEP_QUOTA_FLAG) and pod.resource_status().cpuset:
            response.set(QUOTA, -1, "the pod has CPUs of its own")

    # --- rule updates ----------------------------------------------------------------------------

    def write_cpusets(self, target: CallbackTarget) -> None:
        """Write the CPUs of all containers, sandboxes and host applications, but no quotas."""
        handle = self.handle
        found = []
        for meta, requests in hook_requests.each(target.pods, handle.layout):
            sandbox = hook_requests.sandbox(meta, requests.pod, handle.layout, handle.cgroups)
            for request in (*requests.containers, sandbox):
                response = Response()
                try:
                    self.container_cpuset(request, response)
                except HookError as error:
                    log.info("%s: pod %s: %s", self.name, request.pod.key, error)
                    break
                found += hook_requests.updates(request, response, self.name)
        for application in target.host_applications:
            host, response = hook_requests.host_application(handle.layout, application), Response()
            try:
                self.host_application(host, response)
            except HookError as error:
                log.debug("%s: %s", self.name, error)
                continue
            found += hook_requests.updates(host, response, self.name)
        handle.executor.update_batch(found)


def _has_cpu(node: NUMANodeResource) -> bool:
    if node.resources is None:
        return False
    cpu, batch = node.resources.get("cpu"), node.resources.get(extension.BATCH_CPU)
    return (cpu is not None and not cpu.is_zero) or (batch is not None and batch.value() > 0)
