"""Whether a pod gets CPUs and NUMA nodes on a node.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/plugin.go` (`Filter`, `filterAmplifiedCPUs`,
`FilterNominateReservation`).
"""

from typing import Final

from koordpy.api import amplification
from koordpy.api.core import Pod
from koordpy.api.extension import CPU
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager.manager import affinity_of
from koordpy.scheduling.toolkit.topology_manager.policy import NUMATopologyPolicy

from .admission import Admission, try_out
from .attempt.node_policies import POLICY_MISMATCH
from .cases import Case
from .commit import Commit
from .cpus import policies
from .reservations.allocate import allocate_reusable
from .reservations.reusable import reusable_on
from .topology.cpu_topology import INVALID_TOPOLOGY

NOT_ALIGNED: Final = "node(s) requested cpus not multiple cpus per core"
POLICY_CONFLICT: Final = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
INVALID_RATIO: Final = "node(s) invalid CPU amplification ratio"
INSUFFICIENT_CPU: Final = "Insufficient amplified cpu"
OUTSIDE_BEST_HINT: Final = "reservation NUMA scope is incompatible with the best topology hint"


class NodeFilter:
    """Filters nodes one by one."""

    def __init__(self, admission: Admission, commit: Commit) -> None:
        self._admission, self._commit = admission, commit

    def filter(self, state: CycleState, case: Case, node: NodeInfo) -> Status:
        """Return whether a pod can be placed on a node."""
        if case.policies.mismatches(case.state):
            return Status.unresolvable(POLICY_MISMATCH)
        if case.state.designated is not None:
            return self._commit.filter_designated(state, case)
        bind, status = case.binds()
        if not status.is_success:
            return status
        status = filter_amplified(case, node, bind=bind)
        if not status.is_success:
            return status
        if bind:
            required, status = _required_policy(case)
            if not status.is_success:
                return status
            if required and case.numa == NUMATopologyPolicy.NONE:
                return try_out(state, case, bind=bind)
        if case.numa in (NUMATopologyPolicy.NONE, NUMATopologyPolicy.BEST_EFFORT):
            return SUCCESS
        return self._admission.admit_filtered(state, case, node)

    def filter_nominate(
        self, state: CycleState, case: Case, pod: Pod, reservation: ReservationInfo
    ) -> Status:
        """Return whether a pod can have its allocation of one reservation.

        If the Reservation takes over running pods, `pod` is one of these: return whether it can take that one
        over.
        """
        bind, status = case.binds()
        if not status.is_success:
            return status
        if not bind and case.numa == NUMATopologyPolicy.NONE:
            return SUCCESS
        if bind and not case.options.is_valid:
            return Status.unresolvable(INVALID_TOPOLOGY)
        name = case.node.metadata.name
        try:
            request = case.request(bind=bind, affinity=affinity_of(state, name))
        except ValueError as error:
            return Status.unresolvable(str(error))
        reusable = reusable_on(state, name)
        if reusable.pre_allocation is not None:
            item = reusable.matched.get(pod.metadata.uid)
            if item is None:
                return SUCCESS
            return allocate_reusable(request, reusable, {pod.metadata.uid: item}, reservation.pod)[1]
        item = reusable.matched.get(reservation.uid)
        if item is None:
            return SUCCESS
        found, status = allocate_reusable(request, reusable, {reservation.uid: item}, pod)
        if status.is_success and found is None:
            return Status.unschedulable(OUTSIDE_BEST_HINT)
        return status


def _required_policy(case: Case) -> tuple[str, Status]:
    """Return the bind policy that a pod with CPUs of its own must have on the node, empty for none."""
    topology, pod = case.options.cpu_topology, case.state
    if topology is None or not topology.is_valid:
        return "", Status.unresolvable(INVALID_TOPOLOGY)
    required = case.policies.bind or pod.required_policy
    if pod.required_policy and pod.required_policy != required:
        return "", Status.unresolvable(POLICY_CONFLICT)
    cores = max(topology.cpus_per_core, 1)
    if required == policies.FULL_PCPUS and pod.num_cpus % cores:
        return "", Status.unresolvable(NOT_ALIGNED)
    return required, SUCCESS


def filter_amplified(case: Case, node: NodeInfo, *, bind: bool) -> Status:
    """Return whether a node whose cpu is amplified has enough of it.

    CPUs that pods have for themselves count as often as they are amplified.
    """
    wanted = case.state.milli_cpu
    if wanted == 0:
        return SUCCESS
    try:
        ratios = amplification.node_ratios(case.node.metadata.annotations)
    except ValueError:
        return Status.unresolvable(INVALID_RATIO)
    ratio = (ratios or {}).get(CPU, 0.0)
    if ratio <= 1:
        return SUCCESS
    topology = case.options.cpu_topology
    if topology is not None and not topology.is_valid:
        return Status.unresolvable(INVALID_TOPOLOGY)
    if bind:
        wanted = amplification.amplify(wanted, ratio)
    held = 1000 * (0 if case.held is None else case.held.allocated_count())
    requested = node.requested(CPU)
    if requested >= held > 0:
        requested += amplification.amplify(held, ratio) - held
    if wanted > node.allocatable(CPU) - requested:
        return Status.unschedulable(INSUFFICIENT_CPU)
    return SUCCESS
