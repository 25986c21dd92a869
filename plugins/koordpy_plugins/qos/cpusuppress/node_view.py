"""What rounds need to know of pods, CPUs and the topology: computed when they change, not every round."""

from collections.abc import Sequence

from koordpy.agent.interface import NodeCPUInfo, PodMeta, Processor
from koordpy.agent.toolkit import usage
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeResourceTopology

from . import cpu_selection, pools


class PodView:
    """The pods of the latest round."""

    def __init__(self) -> None:
        self._pods: Sequence[PodMeta] = ()
        self.uids: list[str] = []
        self._latency_sensitive: dict[str, bool] = {}

    def update(self, pods: Sequence[PodMeta]) -> bool:
        """Take the pods of a round; return whether they differ from those of the last one."""
        if pods == self._pods:
            return False
        self._pods = pods
        self.uids = [meta.pod.metadata.uid for meta in pods]
        self._latency_sensitive = {meta.pod.metadata.uid: usage.is_not_best_effort(meta.pod) for meta in pods}
        return True

    def is_not_best_effort(self, pod: Pod) -> bool:
        """Return whether one of the pods is latency sensitive."""
        return self._latency_sensitive[pod.metadata.uid]


class CPUView:
    """The CPUs from which those of best-effort pods are chosen."""

    def __init__(self) -> None:
        self._of: tuple[NodeCPUInfo, NodeResourceTopology, Sequence[PodMeta]] | None = None
        self._lsr: list[Processor] = []
        self._shared: list[Processor] = []
        self._chosen: dict[int, frozenset[int]] = {}
        self.kubelet_policy: str | None = None
        """kubelet's CPU manager policy, "" when unknown, None when the annotation is invalid."""

    def update(self, cpus: NodeCPUInfo, topology: NodeResourceTopology, pods: Sequence[PodMeta]) -> None:
        """Take what a round depends on."""
        if self._of is not None:
            known_cpus, known_topology, known_pods = self._of
            if cpus is known_cpus and topology is known_topology and pods == known_pods:
                return
        self._of = (cpus, topology, pods)
        annotations = topology.metadata.annotations
        excluded = pools.reserved(annotations) | pools.exclusive_system(annotations)
        self._lsr, self._shared = cpu_selection.by_pool(cpus.processors, pools.by_cpu(pods), excluded)
        self._chosen.clear()
        self.kubelet_policy = pools.kubelet_policy(annotations)

    def choose(self, count: int) -> frozenset[int]:
        """Return so many CPUs, taken from those of LSR pods and shared ones in proportion."""
        found = self._chosen.get(count)
        if found is None:
            found = self._chosen[count] = cpu_selection.choose(count, self._lsr, self._shared)
        return found
