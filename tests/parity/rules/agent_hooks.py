"""Runtime hooks: rule updates, one round of reconciliation, and the stages of a container runtime.

All hooks are on. Cgroup files and the kernel are in memory; what hooks ask for is recorded.
"""

from typing import Any

from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.hooks.plans import Plans, by_hook
from koordpy.agent.hooks.reconcilers import Reconcilers
from koordpy.agent.hooks.rules import Outcome, Rules, run_update
from koordpy.agent.hooks.stages import Stages
from koordpy.agent.interface import CallbackTarget, CgroupLayout, Handle, PodMeta, StateType
from koordpy.agent.interface.gates import BE_CPU_MANAGER, GATES, HAMI_CORE_VGPU_MONITOR
from koordpy.agent.interface.hook import (
    KUBE_QOS_CLASSES,
    ContainerRequest,
    FailurePolicy,
    Level,
    NativeResources,
    PodRequest,
    Stage,
)
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.toolkit import hook_requests
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.hooks.batchresource.plugin import BatchResource
from koordpy_plugins.hooks.coresched.plugin import COOKIE, CoreSched
from koordpy_plugins.hooks.coresched.rule import CoreSchedRule
from koordpy_plugins.hooks.cpunormalization.plugin import CPUNormalization
from koordpy_plugins.hooks.cpuset.plugin import KEEP_QUOTA_FLAG, CPUSetAllocator
from koordpy_plugins.hooks.gpu.plugin import LIBRARY_FLAG, GPUEnvInject
from koordpy_plugins.hooks.groupidentity.plugin import BVT, SYSCTL, GroupIdentity
from koordpy_plugins.hooks.oomscoreadj.plugin import OOMScoreAdj

TYPES = (
    BatchResource,
    CPUNormalization,
    CPUSetAllocator,
    CoreSched,
    GPUEnvInject,
    GroupIdentity,
    OOMScoreAdj,
)
LAYOUT = CgroupLayout(systemd=True)
SANDBOX_STAGES = (Stage.PRE_RUN_POD_SANDBOX,)


class MemoryNode:
    """Cgroup files, the kernel's switches, and a record of what was written."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.identity = case["bvtSupported"]
        self.sysctl = case["schedGroupIdentitySysctl"]
        self.children = {}
        for entry in case["pods"]:
            status = entry["pod"].get("status", {})
            listed = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
            names = [
                f"cri-containerd-{item['containerID'].partition('://')[2]}.scope"
                for item in listed
                if item.get("containerID")
            ]
            if "sandboxID" in entry:
                names.append(f"cri-containerd-{entry['sandboxID']}.scope")
            self.children[entry["cgroupDir"]] = names
        self.written: list[Any] = []

    def supported(self, name: str, directory: str = "") -> str | None:
        found = {BVT: self.identity, SYSCTL: self.identity and self.sysctl is not None}
        return None if found.get(name) else f"no {name}"

    def read(self, name: str, directory: str) -> str:
        return str(self.sysctl)

    def walk(self, directory, depth, subsystem="cpuset"):
        if subsystem == "cpu":  # where sandboxes are looked for
            yield directory, 0
            for name in sorted(self.children.get(directory, ())):
                yield f"{directory}/{name}", 1

    def processes(self, directory):
        return ()

    def update(self, update, *, cached=True):
        if update.resource == SYSCTL:
            self.sysctl = int(update.value)
        else:
            self.written.append(update)
        return True

    def update_batch(self, updates, *, cached=True):
        for update in updates:
            self.update(update)

    def leveled_update_batch(self, levels):
        for level in levels:
            self.update_batch(level)


class NoProcesses:
    """A kernel without processes."""

    def __init__(self, supported: bool) -> None:
        self._supported = supported

    def unsupported(self) -> str | None:
        return None if self._supported else "it has no core scheduling"


def run(case: dict[str, Any], tag: str | None) -> Any:
    node = MemoryNode(case)
    hooks, handle = _hooks(case, node)
    by_type = {type(hook): hook for hook in hooks}
    rules = Rules(rule for hook in hooks for rule in hook.rules())
    reconcilers = Reconcilers(hooks, "n")
    stages = Stages((each for hook in hooks for each in hook.stages()), "n")
    metas = [PodMeta(decode(Pod, entry["pod"]), entry["cgroupDir"]) for entry in case["pods"]]
    names = _object_names(case, metas)
    events, applications = [], []
    for event in case["events"]:
        if "nodeSLOSpec" in event:
            slo = decode(NodeSLOSpec, event["nodeSLOSpec"])
            applications = slo.host_applications
            names.update({LAYOUT.host_application(each): f"host:{each.name}" for each in applications})
        events.append(_event(event, rules, CallbackTarget(metas, applications), node, names))
    plans = Plans(reconcilers, handle.layout, handle.cgroups)
    fixed = []
    for qos in KUBE_QOS_CLASSES:
        fixed.append(reconcilers.wanted(Level.KUBE_QOS, hook_requests.kube_qos(LAYOUT, qos)))
    for application in applications:
        request = hook_requests.host_application(LAYOUT, application)
        fixed.append(reconcilers.wanted(Level.HOST_APPLICATION, request))
    plans.refresh(metas, everything=True)
    found = by_hook(plans, fixed)
    reconciled = _by_object([each for writes in found.values() for each in writes.everything], names)
    for item in (item for plan in plans for item in plan.enforced):
        if item.reconciler.resource != COOKIE:
            files = reconciled.setdefault(names[item.request.cgroup_dir], {})
            files[item.reconciler.resource] = str(item.value)
    core_sched = by_type[CoreSched]
    return {
        "events": events,
        "reconcile": reconciled,
        "coreSched": {
            meta.pod.metadata.name: list(_group(core_sched, hook_requests.of_pod(meta, LAYOUT).pod))
            for meta in metas
        },
        "stages": [_stage(entry, stages) for entry in case["stages"]],
        "schedGroupIdentitySysctl": node.sysctl,
    }


def _hooks(case: dict[str, Any], node: Any) -> tuple[list[Any], Handle]:
    clock = SystemClock()
    cluster = Cluster(clock)
    specs = dict(GATES)
    for type_ in TYPES:
        specs.update(type_.feature_gates)
    on = {str(type_.feature): True for type_ in TYPES}
    on[BE_CPU_MANAGER], on[HAMI_CORE_VGPU_MONITOR] = case["beCPUManager"], case["hamiCoreVGPUMonitor"]
    handle = Handle(
        node_name="n",
        states=StatesInformer(cluster, "n", LAYOUT),
        metrics=MetricCache(clock),
        layout=LAYOUT,
        cgroups=node,
        executor=node,
        cluster=cluster,
        gates=FeatureGates(specs, on),
        flags=flags_of(
            TYPES,
            {
                LIBRARY_FLAG: case["hamiCoreLibrary"],
                KEEP_QUOTA_FLAG: case["disableUnsetCPUQuotaForCPUSetPod"],
            },
        ),
        clock=clock,
    )
    hooks = [type_(NoArgs(), handle) for type_ in TYPES]
    for hook in hooks:
        if isinstance(hook, CoreSched):
            kernel: Any = NoProcesses(case["coreSchedSupported"])
            hook.use_kernel(kernel)
    return hooks, handle


def _object_names(case: dict[str, Any], metas: list[PodMeta]) -> dict[str, str]:
    """Return the name of every directory in the answers."""
    names = {LAYOUT.qos(qos): f"qos:{qos}" for qos in KUBE_QOS_CLASSES}
    for entry, meta in zip(case["pods"], metas, strict=True):
        pod, directory = meta.pod, meta.cgroup_dir
        names[directory] = pod.metadata.name
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            if status.container_id:
                names[LAYOUT.container(directory, status.container_id)] = f"{pod.metadata.name}/{status.name}"
        if "sandboxID" in entry:
            name = f"{pod.metadata.name}/(sandbox)"
            names[LAYOUT.container(directory, f"containerd://{entry['sandboxID']}")] = name
    return names


def _event(
    event: dict[str, Any], rules: Rules, target: CallbackTarget, node: MemoryNode, names: dict[str, str]
) -> Any:
    state: Any
    if "nodeSLOSpec" in event:
        type_, state = StateType.NODE_SLO_SPEC, decode(NodeSLOSpec, event["nodeSLOSpec"])
    elif "topologyAnnotations" in event:
        document = {"metadata": {"annotations": event["topologyAnnotations"]}}
        type_, state = StateType.NODE_TOPOLOGY, decode(NodeResourceTopology, document)
    else:
        document = {"metadata": {"annotations": event["nodeAnnotations"]}}
        type_, state = StateType.NODE_METADATA, decode(Node, document)
    outcomes, writes = {}, {}
    for name, (rule, outcome) in rules.parse(type_, state).items():
        outcomes[name] = str(outcome)
        if outcome is Outcome.UPDATED:
            node.written = []
            run_update(rule, target)
            writes[name] = _by_object(node.written, names)
    return {"rules": outcomes, "writes": writes}


def _by_object(updates: list[Any], names: dict[str, str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for update in updates:
        found.setdefault(names[update.directory], {})[update.resource] = update.value
    return found


def _group(hook: CoreSched, request: PodRequest) -> tuple[bool, str]:
    return (hook.rule or CoreSchedRule()).group(request)


def _stage(entry: dict[str, Any], stages: Stages) -> Any:
    stage = Stage(entry["stage"])
    annotations = entry["annotations"] or {}
    batch = hook_requests.annotated_batch(annotations)
    pod = PodRequest(
        entry["namespace"],
        entry["name"],
        entry["uid"],
        entry["labels"] or {},
        annotations,
        entry["cgroupParent"],
        batch=batch,
    )
    request: Any = pod
    if stage not in SANDBOX_STAGES:
        docker = "io.kubernetes.docker.type" in annotations
        identifier = f"{'docker' if docker else 'containerd'}://{entry['containerID']}"
        request = ContainerRequest(
            pod,
            entry["container"],
            identifier,
            LAYOUT.container(pod.cgroup_dir, identifier),
            native=_native(entry["containerResources"]),
            batch=(batch or {}).get(entry["container"]),
        )
    response, error = stages.run(stage, request, FailurePolicy(entry["failurePolicy"]))
    answer: dict[str, Any] = {"error": error is not None, "set": response.values}
    if response.envs:
        answer["envs"] = response.envs
    if response.mounts:
        answer["mounts"] = [
            {
                "destination": mount.destination,
                "options": list(mount.options),
                "source": mount.source,
                "type": mount.type,
            }
            for mount in response.mounts
        ]
    if stage in SANDBOX_STAGES:
        stopped = error is not None and entry["via"] == "nri"
        found = [] if stopped else hook_requests.updates(pod, response)
        answer["writes"] = _by_object(found, {pod.cgroup_dir: pod.name})
    return answer


def _native(given: dict[str, Any] | None) -> NativeResources | None:
    if given is None:
        return None
    memory = given.get("memoryLimit")
    return NativeResources(
        given.get("cpuShares") or None,
        given.get("cpuQuota") or None,
        None if not memory else max(memory, -1),
    )
