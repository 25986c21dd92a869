"""A node with runtime hooks: cgroups of a tree, and states that a test sets."""

from pathlib import Path
from typing import Any

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.hooks.runtime_hooks import RuntimeHooks
from koordpy.agent.interface import CallbackTarget, Handle, PodMeta, StateType
from koordpy.agent.interface.gates import GATES
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec, completed
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates
from tests.cgroups.tree import CgroupTree


class SetStates(StatesInformer):
    """States that are set, not watched."""

    metas: list[PodMeta]
    slo: NodeSLOSpec | None = None

    def pods(self):
        return list(self.metas)

    def node_slo(self):
        return self.slo


class HookNode:
    """The hooks of `types` with their gates on, unless `gates` says otherwise. `roots` are /proc and /sys."""

    def __init__(
        self,
        tree: CgroupTree,
        *types: Any,
        gates: dict[str, bool] | None = None,
        flags: Any = None,
        roots: tuple[Path, Path] = (Path("/proc"), Path("/sys")),
    ) -> None:
        self.tree = tree
        clock = SystemClock()
        cluster = Cluster(clock)
        specs = dict(GATES)
        for type_ in types:
            specs.update(type_.feature_gates)
        on = {type_.feature: True for type_ in types if type_.feature} | (gates or {})
        files = CgroupFiles(tree.root, tree.version, proc_root=roots[0], sys_root=roots[1])
        self.states = SetStates(cluster, "n", tree.layout)
        self.states.metas = []
        self.handle = Handle(
            node_name="n",
            states=self.states,
            metrics=MetricCache(clock),
            layout=tree.layout,
            cgroups=files,
            executor=Executor(files, clock),
            cluster=cluster,
            gates=FeatureGates(specs, on),
            flags=flags_of([RuntimeHooks, *types], flags),
            clock=clock,
            proc_root=roots[0],
            sys_root=roots[1],
        )
        self.hooks = {type_: type_.make(self.handle) for type_ in types}
        self.runtime = RuntimeHooks(self.hooks.values(), self.handle)

    def pod(
        self, name: str, spec: dict[str, Any], *, qos: str = "", kube_qos: str = "BestEffort", **metadata
    ):
        """Add a running pod with a sandbox and the containers of the spec; return its directory."""
        labels = {"koordinator.sh/qosClass": qos} if qos else {}
        document = {
            "metadata": {"namespace": "d", "name": name, "uid": name, "labels": labels, **metadata},
            "spec": spec,
            "status": {
                "phase": "Running",
                "qosClass": kube_qos,
                "containerStatuses": [
                    {"name": item["name"], "containerID": f"containerd://{name}{item['name']}"}
                    for item in spec["containers"]
                ],
            },
        }
        pod = decode(Pod, document)
        directory = self.tree.layout.pod(pod)
        if not self.tree.files.exists(directory):
            self.tree.make(directory)
            self.tree.make(f"{directory}/{name}sandbox")
            for item in spec["containers"]:
                self.tree.make(f"{directory}/{name}{item['name']}")
        self.states.metas = [meta for meta in self.states.metas if meta.pod.metadata.name != name]
        self.states.metas.append(PodMeta(pod, directory))
        return directory

    def send(self, type_: StateType, state: Any = None) -> None:
        """Give the hooks a new state, as the informer does."""
        applications = self.states.slo.host_applications if self.states.slo is not None else []
        target = CallbackTarget(list(self.states.metas), applications)
        self.runtime._state_changed(type_, state, target)

    def node_slo(self, **sections: Any) -> None:
        self.states.slo = completed(decode(NodeSLOSpec, sections))
        self.send(StateType.NODE_SLO_SPEC, self.states.slo)

    def topology(self, annotations: dict[str, str]) -> None:
        document = {"metadata": {"annotations": annotations}}
        self.send(StateType.NODE_TOPOLOGY, decode(NodeResourceTopology, document))

    def node(self, annotations: dict[str, str]) -> None:
        self.send(StateType.NODE_METADATA, decode(Node, {"metadata": {"annotations": annotations}}))
