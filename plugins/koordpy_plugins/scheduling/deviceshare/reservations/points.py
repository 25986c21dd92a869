"""The points at which the plugin that owns reservations asks for their devices.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/reservation.go`.
"""

from collections.abc import Sequence
from dataclasses import replace

from koordpy.api.core import Pod
from koordpy.scheduling.interface import ReservationInfo
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.toolkit.restored_nodes import Infos, RememberedNodes, RestoredNodes

from ..allocation.view import returned
from ..state.ledger import DeviceLedger
from ..state.node_devices import NodeDevices
from .restored import (
    RESTORED,
    HeldBy,
    Restored,
    RestoredNode,
    of_pods,
    of_reservations,
    restored_on,
)


class Restoring:
    """Restores the devices of reservations and of pods that are taken over, node by node."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger
        self._remembered = RememberedNodes(
            "devices_of_reservations", ledger.version, self._found, size=RestoredNode.size
        )

    @staticmethod
    def begin(state: CycleState, *, skip: bool, keeps: bool = False) -> None:
        """Begin to restore, or not if the pod requests no devices. `keeps` what was restored before."""
        known = state.read(RESTORED) if keeps else None
        state.write(RESTORED, Restored(skip) if known is None else Restored(skip, known.nodes))

    @staticmethod
    def skips(state: CycleState) -> bool:
        """Return whether nothing is restored."""
        restored = state.read(RESTORED)
        return restored is None or restored.skip

    def all_reservations(
        self, state: CycleState, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> None:
        """Restore what reservations hold on nodes once it is asked for; both pairs have the same nodes."""
        nodes = RestoredNodes.of_pairs(matched, unmatched, self._remembered)
        state.write(RESTORED, Restored(skip=False, nodes=nodes))

    def reservations(
        self,
        state: CycleState,
        node_name: str,
        matched: Infos,
        unmatched: Infos,
    ) -> RestoredNode | None:
        """Restore what reservations of a node hold; None if they hold no devices, as most do."""
        return self._keep(state, node_name, self._found(node_name, matched, unmatched))

    def pods(
        self, state: CycleState, node_name: str, info: ReservationInfo, pods: Sequence[Pod]
    ) -> RestoredNode | None:
        """Restore what running pods hold, for a Reservation that may take them over."""
        devices = self._ledger.node(node_name)
        if devices is None or not pods:
            return None
        known = restored_on(state, node_name)
        matched = [*known.matched, *of_pods(info, pods, _held_by(devices))]
        return self._keep(state, node_name, RestoredNode.of(matched, known.unmatched, info))

    def _found(self, node_name: str, matched: Infos, unmatched: Infos) -> RestoredNode | None:
        devices = self._ledger.node(node_name)
        if devices is None:
            return None
        for_pod, others = (of_reservations(infos, _held_by(devices)) for infos in (matched, unmatched))
        if not (for_pod or others):
            return None
        node = RestoredNode.of(for_pod, others)
        return replace(node, is_plain=not for_pod and not _lends(devices, node))

    @staticmethod
    def _keep(state: CycleState, node_name: str, found: RestoredNode | None) -> RestoredNode | None:
        restored = state.read(RESTORED)
        assert restored is not None
        restored.nodes.keep(node_name, found)
        return found


def _held_by(devices: NodeDevices) -> HeldBy:
    return lambda namespace, name: devices.of_pod(f"{namespace}/{name}")


def _lends(devices: NodeDevices, found: RestoredNode) -> bool:
    """Return whether any device has more free than allocations say, because owners count twice."""
    return any(returned(devices.amounts(type_), minors) for type_, minors in found.unmatched_used.items())
