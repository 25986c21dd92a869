"""The CPUs and NUMA resources that are allocated on every node, shared by all profiles of a process.

What pods and Reservations hold is in their annotations, and counts where their node has a valid CPU topology.
Koordinator loses an allocation whose event comes before the topology of its node is valid; here it counts as
soon as that is so, and again with another topology when that changes. So the order of events is of no
importance, and a restart finds the same. Source: Koordinator,
`pkg/scheduler/plugins/nodenumaresource/{pod_eventhandler,topology_eventhandler,resource_manager}.go`.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import Final

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.reservation import Reservation, validate
from koordpy.api.reserve_pod import DEFAULT_NAMESPACE
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.lib.token_bucket import TokenBucket

from ..topology import options as topology_options
from ..topology.cpu_topology import NO_TOPOLOGY, CPUTopology
from ..topology.options import NO_OPTIONS, TopologyOptions
from .node_allocation import NodeAllocation
from .pod_allocation import PodAllocation, of_annotations

log = logging.getLogger(__name__)

_LOGGED_PER_SECOND: Final = 1.0
_LOGGED_AT_ONCE: Final = 20


class CPULedger(DerivedState):
    """Topology options and allocations by node.

    Derived from NodeResourceTopologies, pods and Reservations, but for allocations of Reserve that no object
    shows yet. The traces that `NodeAllocation` keeps of former allocations are not part of the snapshot: no
    object has them, and they go with the Node.
    """

    one_per_cluster = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        _ = cluster.nodes  # current before the columns that follow from the events below
        self._options: dict[str, TopologyOptions] = {}
        self._allocations: dict[str, NodeAllocation] = {}
        """Also of nodes whose topology is not valid, which are not shown."""
        self._reserved: dict[str, str] = {}
        """The nodes of pods that are reserved and that no object shows there yet, by UID."""
        self._changed: list[Callable[[str], None]] = []
        self._versions: dict[str, int] = {}
        self._changes = count(1)
        self._log_tokens = TokenBucket(_LOGGED_PER_SECOND, _LOGGED_AT_ONCE, cluster.clock)
        self.follow(
            NodeResourceTopology,
            self._set_topology,
            lambda _, new: self._set_topology(new),
            self._lose_topology,
        )
        self.follow(Pod, self._pod_added, self._pod_updated, self._pod_deleted)
        self.follow(
            Reservation, self._reservation_added, self._reservation_updated, self._reservation_deleted
        )
        self.follow(Node, delete=self._lose_node)

    def snapshot(self) -> Snapshot:
        """Return by node its options, what pods have, and the sums that are not 0."""
        return {
            "options": {name: _options_shown(options) for name, options in self._options.items()},
            "nodes": {
                name: _allocation_shown(allocation)
                for name, allocation in self._allocations.items()
                if not allocation.is_empty
            },
        }

    def unconfirmed(self) -> Collection[str]:
        """Return the UIDs of pods and Reservations that are reserved and not shown on a node yet."""
        return self._reserved.keys()

    def on_change(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call a handler with the name of each node that changes, known ones first; return its end."""
        self._changed.append(changed)
        for name in self._options.keys() | self._allocations.keys():
            changed(name)
        return lambda: self._changed.remove(changed)

    # --- reading ---------------------------------------------------------------------------------

    def options(self, node_name: str) -> TopologyOptions:
        """Return what the NodeResourceTopology of a node says, empty options if there is none."""
        return self._options.get(node_name, NO_OPTIONS)

    def node(self, node_name: str) -> NodeAllocation | None:
        """Return what is allocated on a node; None if nothing ever was, or its CPU topology is not valid.

        It is the ledger's own and must not be changed.
        """
        known = self._allocations.get(node_name)
        return known if known is not None and self.options(node_name).is_valid else None

    def version(self, node_name: str) -> int:
        """Return a number that no earlier or later state of a node has; 0 while nothing is known of it."""
        return self._versions.get(node_name, 0)

    # --- what scheduling changes -----------------------------------------------------------------

    def reserve(self, node_name: str, allocation: PodAllocation) -> None:
        """Count an allocation until an object shows it, or `release`; those that objects show are kept."""
        uid = allocation.uid
        known = self._allocations.get(node_name)
        if uid not in self._reserved and known is not None and known.get(uid) is not None:
            return
        self._unreserve(uid)
        self._reserved[uid] = node_name
        self._put(node_name, allocation)

    def release(self, node_name: str, uid: str) -> None:
        """Revert `reserve` on a node, unless an object shows the pod there by now."""
        if self._reserved.get(uid) == node_name:
            self._unreserve(uid)

    def _unreserve(self, uid: str) -> None:
        node_name = self._reserved.pop(uid, None)
        if node_name is not None:
            self._drop(node_name, uid)

    # --- pods and Reservations -------------------------------------------------------------------

    def _pod_added(self, pod: Pod) -> None:
        meta, node_name = pod.metadata, pod.spec.node_name
        if pod.is_terminal:
            self._lost(node_name, meta.uid)
        elif node_name:
            self._shown(node_name, meta.uid, meta.namespace, meta.name, meta.annotations)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        before, after = old.spec.node_name, pod.spec.node_name
        if before and before != after:
            self._lost(before, old.metadata.uid)
        elif before and pod.is_terminal == old.is_terminal and _says_the_same(old, pod):
            return
        self._pod_added(pod)

    def _pod_deleted(self, pod: Pod) -> None:
        self._lost(pod.spec.node_name, pod.metadata.uid)

    def _reservation_added(self, reservation: Reservation) -> None:
        template = reservation.spec.template
        if template is not None and reservation.is_active and not validate(reservation):
            meta = reservation.metadata
            self._shown(
                reservation.status.node_name,
                meta.uid,
                template.metadata.namespace or DEFAULT_NAMESPACE,
                meta.uid,
                {**template.metadata.annotations, **meta.annotations},
            )
        elif reservation.is_terminated:
            self._lost(reservation.status.node_name, reservation.metadata.uid)

    def _reservation_updated(self, old: Reservation, reservation: Reservation) -> None:
        before = old.status.node_name
        if before and (before != reservation.status.node_name or not _holds(reservation)):
            self._lost(before, old.metadata.uid)
        self._reservation_added(reservation)

    def _reservation_deleted(self, reservation: Reservation) -> None:
        self._lost(reservation.status.node_name, reservation.metadata.uid)

    def _shown(
        self, node_name: str, uid: str, namespace: str, name: str, annotations: Mapping[str, str]
    ) -> None:
        """An object is on a node; what its annotations do not say, it does not have."""
        if self._reserved.get(uid, node_name) != node_name:
            self._unreserve(uid)
        self._reserved.pop(uid, None)
        try:
            allocation = of_annotations(uid, namespace, name, annotations)
        except ValueError as error:
            self._warn("pod %s/%s: %s", namespace, name, error)
            allocation = None
        if allocation is None:
            self._drop(node_name, uid)
        else:
            self._put(node_name, allocation)

    def _lost(self, node_name: str, uid: str) -> None:
        """An object is gone, has ended, or is no longer on a node."""
        self._unreserve(uid)
        self._drop(node_name, uid)

    def _put(self, node_name: str, allocation: PodAllocation) -> None:
        known = self._allocations.get(node_name)
        if known is None:
            known = self._allocations[node_name] = NodeAllocation(self._topology(node_name))
        elif known.get(allocation.uid) == allocation:
            return
        known.update(allocation)
        self._tell(node_name)

    def _drop(self, node_name: str, uid: str) -> None:
        known = self._allocations.get(node_name)
        if known is not None and known.release(uid) is not None:
            self._discard_if_unused(node_name)
            self._tell(node_name)

    def _discard_if_unused(self, node_name: str) -> None:
        known = self._allocations.get(node_name)
        if known is not None and known.is_empty and node_name not in self._options:
            del self._allocations[node_name]

    # --- nodes and their topologies --------------------------------------------------------------

    def _topology(self, node_name: str) -> CPUTopology:
        return self.options(node_name).cpu_topology or NO_TOPOLOGY

    def _set_topology(self, nrt: NodeResourceTopology) -> None:
        name = nrt.metadata.name
        self._options[name] = topology_options.of(nrt, self._unreadable)
        self._move(name)

    def _lose_topology(self, nrt: NodeResourceTopology) -> None:
        name = nrt.metadata.name
        self._options.pop(name, None)
        self._move(name)

    def _move(self, node_name: str) -> None:
        known = self._allocations.get(node_name)
        if known is not None:
            self._allocations[node_name] = known.moved_to(self._topology(node_name))
            self._discard_if_unused(node_name)
        self._tell(node_name)

    def _lose_node(self, node: Node) -> None:
        """Forget what traces former allocations left; those of pods that are still there stay."""
        name = node.metadata.name
        known = self._allocations.get(name)
        if known is not None:
            self._allocations[name] = known.moved_to(self._topology(name), with_traces=False)
            self._discard_if_unused(name)
            self._tell(name)

    def _tell(self, node_name: str) -> None:
        if node_name in self._options or node_name in self._allocations:
            self._versions[node_name] = next(self._changes)
        else:
            self._versions.pop(node_name, None)
        for changed in self._changed:
            changed(node_name)

    def _unreadable(self, node_name: str, error: ValueError) -> None:
        self._warn("NodeResourceTopology %s: %s", node_name, error)

    def _warn(self, text: str, *values: object) -> None:
        """Log what cannot be read; tenants may write as much of it as they like."""
        if self._log_tokens.take():
            log.warning(text, *values)


def _says_the_same(old: Pod, pod: Pod) -> bool:
    before, after = old.metadata.annotations, pod.metadata.annotations
    return before is after or all(
        before.get(name) == after.get(name)
        for name in (extension.ANNOTATION_RESOURCE_STATUS, extension.ANNOTATION_RESOURCE_SPEC)
    )


def _holds(reservation: Reservation) -> bool:
    return reservation.is_active and not validate(reservation)


def _options_shown(options: TopologyOptions) -> dict[str, object]:
    topology = options.cpu_topology
    return {
        "cpus": {} if topology is None else dict(topology.cpus),
        "reserved": sorted(options.reserved_cpus),
        "policy": options.policy,
        "kubelet": options.kubelet_policy,
        "ratios": options.amplification_ratios,
        "zones": {
            node: {name: str(amount.nano_value()) for name, amount in amounts.items()}
            for node, amounts in options.numa_resources.items()
        },
    }


def _allocation_shown(allocation: NodeAllocation) -> dict[str, object]:
    return {
        "pods": {
            uid: (
                each.namespace,
                each.name,
                sorted(each.cpus),
                each.exclusive_policy,
                sorted(each.numa_resources),
            )
            for uid, each in allocation.pods.items()
        },
        "references": {cpu: each.ref_count for cpu, each in allocation.allocated_cpus.items()},
        "amounts": {
            (node, name): str(amount.nano_value())
            for node, amounts in allocation.allocated_resources.items()
            for name, amount in amounts.items()
            if not amount.is_zero
        },
        "statuses": allocation.statuses(),
    }
