"""Which devices of a node a pod gets, of all types that it requests.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_allocator.go`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from koordpy.api.device_allocations import DeviceAllocation, DeviceAllocations
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..scoring import Scorer
from ..state.node_devices import NodeDevices
from . import default, gpu, reasons
from .counting import Wanted, wanted_on
from .default import Chosen, Selection
from .requests import GPU, SAME_PCIE, DeviceHint, JointAllocation, Requests
from .view import DeviceAmountsByType, View, view_of

MinorsByType = Mapping[str, Collection[int]]

_NO_HINT = DeviceHint()


def allocate(
    devices: NodeDevices,
    node_labels: Mapping[str, str],
    requests: Requests,
    *,
    required: MinorsByType | None = None,
    preferred: MinorsByType | None = None,
    required_resources: DeviceAmountsByType | None = None,
    preemptible: DeviceAmountsByType | None = None,
    numa_mask: int | None = None,
    scorer: Scorer | None = None,
    reserving: bool = False,
) -> tuple[DeviceAllocations, Status]:
    """Return the devices by type, or why the node cannot give them. Changes nothing.

    `required` minors alone are considered by the default selection (not by that of places and partitions);
    it takes `preferred` ones first. `required_resources` and `preemptible` are those of `view_of`.
    `reserving` says that the allocation is final. A scorer decides between devices that can all give the
    request.
    """
    wanted, status = wanted_on(devices, requests, reserving=reserving)
    if not status.is_success:
        return {}, status
    view = view_of(
        devices,
        requests,
        wanted,
        required=required_resources,
        preemptible=preemptible,
        numa_mask=numa_mask,
    )
    allocator = _Allocator(view, requests, wanted, node_labels, scorer, required or {}, preferred or {})
    return allocator.allocate()


def score(
    devices: NodeDevices,
    requests: Requests,
    scorer: Scorer,
    *,
    required_resources: DeviceAmountsByType | None = None,
    preemptible: DeviceAmountsByType | None = None,
    numa_mask: int | None = None,
    reserving: bool = False,
) -> tuple[int, Status]:
    """Return the score of a node: the sum over the requested types, not normalised."""
    wanted, status = wanted_on(devices, requests, reserving=reserving)
    if not status.is_success:
        return 0, status
    view = view_of(
        devices,
        requests,
        wanted,
        required=required_resources,
        preemptible=preemptible,
        numa_mask=numa_mask,
    )
    total = 0
    for type_, each in wanted.items():
        of_type = view.of(type_)
        if of_type.total and any(each.exact.values()):
            total += scorer.of_node(each.exact, of_type.total.values(), of_type.free.values())
    return total, SUCCESS


@dataclass(slots=True)
class _Allocator:
    """One call of `allocate`."""

    view: View
    requests: Requests
    wanted: Mapping[str, Wanted]
    node_labels: Mapping[str, str]
    scorer: Scorer | None
    required: MinorsByType
    preferred: MinorsByType
    chosen: dict[str, tuple[DeviceAllocation, ...]] = field(default_factory=dict)

    def allocate(self) -> tuple[DeviceAllocations, Status]:
        joint = self.requests.joint
        status = SUCCESS
        if joint is not None and len(self.wanted) > 1:
            status = self._allocate_jointly(joint)
        for type_, each in self.wanted.items():
            if not status.is_success:
                return {}, status
            if type_ not in self.chosen:
                status = self._choose(type_, each.count, ())
        if not status.is_success:
            return {}, status
        return (self.chosen, SUCCESS) if self.chosen else ({}, reasons.too_few_devices(*self.wanted))

    def _allocate_jointly(self, joint: JointAllocation) -> Status:
        """Choose the primary devices, and the others near them."""
        status = self._choose(joint.primary, self._count(joint.primary), ())
        if not status.is_success:
            return status
        if joint.primary not in self.chosen:
            return reasons.NO_PRIMARY_DEVICE
        places = self._pcies(joint.primary)
        for type_ in joint.types[1:]:
            count = self._count(type_)
            if joint.required_scope == SAME_PCIE:
                count = max(count, len(places))
            status = self._choose(type_, count, places)
            if not status.is_success:
                return status
        if joint.required_scope == SAME_PCIE and any(
            self._pcies(type_) != places for type_ in joint.types[1:]
        ):
            return reasons.NOT_JOINT
        return SUCCESS

    def _count(self, type_: str) -> int:
        wanted = self.wanted.get(type_)
        return 0 if wanted is None else wanted.count

    def _pcies(self, type_: str) -> set[str]:
        """The PCIe switches of the chosen devices of a type."""
        minors = {each.minor for each in self.chosen.get(type_, ())}
        found: dict[int, str] = {}
        for info in self.view.of(type_).infos:
            minor = info.minor or 0
            if minor in minors and info.topology is not None:
                found.setdefault(minor, info.topology.pcie_id)
        return set(found.values())

    def _choose(self, type_: str, count: int, places: Collection[str]) -> Status:
        """Choose devices of one type."""
        wanted = self.wanted.get(type_)
        if wanted is None:
            wanted = Wanted({}, {}, 0)
        hint = self.requests.hints.get(type_, _NO_HINT)
        selection = Selection(
            wanted.request,
            wanted.exact,
            desired=max(count, 1),
            most=max(count, len(places), 1),
            required=self.required.get(type_, ()),
            preferred=self.preferred.get(type_, ()),
            preferred_pcies=() if type_ == GPU else places,
            needs_function=hint.vf_selector is not None,
            function_selector=hint.vf_selector,
            designated=self.requests.designated_functions.get(type_, {}),
        )
        found: Chosen | None
        if type_ == GPU:
            if self.requests.gpu is None:
                return reasons.NO_GPU_REQUIREMENTS
            found, status = gpu.allocate(
                self.view, self.requests.gpu, selection, self.node_labels, self.scorer
            )
            if not status.is_success:
                return status
        else:
            found = default.select(self.view.of(type_), selection, self.scorer)
            if found is None:
                return reasons.too_few_devices(type_)
        if found:
            self.chosen[type_] = found
        return SUCCESS
