"""What is nominated for a pod, and the reservation that a pod uses."""

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle


def nominated_uid(handle: Handle, state: CycleState, pod: Pod, node_name: str) -> str | None:
    """Return the UID of the reservation nominated for a pod, or of the pod that a Reservation takes over."""
    if is_reserve_pod(pod):
        taken_over = handle.reservations.taken_over(state, node_name)
        return taken_over[0].metadata.uid if taken_over else None
    info = handle.reservations.nominated(pod, node_name, state)
    return None if info is None else info.uid
