"""What a pod asks for, read once an attempt.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/plugin.go` (`PreFilter`, `preFilterState`).
"""

from dataclasses import dataclass, field, replace
from typing import Final

from koordpy.api import reservation_affinity, resource_spec, resource_status
from koordpy.api.core import Pod
from koordpy.api.extension import CPU, LABEL_PRE_ALLOCATION_REQUIRED
from koordpy.api.qos import PriorityClass, QoSClass, priority_class, qos_class_raw
from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.resource_amounts import is_zero
from koordpy.api.resource_list import Quantities
from koordpy.api.resources import pod_requests
from koordpy.lib import cpuset, int64
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..cpus import policies
from ..state.pod_allocation import PodAllocation
from .moments import Moments
from .preemptible import NodePreemptible

NAME: Final = "NodeNUMAResource"
NOT_WHOLE_CPUS: Final = "the requested CPUs must be integer"
TOO_MANY_CPUS: Final = f"the requested CPUs must be at most {int64.MAX // 1000}"


@dataclass(slots=True)
class Designated:
    """The CPUs and amounts by NUMA node that a scheduling hint asks to allocate again."""

    cpus: frozenset[int]
    numa_resources: dict[int, Quantities]


@dataclass(slots=True)
class PodState:
    """What a pod asks for; what was allocated to it in this attempt; what a dry run changes, by node name.

    `num_cpus` are whole CPUs. `bind` is whether the pod itself asks for CPUs of its own: the policies of a
    node may do so too (`node_policies.binds`).
    """

    is_skipped: bool = False
    requests: Quantities = field(default_factory=dict)
    num_cpus: int = 0
    milli_cpu: int = 0
    bind: bool = False
    required_policy: str = ""
    preferred_policy: str = ""
    exclusive_policy: str = ""
    numa_policy: str = ""
    numa_exclusive: str = ""
    requires_reservation: bool = False
    requires_pre_allocation: bool = False
    designated: Designated | None = None
    allocation: PodAllocation | None = None
    preemptible: dict[str, NodePreemptible] = field(default_factory=dict)
    admitted_at: Moments = field(default_factory=Moments)
    """When the NUMA affinities of nodes were found."""

    @property
    def needs_reservation(self) -> bool:
        """Whether the pod can only be placed in a reservation, or by taking over pods."""
        return self.requires_reservation or self.requires_pre_allocation

    def clone(self) -> "PodState":
        """Return a copy for a what-if: without the designated allocation, as in Koordinator."""
        preemptible = {name: each.clone() for name, each in self.preemptible.items()}
        return replace(self, designated=None, preemptible=preemptible)


POD_STATE: Final[StateKey[PodState]] = StateKey(NAME)

_SKIPPED: Final = PodState(is_skipped=True)
_MOST_CPU: Final = Quantity.of_milli(int64.MAX)


def read(state: CycleState) -> tuple[PodState, Status]:
    """Return what PreFilter has read, and an Error if it has not run; check the status first."""
    found = state.read(POD_STATE)
    if found is None:
        return _SKIPPED, Status.failed(f"reading {NAME!r} from the cycle state: not found")
    return found, SUCCESS


def parse(pod: Pod, default_policy: str, *, is_designated: bool) -> tuple[PodState, Status]:
    """Return what a pod asks for, or a skipped state, and why it cannot be scheduled.

    `is_designated` is whether the pod has a scheduling hint to get again what its annotation names. A broken
    annotation is an Error, as in Koordinator, where an unreadable list of CPUs ends the process. CPUs whose
    thousandths do not fit 64 bits are refused; in Koordinator they wrap, possibly to no CPU at all.
    """
    try:
        spec = resource_spec.of(pod.metadata.annotations)
        topology = resource_spec.numa_topology_of(pod.metadata.annotations)
        requests = pod_requests(pod)
    except ValueError as error:
        return _SKIPPED, Status.failed(error)
    if is_zero(requests):
        return PodState(is_skipped=True), Status.skip()
    try:
        affinity = reservation_affinity.affinity_of(pod.metadata.annotations)
        designated = _designated(pod) if is_designated else None
    except ValueError as error:
        return _SKIPPED, Status.unresolvable(str(error))
    cpu = requests.get(CPU, ZERO)
    milli = cpu.milli_value()
    if cpu > _MOST_CPU:
        return _SKIPPED, Status.unresolvable(TOO_MANY_CPUS)
    parsed = PodState(
        requests=requests,
        num_cpus=milli // 1000,
        milli_cpu=milli,
        numa_policy=topology.numa_topology_policy,
        numa_exclusive=topology.single_numa_node_exclusive,
        requires_reservation=affinity is not None,
        requires_pre_allocation=pod.metadata.labels.get(LABEL_PRE_ALLOCATION_REQUIRED) == "true",
        designated=designated,
    )
    return parsed, _read_bind_policies(parsed, spec, default_policy) if may_bind(pod) else SUCCESS


def may_bind(pod: Pod) -> bool:
    """Return whether a pod's QoS and priority let it have CPUs of its own."""
    if qos_class_raw(pod) not in (QoSClass.LSE, QoSClass.LSR):
        return False
    return priority_class(pod) is PriorityClass.PROD


def _read_bind_policies(parsed: PodState, spec: resource_spec.ResourceSpec, default: str) -> Status:
    required = spec.required_cpu_bind_policy
    if required == policies.DEFAULT:
        required = default
    preferred = spec.preferred_cpu_bind_policy
    if preferred in ("", policies.DEFAULT):
        preferred = default
    preferred = required or preferred
    if preferred not in (policies.FULL_PCPUS, policies.SPREAD_BY_PCPUS):
        return SUCCESS
    if parsed.milli_cpu % 1000:
        return Status.unresolvable(NOT_WHOLE_CPUS)
    if parsed.milli_cpu > 0:
        parsed.bind = True
        parsed.required_policy, parsed.preferred_policy = required, preferred
        parsed.exclusive_policy = spec.preferred_cpu_exclusive_policy
    return SUCCESS


def _designated(pod: Pod) -> Designated | None:
    status = resource_status.of(pod.metadata.annotations)
    if not status.cpuset and not status.numa_nodes:
        return None
    return Designated(
        cpuset.parse_koordinator(status.cpuset),
        {each.node: dict(each.resources or {}) for each in status.numa_nodes},
    )
