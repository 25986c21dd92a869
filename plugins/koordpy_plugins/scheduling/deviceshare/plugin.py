"""DeviceShare: pods are given GPUs and parts of them, network cards and FPGAs, each by its number.

Devices report what a node has; the annotations of pods say what is allocated. Filter tries whether a node
could give all that a pod asks, Reserve allocates, PreBind writes it down. Pods can have devices of the same
NUMA nodes as their CPUs, of one PCIe switch, of a partition of connected GPUs, and those that a reservation
holds for them.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Needs
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.feature_gates import FeatureSpec, Stage
from koordpy.scheduling.interface import (
    APIService,
    Binding,
    ChangeHelps,
    EnqueueExtensions,
    Filter,
    NUMAHintGroups,
    NUMATopologyHint,
    NUMATopologyHintProvider,
    Plugin,
    PreBind,
    PreFilter,
    PreScore,
    ReservationFilter,
    ReservationInfo,
    ReservationPairs,
    ReservationPreAllocationRestore,
    ReservationPreBind,
    ReservationRestore,
    ReservationScore,
    Reserve,
    ResizePod,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import PASS, SUCCESS, Status, Verdict
from koordpy.scheduling.toolkit.normalize import default_normalize
from koordpy.scheduling.toolkit.reservation_normalize import normalize_of_nodes

from . import preemption, waking
from .args import DeviceShareArgs
from .attempt import hints
from .attempt.all_nodes import AllNodes
from .attempt.gpu_choice import GPUChoices
from .attempt.placing import DevicePlacing
from .attempt.preparation import Preparation
from .attempt.prepared import PREPARED
from .commit import DeviceCommit
from .requests.device_requests import has_device_requests
from .reservations.points import Restoring
from .reservations.restored import RESTORED
from .rights import ADAPTION_GATE, RIGHTS
from .scoring import make_scorer, scored
from .service import DeviceService
from .state.columns import DeviceColumns
from .state.free_gpus import FreeGPUs
from .state.ledger import DeviceLedger
from .templates import GPUSharedResourceTemplates

_SIGNED: Final = (
    extension.ANNOTATION_DEVICE_ALLOCATE_HINT,
    extension.ANNOTATION_DEVICE_JOINT_ALLOCATE,
    extension.ANNOTATION_GPU_PARTITION_SPEC,
)


class DeviceShare(
    Plugin,
    PreFilter,
    Filter,
    PreScore,
    Score,
    Reserve,
    ResizePod,
    PreBind,
    NUMATopologyHintProvider,
    ReservationRestore,
    ReservationPreAllocationRestore,
    ReservationFilter,
    ReservationScore,
    ReservationPreBind,
    SignPlugin,
    EnqueueExtensions,
    APIService,
):
    """Allocates devices."""

    name = "DeviceShare"
    needs = Needs(
        rights=RIGHTS,
        elsewhere=("an agent on every node with devices that reports Devices (koordlet)",),
    )
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {ADAPTION_GATE: FeatureSpec(False, Stage.ALPHA)}
    args: DeviceShareArgs
    node_local = True
    known_reasons = waking.REASONS

    def __init__(self, args: DeviceShareArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        cluster = handle.cluster
        self.ledger = cluster.shared(DeviceLedger)
        unsupported: dict[str, set[str]] = {}
        for each in args.gpu_share_unsupported_models:
            unsupported.setdefault(each.vendor, set()).add(each.model)
        scorer = make_scorer(args.scoring_strategy)
        columns = cluster.shared(DeviceColumns)
        self._placing = DevicePlacing(
            handle,
            self.ledger,
            scorer,
            unsupported=unsupported,
            aligns=not args.disable_device_numa_topology_alignment,
        )
        self._all_nodes = AllNodes(handle, columns, self.ledger, scorer, self._placing)
        config = args.gpu_shared_resource_templates_config
        templates = cluster.shared(
            GPUSharedResourceTemplates, config.config_map_namespace, config.config_map_name
        )
        self._preparation = Preparation(handle, self.name, templates, config.matched_resources)
        self._restoring = Restoring(self.ledger)
        self._choices = GPUChoices(handle, cluster.shared(FreeGPUs))
        self._commit = DeviceCommit(handle, self.ledger, self._placing, self._choices)
        self._service = DeviceService(self.ledger)
        handle.on_forget(self._commit.forget)

    def _node(self, node_name: str) -> Node:
        """Return a node by its name. Raises LookupError if it is gone."""
        row = self.handle.nodes.row_of(node_name)
        node = None if row is None else self.handle.nodes.node(row)
        if node is None:
            raise LookupError(f"node {node_name} is gone")
        return node

    # --- filter ----------------------------------------------------------------------------------

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Sign what a pod says of devices; one with a recorded allocation is evaluated alone."""
        if not has_device_requests(pod):
            return ()
        annotations, labels = pod.metadata.annotations, pod.metadata.labels
        if extension.ANNOTATION_DEVICE_ALLOCATED in annotations:
            return None
        return (
            *(annotations.get(name) for name in _SIGNED),
            labels.get(extension.LABEL_GPU_ISOLATION_PROVIDER),
            labels.get(extension.LABEL_PRE_ALLOCATION_REQUIRED),
        )

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Read what the pod asks, and show what GPUs have left; skip a pod that requests no devices."""
        prepared, status = self._preparation.prepare(state, pod)
        self._choices.show(state, pod, prepared)
        if prepared is None:
            state.delete(PREPARED)
            return None, status
        state.write(PREPARED, prepared)
        return None, SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Take again what a pod holds, in a what-if."""
        return self._move(state, added, node.name, removed=False)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Free what a pod holds, in a what-if."""
        return self._move(state, removed, node.name, removed=True)

    def _move(self, state: CycleState, moved: Pod, node_name: str, *, removed: bool) -> Status:
        prepared, devices = state.read(PREPARED), self.ledger.node(node_name)
        held = None if devices is None else devices.of_pod(moved.metadata.key)
        if prepared is None or devices is None or not held:
            return SUCCESS
        reservations = self.handle.reservations
        info = reservations.used_by(moved, node_name) or reservations.nominated(moved, node_name)
        if info is not None and not devices.of_pod(info.pod.metadata.key):
            info = None
        preemption.move(prepared, node_name, held, info, removed=removed)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Refuse a node that cannot give the devices."""
        prepared = state.read(PREPARED)
        return SUCCESS if prepared is None else self._placing.filter(state, prepared, pod, node.node)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Do the same for all nodes, by arrays where that is possible."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return PASS
        return self._all_nodes.filter(state, prepared, pod, nodes, lambda node: self.filter(state, pod, node))

    # --- NUMA nodes ------------------------------------------------------------------------------

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        """Return the NUMA nodes that can give the devices."""
        prepared = state.read(PREPARED)
        if prepared is None or not self._placing.aligns:
            return {}, SUCCESS
        known = self._all_nodes.hints_of_one(state, prepared, node)
        return known or hints.of_node(self._placing.attempt(state, prepared, pod, node.node), prepared)

    def numa_hint_groups(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NUMAHintGroups | None:
        """Return the same for nodes with the same devices."""
        prepared = state.read(PREPARED)
        if prepared is None or not self._placing.aligns:
            return None
        return self._all_nodes.hints(state, prepared, pod, nodes)

    def has_numa_hints(self, state: CycleState, pod: Pod) -> bool:
        """Return whether the pod requests devices, and these are aligned to NUMA nodes."""
        return state.read(PREPARED) is not None and self._placing.aligns

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        """Check that NUMA nodes can give the devices."""
        prepared = state.read(PREPARED)
        if prepared is None or not self._placing.aligns:
            return SUCCESS
        return self._placing.check(state, prepared, pod, node.node, affinity.affinity)

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Skip a pod that requests no devices."""
        return Status.skip() if state.read(PREPARED) is None else SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return how much is used of the node's devices, or left. Raises ScoreError."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return 0
        return scored(*self._placing.score(state, prepared, pod, node.node))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Do the same for all nodes, by arrays where that is possible. Raises ScoreError."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return np.zeros(len(nodes), np.int64)
        return self._all_nodes.score(state, prepared, pod, nodes, lambda node: self.score(state, pod, node))

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Scale the highest score to 100."""
        return default_normalize(scores)

    # --- reservations ----------------------------------------------------------------------------

    def pre_restore_reservation(self, state: CycleState, pod: Pod) -> Status:
        """Restore nothing for a pod that requests no devices."""
        requested, status = self._preparation.requests_devices(pod)
        if status.is_success:
            self._restoring.begin(state, skip=not requested)
        return status

    def restore_reservation(
        self,
        state: CycleState,
        pod: Pod,
        matched: Sequence[ReservationInfo],
        unmatched: Sequence[ReservationInfo],
        node: NodeInfo,
    ) -> tuple[object, Status]:
        """Find what the reservations of a node hold."""
        return self._restoring.reservations(state, node.name, matched, unmatched), SUCCESS

    def restore_reservations(
        self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> tuple[Mapping[str, object], Status]:
        """Do the same for all nodes; for most pods nothing."""
        if not self._restoring.skips(state):
            self._restoring.all_reservations(state, matched, unmatched)
        return {}, SUCCESS

    def final_restore_reservation(self, state: CycleState, pod: Pod, states: Mapping[str, object]) -> Status:
        """Everything is kept already."""
        return SUCCESS

    def pre_restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo
    ) -> Status:
        """Restore nothing for a Reservation without devices."""
        requested, status = self._preparation.requests_devices(reservation.pod)
        if status.is_success:
            self._restoring.begin(state, skip=not requested, keeps=True)
        return status

    def restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pods: Sequence[Pod], node: NodeInfo
    ) -> tuple[object, Status]:
        """Find what running pods hold."""
        if self._restoring.skips(state):
            return None, SUCCESS
        return self._restoring.pods(state, node.name, reservation, pods), SUCCESS

    def filter_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Refuse none: Filter tries them all."""
        return PASS

    def filter_nominate_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        """Refuse a reservation that cannot give the devices itself."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return SUCCESS
        return self._placing.filter_nominated(state, prepared, pod, reservation, self._node(node_name))

    def filter_nominate_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Do the same for all pairs; refuse none to a pod that requests no devices."""
        prepared = state.read(PREPARED)
        if prepared is None or not len(pairs):
            return PASS
        ask = self.filter_nominate_reservation
        return Verdict.of(self._all_nodes.of_pairs(state, prepared, "FilterNominate", pairs, ask))

    def score_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> int:
        """Return the score of the node's devices with one reservation. Raises ScoreError."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return 0
        node = self._node(node_name)
        return scored(*self._placing.score_reservation(state, prepared, pod, reservation, node))

    def score_reservations(self, state: CycleState, pairs: ReservationPairs) -> Int64:
        """Do the same for all pairs. Raises ScoreError."""
        prepared = state.read(PREPARED)
        if prepared is None or not len(pairs):
            return np.zeros(len(pairs), np.int64)
        scores = self._all_nodes.of_pairs(state, prepared, "ScoreReservation", pairs, self.score_reservation)
        return np.array(scores, np.int64)

    def normalize_reservations_of_nodes(
        self, state: CycleState, pod: Pod, scores: Int64, first: Int64
    ) -> Int64:
        """Scale the highest score of each node to 100."""
        return normalize_of_nodes(scores, first)

    # --- commit ----------------------------------------------------------------------------------

    def resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        """Let a Reservation request what it is allocated."""
        prepared = state.read(PREPARED)
        if prepared is None or not is_reserve_pod(pod):
            return pod, SUCCESS
        return self._commit.resize(state, prepared, pod, self._node(node_name))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Allocate, from what is free now."""
        prepared = state.read(PREPARED)
        status = SUCCESS
        if prepared is not None:
            status = self._commit.reserve(state, prepared, pod, self._node(node_name))
        state.delete(RESTORED)
        return status

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Free what was allocated."""
        self._commit.unreserve(state, pod, node_name)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Write down what was allocated."""
        return await self._commit.write(state, pod, pod.metadata, node_name, binding)

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        """Write down what was allocated to a Reservation."""
        pod, meta = reservation.pod, reservation.meta
        status = await self._commit.write(state, pod, meta, node_name, binding)
        return (
            self._commit.write_resize(state, pod, meta, node_name, binding) if status.is_success else status
        )

    # --- outside the cycle -----------------------------------------------------------------------

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """Devices that change, and pods with devices that end."""
        return waking.EVENTS

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """The devices of nodes."""
        return self._service.endpoints()
