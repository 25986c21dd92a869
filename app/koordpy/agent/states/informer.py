"""The states of this node, and callbacks on changes (states informer).

Node, NodeSLO, pods and NodeResourceTopology come from the cluster's stores. Only the objects of this node are
requested; the stores hold more if other parts of the process request more. `send_callback` never blocks: a
type has one slot, and a waiting run sees the latest state.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from koordpy.agent.interface.layout import CgroupLayout, is_inside, is_name, kubelet_uid
from koordpy.agent.interface.states import Callback, CallbackError, CallbackTarget, PodMeta, StateType
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology, NodeSLO
from koordpy.api.slo.node_slo import NodeSLOSpec, completed
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.selector import Selector
from koordpy.cluster.store import Store

log = logging.getLogger(__name__)

_ORDER: Final = (
    StateType.NODE_SLO_SPEC,
    StateType.NODE_METADATA,
    StateType.NODE_TOPOLOGY,
    StateType.ALL_PODS,
)
"""In which order callbacks of several types run at first: policies before the pods that they are for."""


@dataclass
class _Mailbox:
    callbacks: dict[str, tuple[str, Callback]] = field(default_factory=dict)
    pending: asyncio.Event = field(default_factory=asyncio.Event)


class StatesInformer:
    """The states of one node."""

    name: Final = "states"

    def __init__(
        self,
        cluster: Cluster,
        node_name: str,
        layout: CgroupLayout,
        extension_defaults: Mapping[str, Any] | None = None,
        *,
        pods_from_kubelet: bool = False,
    ) -> None:
        self.node_name = node_name
        self.layout = layout
        self._extension_defaults = dict(extension_defaults or {})
        itself = Selector(fields=f"metadata.name={node_name}")
        self._nodes = cluster.store(Node, selector=itself)
        self._pods: Store[Pod] | None = None
        if not pods_from_kubelet:
            self._pods = cluster.store(Pod, selector=Selector(fields=f"spec.nodeName={node_name}"))
        self._kubelet_pods: list[Pod] | None = None
        self._metas: list[PodMeta] | None = None
        """The pods with their directories; None after a change."""
        self._left_out: set[str] = set()
        """Pods that have no cgroup of their own, by their keys."""
        self._task_ids: Mapping[str, Mapping[str, tuple[int, ...]]] = {}
        self._slos = cluster.store(NodeSLO, selector=itself, optional=True)
        self._topologies = cluster.store(NodeResourceTopology, selector=itself, optional=True)
        self._slo: NodeSLOSpec | None = None
        self._local_topology: NodeResourceTopology | None = None
        self._mailboxes = {type_: _Mailbox() for type_ in StateType}
        self._slos.subscribe(self._slo_seen, lambda _, new: self._slo_seen(new), self._slo_gone)
        if self._pods is not None:
            self._pods.subscribe(self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_changed)
        self._topologies.subscribe(self._topology_seen, lambda _, new: self._topology_seen(new))
        self._nodes.subscribe(self._node_seen, self._node_updated)

    # --- reading ---------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether all states are known and the Node object itself exists."""
        stores = (self._nodes, self._slos, self._topologies)
        return all(store.synced for store in stores) and self.pods_known and self.node() is not None

    @property
    def pods_known(self) -> bool:
        """Whether the pods of this node are known."""
        return self._kubelet_pods is not None if self._pods is None else self._pods.synced

    def node(self) -> Node | None:
        """Return this node's Node object."""
        return self._nodes.get("", self.node_name)

    def node_slo(self) -> NodeSLOSpec | None:
        """Return the spec of this node's NodeSLO with all defaults; None idles every strategy."""
        return self._slo

    def topology(self) -> NodeResourceTopology | None:
        """Return this node's NodeResourceTopology: the one that the agent computed, else the one reported."""
        return self._local_topology or self.reported_topology()

    def reported_topology(self) -> NodeResourceTopology | None:
        """Return the NodeResourceTopology object of the API server."""
        return self._topologies.get("", self.node_name)

    def set_topology(self, topology: NodeResourceTopology) -> None:
        """Replace the topology that the agent computed."""
        self._local_topology = topology
        self.send_callback(StateType.NODE_TOPOLOGY)

    def pods(self) -> list[PodMeta]:
        """Return all pods that are bound to this node."""
        if self._metas is None:
            bound = (pod for pod in self._pods or () if pod.spec.node_name == self.node_name)
            pods = self._kubelet_pods or () if self._pods is None else bound
            task_ids = self._task_ids
            self._metas = [
                PodMeta(pod, self.layout.pod(pod), task_ids.get(pod.metadata.uid, {}))
                for pod in self._identified(list(pods))
            ]
        return list(self._metas)

    def set_pods(self, pods: list[Pod]) -> None:
        """Replace the pods by those that kubelet has."""
        self._kubelet_pods = pods
        self._metas = None
        self.send_callback(StateType.ALL_PODS)

    def set_task_ids(self, task_ids: Mapping[str, Mapping[str, tuple[int, ...]]]) -> None:
        """Replace the ids of the tasks of containers, by pod UID and container id."""
        self._task_ids = task_ids
        self._metas = None

    def not_ready(self) -> str | None:
        """Return why the states are not known yet; None if they are."""
        return None if self.synced else "the node, its pods and NodeSLO are not all known yet"

    def _identified(self, pods: list[Pod]) -> list[Pod]:
        """Return the pods whose UID names one cgroup, which no other pod has.

        A pod can claim another UID by the annotation of static pods: one that another pod has is not given to
        it. Of several pods that claim one, the oldest gets it.
        """
        uids = [kubelet_uid(pod) for pod in pods]
        if len(set(uids)) == len(uids) and all(not uid or is_name(uid) for uid in uids):
            return pods
        owners: dict[str, Pod] = {}
        for pod, uid in zip(pods, uids, strict=True):
            other = owners.get(uid)
            if uid and (other is None or _precedence(pod) < _precedence(other)):
                owners[uid] = pod
        kept = []
        for pod, uid in zip(pods, uids, strict=True):
            if uid and (not is_name(uid) or owners[uid] is not pod):
                if pod.metadata.key not in self._left_out:
                    log.warning(
                        "pod %s is left alone: its UID %.80r is no name, or another pod has it",
                        pod.metadata.key,
                        uid,
                    )
            else:
                kept.append(pod)
        self._left_out = {pod.metadata.key for pod in pods} - {pod.metadata.key for pod in kept}
        return kept

    # --- callbacks -------------------------------------------------------------------------------

    def register_callbacks(self, type_: StateType, name: str, description: str, callback: Callback) -> None:
        """Register a callback for changes of a state. Names are unique within a type."""
        if type_ not in self._mailboxes:
            known = ", ".join(StateType)
            raise CallbackError(f"callback {name}: unknown state type {type_!r}; there are {known}")
        callbacks = self._mailboxes[type_].callbacks
        if name in callbacks:
            raise CallbackError(f"a callback {name} for {type_} is registered already: {callbacks[name][0]}")
        callbacks[name] = (description, callback)

    def unregister_callbacks(self, type_: StateType, name: str) -> None:
        """Forget a callback; nothing happens if there is none of this name."""
        self._mailboxes[type_].callbacks.pop(name, None)

    def send_callback(self, type_: StateType) -> None:
        """Request a run of a type's callbacks; several requests before it starts make one run."""
        self._mailboxes[type_].pending.set()

    async def run(self) -> None:
        """Run callbacks until cancelled, one worker per type, in the order of registration."""
        async with asyncio.TaskGroup() as workers:
            for type_ in _ORDER:
                workers.create_task(self._work(type_))

    async def _work(self, type_: StateType) -> None:
        mailbox = self._mailboxes[type_]
        while True:
            await mailbox.pending.wait()
            mailbox.pending.clear()
            self._run_callbacks(type_, mailbox)

    def _run_callbacks(self, type_: StateType, mailbox: _Mailbox) -> None:
        state: Any = {
            StateType.NODE_SLO_SPEC: self.node_slo,
            StateType.ALL_PODS: self.pods,
            StateType.NODE_TOPOLOGY: self.topology,
            StateType.NODE_METADATA: self.node,
        }[type_]()
        if state is None:
            return
        slo = self.node_slo()
        target = CallbackTarget(self.pods(), slo.host_applications if slo is not None else [])
        for name, (_, callback) in mailbox.callbacks.items():
            try:
                callback(type_, state, target)
            except Exception:
                log.exception("callback %s for %s failed", name, type_)

    # --- events ----------------------------------------------------------------------------------

    def _slo_seen(self, slo: NodeSLO) -> None:
        if slo.metadata.name != self.node_name:
            return
        spec = self._without_paths(completed(slo.spec, self._extension_defaults))
        if spec != self._slo:
            self._slo = spec
            self.send_callback(StateType.NODE_SLO_SPEC)

    def _without_paths(self, spec: NodeSLOSpec) -> NodeSLOSpec:
        """Return a spec without host applications whose cgroups would be elsewhere."""
        inside = [each for each in spec.host_applications if is_inside(self.layout.host_application(each))]
        if len(inside) == len(spec.host_applications):
            return spec
        names = [each.name[:80] for each in spec.host_applications if each not in inside]
        log.warning("host applications of NodeSLO are left alone, their paths lead elsewhere: %s", names[:8])
        return msgspec.structs.replace(spec, host_applications=inside)

    def _slo_gone(self, slo: NodeSLO) -> None:
        if slo.metadata.name == self.node_name:
            self._slo = None

    def _pod_changed(self, pod: Pod) -> None:
        self._metas = None
        if pod.spec.node_name == self.node_name:
            self.send_callback(StateType.ALL_PODS)

    def _topology_seen(self, topology: NodeResourceTopology) -> None:
        if topology.metadata.name == self.node_name and self._local_topology is None:
            self.send_callback(StateType.NODE_TOPOLOGY)

    def _node_seen(self, node: Node) -> None:
        if node.metadata.name == self.node_name:
            self.send_callback(StateType.NODE_METADATA)

    def _node_updated(self, old: Node, new: Node) -> None:
        if old.metadata.labels != new.metadata.labels or old.metadata.annotations != new.metadata.annotations:
            self._node_seen(new)


def _precedence(pod: Pod) -> tuple[bool, str, str]:
    """Return the order in which pods get a UID: those whose own it is, then the oldest."""
    meta = pod.metadata
    return kubelet_uid(pod) != meta.uid, meta.creation_timestamp or "", meta.key
