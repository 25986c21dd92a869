"""In which order the Kubernetes descheduler evicts the pods of a node: the least important first.

Source: `sigs.k8s.io/descheduler`, `pkg/descheduler/pod` (`SortPodsBasedOnPriorityLowToHigh`), whose less
function calls equal pods less, so that Go's unstable sort reverses short runs of them.
"""

from typing import Final

from koordpy.api.core import Pod
from koordpy.api.qos import KubeQoS, kube_qos_of_containers
from koordpy.lib import go_sort

from .evictability import prefers_no_eviction

_BEST_EFFORT, _BURSTABLE, _GUARANTEED, _UNKNOWN = range(4)
_QOS: Final = {
    KubeQoS.BEST_EFFORT: _BEST_EFFORT,
    KubeQoS.BURSTABLE: _BURSTABLE,
    KubeQoS.GUARANTEED: _GUARANTEED,
}

_Entry = tuple[tuple[bool, int], int, bool, Pod]
"""Priority (none first), QoS class, whether the pod prefers not to be evicted, the pod."""


def sort_by_priority(pods: list[Pod]) -> list[Pod]:
    """Return the pods by priority, QoS class and preference against eviction, lowest first."""
    entries: list[_Entry] = [
        (
            (pod.spec.priority is not None, pod.spec.priority or 0),
            _QOS.get(kube_qos_of_containers(pod), _UNKNOWN),
            prefers_no_eviction(pod),
            pod,
        )
        for pod in pods
    ]
    go_sort.sort(entries, _less)
    return [entry[3] for entry in entries]


def _less(first: _Entry, second: _Entry) -> bool:
    """Not a strict order: of two pods that are equal in everything, each is less than the other."""
    if first[0] != second[0]:
        return first[0] < second[0]
    if first[1] != second[1]:
        return first[1] == _BEST_EFFORT or (first[1] == _BURSTABLE and second[1] == _GUARANTEED)
    if first[1] == _UNKNOWN:
        return False
    return not first[2] or second[2]
