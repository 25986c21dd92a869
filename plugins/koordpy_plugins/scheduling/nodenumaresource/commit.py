"""Allocates a pod's CPUs and NUMA resources, and writes them to its annotations.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/plugin.go` (`Reserve`, `allocate`, `Unreserve`,
`preBindObject`).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from koordpy.api import extension, resource_spec
from koordpy.api.core import Pod
from koordpy.api.reservation_annotations import is_ignored_by
from koordpy.api.resource_status import NUMANodeResource, ResourceStatus
from koordpy.lib import cpuset
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager.manager import affinity_of
from koordpy.scheduling.toolkit.topology_manager.policy import NUMATopologyPolicy

from .admission import Admission
from .allocation.allocate import Allocated, allocate_from_node
from .attempt.pod_state import PodState
from .cases import Case
from .cpus.accumulator import NOT_ENOUGH
from .nominated import nominated_uid
from .reservations.allocate import allocate_nominated
from .reservations.reusable import reusable_on
from .state.ledger import CPULedger
from .state.pod_allocation import PodAllocation
from .topology.cpu_topology import INVALID_TOPOLOGY

_NO_CPUS: Final[frozenset[int]] = frozenset()
_NOTHING: Final = ResourceStatus().text()


class Commit:
    """Reserve and what follows."""

    def __init__(self, handle: Handle, ledger: CPULedger, admission: Admission) -> None:
        self._handle, self._ledger, self._admission = handle, ledger, admission

    def reserve(self, state: CycleState, case: Case, node: NodeInfo) -> Status:
        """Allocate from what is free now, whatever filters have seen, and count it."""
        case.state.allocation = None
        status = SUCCESS
        if case.state.designated is None:
            status = self._admission.admit_reserved(state, case, node)
        if not status.is_success:
            return status
        found, _ = self._designated(state, case)
        if found is None:
            found, status = self.allocate(state, case)
        if found is None:
            return status
        if not self._is_free(state, case, found):
            return Status.unschedulable(NOT_ENOUGH)
        self._ledger.reserve(node.name, found)
        case.state.allocation = found
        return SUCCESS

    def filter_designated(self, state: CycleState, case: Case) -> Status:
        """Return whether a pod can get its designated allocation.

        Of which matched reservation it may take CPUs is nominated later, so it may of all of them here.
        """
        lent = reusable_on(state, case.node.metadata.name).matched_remained_cpus
        return self.allocate(state, case, lent)[1]

    def allocate(self, state: CycleState, case: Case, lent: frozenset[int] = _NO_CPUS) -> Allocated:
        """Return what a pod gets, None if it needs nothing or the status says why it gets nothing.

        CPUs in `lent` may be designated ones though a reservation holds them.
        """
        bind, status = case.binds()
        if not status.is_success or (not bind and case.numa == NUMATopologyPolicy.NONE):
            return None, status
        if bind and not case.options.is_valid:
            return None, Status.failed(INVALID_TOPOLOGY)
        name = case.node.metadata.name
        try:
            request = case.request(bind=bind, affinity=affinity_of(state, name))
        except ValueError as error:
            return None, Status.failed(error)
        reusable = reusable_on(state, name)
        nominated = nominated_uid(self._handle, state, case.pod, name)
        found, status = allocate_nominated(request, reusable, nominated)
        if status.is_success and found is None:
            found, status = allocate_from_node(request, reusable.owners_use, designated_with=lent)
        return found, status

    def _designated(self, state: CycleState, case: Case) -> Allocated:
        """Return the designated allocation of a pod for which a reservation was nominated since the filters.

        Koordinator keeps what its filter has found, before the reservation is known. Here it is kept while
        the CPUs are free or the nominated reservation's; otherwise the pod gets what the reservation offers.
        """
        bind, status = case.binds()
        if case.state.designated is None or is_ignored_by(case.pod) or not status.is_success:
            return None, status
        name = case.node.metadata.name
        item = reusable_on(state, name).matched.get(nominated_uid(self._handle, state, case.pod, name) or "")
        if item is None:
            return None, status
        try:
            request = case.request(bind=bind, affinity=affinity_of(state, name))
        except ValueError as error:
            return None, Status.failed(error)
        return allocate_from_node(
            request, reusable_on(state, name).owners_use, designated_with=item.remained_cpus
        )

    def _is_free(self, state: CycleState, case: Case, found: PodAllocation) -> bool:
        """Return whether others hold none of the CPUs but reservations, and pods, that the pod may take from.

        What the attempt has restored of these may be out of date.
        """
        if case.held is None:
            return True
        name = case.node.metadata.name
        lent: Counter[int] = Counter()
        for uid in reusable_on(state, name).matched:
            owner = case.held.get(uid)
            if owner is not None:
                lent.update(owner.cpus)
        preemptible = case.state.preemptible.get(name)
        if preemptible is not None:
            parts = (preemptible.node, *preemptible.reservations.values())
            lent.update(cpu for part in parts if part is not None for cpu in part.cpus_to_add)
        allocated, most = case.held.allocated_cpus, case.options.max_ref_count
        return all(cpu not in allocated or allocated[cpu].ref_count - lent[cpu] < most for cpu in found.cpus)

    def unreserve(self, pod_state: PodState, pod: Pod, node_name: str) -> None:
        """Release what Reserve has allocated."""
        allocation = pod_state.allocation
        if allocation is not None and allocation.uid == pod.metadata.uid:
            pod_state.allocation = None
            self._ledger.release(node_name, pod.metadata.uid)

    @staticmethod
    def disclaim(pod: Pod, binding: Binding) -> None:
        """Write that nothing was allocated to a pod whose annotation says otherwise.

        It may be a copy of a pod that ran elsewhere, or ask for CPUs that others have. Koordinator leaves the
        annotation, and counts it.
        """
        if pod.metadata.annotations.get(extension.ANNOTATION_RESOURCE_STATUS, _NOTHING) != _NOTHING:
            binding.annotations[extension.ANNOTATION_RESOURCE_STATUS] = _NOTHING

    def annotate(self, case: Case, annotations: Mapping[str, str], binding: Binding) -> Status:
        """Write what was allocated; `annotations` are those of the pod or Reservation."""
        allocation = case.state.allocation
        if allocation is None:
            return SUCCESS
        bind, status = case.binds()
        if not status.is_success:
            return status
        if bind:
            spec = completed_spec(case, annotations)
            if spec is not None:
                binding.annotations[extension.ANNOTATION_RESOURCE_SPEC] = spec.text()
        binding.annotations[extension.ANNOTATION_RESOURCE_STATUS] = ResourceStatus(
            cpuset.render(allocation.cpus),
            tuple(NUMANodeResource(node, found) for node, found in allocation.numa_resources.items()),
        ).text()
        return SUCCESS


def completed_spec(case: Case, annotations: Mapping[str, str]) -> resource_spec.ResourceSpec | None:
    """Return the resource-spec with the bind policy that was applied, None if it says so already."""
    policy, is_required = case.policies.bind_policy(case.state)
    try:
        before = resource_spec.of(annotations)
    except ValueError:
        before = resource_spec.ResourceSpec()
    required, preferred = before.required_cpu_bind_policy, before.preferred_cpu_bind_policy
    if is_required and required in ("", resource_spec.DEFAULT):
        required = policy
    if preferred == resource_spec.DEFAULT or not (required or preferred):
        preferred = policy
    after = resource_spec.ResourceSpec(required, preferred, before.preferred_cpu_exclusive_policy)
    return None if after == before else after
