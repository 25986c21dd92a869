"""The points at which the plugin that owns reservations asks for their devices.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/reservation.go`.
"""

from collections.abc import Iterable, Sequence

from koordpy.api.core import Pod
from koordpy.scheduling.interface import ReservationInfo
from koordpy.scheduling.interface.cycle_state import CycleState

from ..state.ledger import DeviceLedger
from .restored import RESTORED, HeldBy, Restored, RestoredNode, of_pods, of_reservations, restored_on


class Restoring:
    """Restores the devices of reservations and of pods that are taken over, node by node."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger

    @staticmethod
    def begin(state: CycleState, *, skip: bool, keeps: bool = False) -> None:
        """Begin to restore, or not if the pod requests no devices. `keeps` what was restored before."""
        known = state.read(RESTORED) if keeps else None
        state.write(RESTORED, Restored(skip, {} if known is None else known.nodes))

    @staticmethod
    def skips(state: CycleState) -> bool:
        """Return whether nothing is restored."""
        restored = state.read(RESTORED)
        return restored is None or restored.skip

    def reservations(
        self,
        state: CycleState,
        node_name: str,
        matched: Iterable[ReservationInfo],
        unmatched: Iterable[ReservationInfo],
    ) -> RestoredNode | None:
        """Restore what reservations of a node hold; None if they hold no devices, as most do."""
        held_by = self._held_by(node_name)
        if held_by is None:
            return None
        for_pod, others = of_reservations(matched, held_by), of_reservations(unmatched, held_by)
        if not (for_pod or others):
            return None
        return self._keep(state, node_name, RestoredNode.of(for_pod, others))

    def pods(
        self, state: CycleState, node_name: str, info: ReservationInfo, pods: Sequence[Pod]
    ) -> RestoredNode | None:
        """Restore what running pods hold, for a Reservation that may take them over."""
        held_by = self._held_by(node_name)
        if held_by is None or not pods:
            return None
        known = restored_on(state, node_name)
        matched = [*known.matched, *of_pods(info, pods, held_by)]
        return self._keep(state, node_name, RestoredNode.of(matched, known.unmatched, info))

    @staticmethod
    def _keep(state: CycleState, node_name: str, found: RestoredNode) -> RestoredNode:
        restored = state.read(RESTORED)
        assert restored is not None
        restored.nodes[node_name] = found
        return found

    def _held_by(self, node_name: str) -> HeldBy | None:
        devices = self._ledger.node(node_name)
        if devices is None:
            return None
        return lambda namespace, name: devices.of_pod(f"{namespace}/{name}")
