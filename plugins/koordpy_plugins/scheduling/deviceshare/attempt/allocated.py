"""What an attempt has allocated, from ResizePod or Reserve until the pod is bound."""

from dataclasses import dataclass

from koordpy.api.device_allocations import DeviceAllocations
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey


@dataclass(slots=True)
class Allocated:
    """Devices of a node. `reserved` means that the ledger has them; `remark` says who chose them."""

    node_name: str
    devices: DeviceAllocations
    reserved: bool = False
    remark: str = ""


_ALLOCATED: StateKey[dict[str, Allocated]] = StateKey("koordpy.dev/allocated-devices")
"""By UID: pods that are placed one after the other may share what else is in their states."""


def allocated_to(state: CycleState, uid: str, node_name: str) -> Allocated | None:
    """Return what a pod was allocated on a node."""
    found = _known(state).get(uid)
    return found if found is not None and found.node_name == node_name else None


def set_allocated(state: CycleState, uid: str, allocated: Allocated) -> None:
    """Keep what a pod is allocated."""
    state.write(_ALLOCATED, {**_known(state), uid: allocated})


def forget_allocated(state: CycleState, uid: str) -> None:
    """Forget what a pod was allocated."""
    state.write(_ALLOCATED, {other: each for other, each in _known(state).items() if other != uid})


def _known(state: CycleState) -> dict[str, Allocated]:
    return state.read(_ALLOCATED) or {}
