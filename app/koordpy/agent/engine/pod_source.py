"""Where the agent knows the pods of its node from: the API server, or kubelet."""

from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.interface.flags import FlagError, FlagSet
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.states.kubelet import Kubelet
from koordpy.agent.states.kubelet_pods import APISERVER, KUBELET, SOURCE_FLAG, KubeletPods
from koordpy.agent.states.pod_lifecycle import PodDirectories
from koordpy.lib.clock import Clock


def is_kubelet(flags: FlagSet) -> bool:
    """Return whether pods come from kubelet. Raises FlagError for an unknown source."""
    source = flags.text(SOURCE_FLAG)
    if source not in (APISERVER, KUBELET):
        raise FlagError(f"flag {SOURCE_FLAG}: got {source!r}, expected {APISERVER} or {KUBELET}")
    return source == KUBELET


def kubelet_pods(
    kubelet: Kubelet, states: StatesInformer, files: CgroupFiles, flags: FlagSet, clock: Clock
) -> KubeletPods:
    """Return the service that asks kubelet, and notices new pods by their cgroups."""
    layout = states.layout
    directories = [
        files.path("cpu.stat", layout.qos(kube_qos)).parent
        for kube_qos in ("Guaranteed", "Burstable", "BestEffort")
    ]
    return KubeletPods(kubelet, states, PodDirectories(directories, is_pod_directory), flags, clock)


def is_pod_directory(name: str) -> bool:
    """Return whether the name of a cgroup is that of a pod, of either cgroup driver."""
    return name.startswith("pod") or "-pod" in name
