"""What would change if pods were removed from a node, or added to it.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/preempt.go`.
"""

from koordpy.api.core import Pod
from koordpy.scheduling.interface.handle import Handle

from .attempt.pod_state import PodState
from .attempt.preemptible import NodePreemptible, Preemptible
from .state.ledger import CPULedger


def move(
    state: PodState, pod: Pod, node_name: str, handle: Handle, ledger: CPULedger, *, removed: bool
) -> None:
    """Count a pod as removed from, or added to, its node or the reservation that it uses."""
    held = ledger.node(node_name)
    own = None if held is None else held.get(pod.metadata.uid)
    if held is None or own is None or not (own.cpus or own.numa_resources):
        return
    on_node = state.preemptible.setdefault(node_name, NodePreemptible())
    info = handle.reservations.used_by(pod, node_name) or handle.reservations.nominated(pod, node_name)
    of_reservation = None if info is None else held.get(info.pod.metadata.uid)
    if info is None or of_reservation is None:
        part = on_node.node = on_node.node or Preemptible()
    else:
        part = on_node.reservations.setdefault(info.uid, Preemptible())
    (part.remove_pod if removed else part.add_pod)(own.cpus, own.numa_resources)
