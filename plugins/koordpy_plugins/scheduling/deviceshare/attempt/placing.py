"""Whether a node can give a pod its devices, how well, and which: the rules of Filter, Score and Reserve.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/plugin.go`, `scoring.go`.
"""

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Final

from koordpy.api.core import Node, Pod
from koordpy.api.device_allocations import DeviceAllocations
from koordpy.api.extension import LABEL_GPU_ISOLATION_PROVIDER
from koordpy.api.reservation_annotations import is_ignored_by
from koordpy.api.reserve_pod import is_pre_allocation, is_reserve_pod
from koordpy.scheduling.interface import ReservationInfo
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager.manager import affinity_of

from ..allocation.gpu_memory import complete
from ..amounts import total
from ..reservations.restored import Reusable, restored_on
from ..scoring import Scorer
from ..state.columns import SharingLabels, sharing_labels
from ..state.ledger import DeviceLedger
from .node_attempt import NOTHING, NodeAttempt
from .prepared import Prepared
from .reusable import allocate_within_filter, ignoring_reservations, score_with, try_reusable

NO_ISOLATION_PROVIDER: Final = "GPUIsolationProviderHAMICore not found on the node"


class DevicePlacing:
    """The rules for one node, with the arguments of a profile.

    `unsupported` has the models of GPUs that are not shared, by vendor. With `aligns`, devices come from the
    NUMA nodes that were chosen for the pod.
    """

    def __init__(
        self,
        handle: Handle,
        ledger: DeviceLedger,
        scorer: Scorer,
        *,
        unsupported: Mapping[str, Set[str]],
        aligns: bool,
    ) -> None:
        self._handle, self._ledger, self._scorer = handle, ledger, scorer
        self._unsupported, self.aligns = unsupported, aligns

    def attempt(
        self,
        state: CycleState,
        prepared: Prepared,
        pod: Pod,
        node: Node,
        *,
        scored: bool = False,
        aligned: bool = False,
    ) -> NodeAttempt | None:
        """Return a node as an attempt sees it, None if no devices of it are known: kubelet has them all.

        `aligned` limits it to the NUMA nodes that were chosen.
        """
        node_name = node.metadata.name
        devices = self._ledger.node(node_name)
        if devices is None:
            return None
        affinity = affinity_of(state, node_name) if aligned else None
        return NodeAttempt(
            prepared,
            restored_on(state, node_name),
            devices,
            node,
            pod,
            numa_mask=None if affinity is None else affinity.affinity,
            scorer=self._scorer if scored else None,
        )

    # --- filter ----------------------------------------------------------------------------------

    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, node: Node) -> Status:
        """Return whether the node can give the devices."""
        refusal = self.refuses_shares(prepared, pod, node)
        if refusal is not None:
            return refusal
        if affinity_of(state, node.metadata.name) is not None:
            return SUCCESS  # the devices were found when these NUMA nodes were chosen
        return self.check(state, prepared, pod, node)

    def refuses_shares(self, prepared: Prepared, pod: Pod, node: Node) -> Status | None:
        """Return why a node shares no GPUs with the pod.

        Koordinator's Filter answers with an Error where the provider of the pod's isolation is not on the
        node, which ends the attempt for all nodes. Here such a node is refused, and others are tried.
        """
        if not self.labels_decide(prepared, pod):
            return None
        return self.refuses_labels(pod, sharing_labels(node.metadata.labels))

    def labels_decide(self, prepared: Prepared, pod: Pod) -> bool:
        """Return whether nodes may refuse the pod by their labels."""
        gpu = prepared.requests.gpu
        is_share = gpu is not None and gpu.shared
        return is_share and (
            bool(self._unsupported) or bool(pod.metadata.labels.get(LABEL_GPU_ISOLATION_PROVIDER))
        )

    def refuses_labels(self, pod: Pod, labels: SharingLabels) -> Status | None:
        """Return why a node with these labels shares no GPUs with the pod."""
        provider = pod.metadata.labels.get(LABEL_GPU_ISOLATION_PROVIDER, "")
        if provider and provider != labels.provider:
            return Status.unresolvable(NO_ISOLATION_PROVIDER)
        if labels.model in self._unsupported.get(labels.vendor, ()):
            return Status.unresolvable(
                f'model "{labels.model}" of vendor "{labels.vendor}" does not support GPU Share'
            )
        return None

    def check(
        self,
        state: CycleState,
        prepared: Prepared,
        pod: Pod,
        node: Node,
        numa_mask: int | None = None,
    ) -> Status:
        """Return whether an allocation is possible, of some NUMA nodes alone if they are given.

        A recorded allocation is checked as it is made: at Reserve with all secondary devices.
        """
        if prepared.designated is not None:
            reserving = state.read(SCHEDULING_PHASE) == "Reserve"
            _, status = self.allocate(state, prepared, pod, node, reserving=reserving)
            return status
        attempt = self.attempt(state, prepared, pod, node)
        if attempt is None:
            return SUCCESS
        if numa_mask is not None:
            attempt = attempt.within(numa_mask)
        return allocate_within_filter(attempt, required=prepared.reservation_required)[1]

    def filter_nominated(
        self, state: CycleState, prepared: Prepared, pod: Pod, reservation: ReservationInfo, node: Node
    ) -> Status:
        """Return whether one reservation can give the devices, or one pod to the Reservation."""
        attempt = self.attempt(state, prepared, pod, node, aligned=self.aligns)
        if attempt is None:
            return SUCCESS
        restored = attempt.restored
        if restored.pre_allocation is not None:
            items = [each for each in restored.matched if _is_of_pod(each, pod.metadata.uid)]
            pod = reservation.pod
        else:
            items = [each for each in restored.matched if each.reservation.uid == reservation.uid]
        return try_reusable(attempt, pod, items[:1], attempt.base, required=True)[1]

    # --- score -----------------------------------------------------------------------------------

    def score(self, state: CycleState, prepared: Prepared, pod: Pod, node: Node) -> tuple[int, Status]:
        """Return the score of a node, with its nominated reservation if there is one."""
        attempt = self.attempt(state, prepared, pod, node, scored=True, aligned=True)
        if attempt is None:
            return 0, SUCCESS
        nominated = self._handle.reservations.nominated(pod, node.metadata.name, state)
        if nominated is not None:
            score, status = self._score_reservation(attempt, pod, nominated)
            if status.is_success:
                return score, status
        return attempt.score(total(attempt.base, attempt.restored.matched_allocatable))

    def score_reservation(
        self, state: CycleState, prepared: Prepared, pod: Pod, reservation: ReservationInfo, node: Node
    ) -> tuple[int, Status]:
        """Return the score of the devices of a node with one of its reservations."""
        attempt = self.attempt(state, prepared, pod, node, scored=True, aligned=True)
        if attempt is None:
            return 0, SUCCESS
        return self._score_reservation(attempt, pod, reservation)

    @staticmethod
    def _score_reservation(
        attempt: NodeAttempt, pod: Pod, reservation: ReservationInfo
    ) -> tuple[int, Status]:
        if is_reserve_pod(pod):
            return 0, SUCCESS
        for item in attempt.restored.matched:
            if item.reservation.uid == reservation.uid:
                return score_with(attempt, item)
        return 0, SUCCESS

    # --- allocate --------------------------------------------------------------------------------

    def allocate(
        self,
        state: CycleState,
        prepared: Prepared,
        pod: Pod,
        node: Node,
        *,
        reserving: bool,
        gpu: int | None = None,
    ) -> tuple[DeviceAllocations | None, Status]:
        """Return the devices that the pod gets, None if no devices of the node are known.

        Nothing is taken yet. The GPU is the given one, if that can give the request.
        """
        attempt = self.attempt(state, prepared, pod, node, scored=True, aligned=self.aligns)
        if attempt is None:
            return None, SUCCESS
        attempt = replace(attempt, reserving=reserving)
        found, status = self._with_nominated(state, attempt, pod)
        if not status.is_success:
            return None, status
        try:
            if not found:
                found, status = self._from_node(attempt, gpu)
                if not status.is_success:
                    return None, status
            return complete(found, attempt.devices), SUCCESS
        except ValueError as error:
            return None, Status.failed(f"fillGPUTotalMem failed: {error}, node: {node.metadata.name}")

    def _from_node(self, attempt: NodeAttempt, gpu: int | None) -> tuple[DeviceAllocations, Status]:
        """Allocate from what the node has besides reservations; a recorded allocation must be available."""
        free = total(attempt.base, attempt.restored.matched_allocatable)
        designated = attempt.prepared.designated
        if not designated:
            if gpu is not None:
                found, status = attempt.allocate(free, cap=attempt.only_gpu(gpu))
                if status.is_success:
                    return found, status
            return attempt.allocate(free)
        recorded = complete(designated, attempt.devices)
        cap = {type_: {each.minor: each.resources for each in of_type} for type_, of_type in recorded.items()}
        return attempt.allocate(free, cap=cap)

    def _with_nominated(
        self, state: CycleState, attempt: NodeAttempt, pod: Pod
    ) -> tuple[DeviceAllocations, Status]:
        """Allocate with the nominated reservation, or from the pod that the Reservation takes over."""
        reserve_pod = is_reserve_pod(pod)
        if reserve_pod and not is_pre_allocation(pod):
            return NOTHING, SUCCESS
        if is_ignored_by(pod):
            return ignoring_reservations(attempt, attempt.base)
        items = self._taken_over(state, attempt) if reserve_pod else self._nominated(state, attempt, pod)
        return try_reusable(attempt, pod, items, attempt.base, required=False)

    def _nominated(self, state: CycleState, attempt: NodeAttempt, pod: Pod) -> list[Reusable]:
        info = self._handle.reservations.nominated(pod, attempt.node.metadata.name, state)
        if info is None:
            return []
        return [each for each in attempt.restored.matched if each.reservation.uid == info.uid][:1]

    def _taken_over(self, state: CycleState, attempt: NodeAttempt) -> list[Reusable]:
        if attempt.restored.pre_allocation is None:
            return []
        for pod in self._handle.reservations.taken_over(state, attempt.node.metadata.name):
            found = [each for each in attempt.restored.matched if _is_of_pod(each, pod.metadata.uid)]
            if found:
                return found[:1]
        return []


def _is_of_pod(item: Reusable, uid: str) -> bool:
    return item.taken_over is not None and item.taken_over.metadata.uid == uid
