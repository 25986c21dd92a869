"""FindOneNode and PreFilter of a gang that wants a place in the network.

The first member that is scheduled finds the nodes of all members; each further one may only go to its own.
Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/network_topology_workflow.go`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.gang.topology_spec import GangTopologySpec
from koordpy.cluster.columns import Int64
from koordpy.cluster.network_topology.tree import Tree
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import (
    NOMINATED_PODS_TO_IGNORE,
    PLACED,
    CycleState,
    StateKey,
)
from koordpy.scheduling.interface.diagnosis import ScheduleDiagnosis, diagnosis_of
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import PreFilterOutcome
from koordpy.scheduling.interface.plan import PlacementPlan, PlannedPod
from koordpy.scheduling.interface.status import SUCCESS, Status

from .layouts import Layouts
from .members import in_order_of_index, in_order_of_name, selector_of
from .requirement import Requirement, requirement_of
from .selector_counts import SelectorCounts
from .slots import SlotProbe, Slots
from .solver import Solution, solve

NO_TOPOLOGY = "no cluster network topology"
NO_PLANNED_PODS = "no planned pods"
NO_PENDING_PODS = "no pending pods"

PROBING: StateKey[bool] = StateKey("Coscheduling/probing")
"""Set in the states in which members are only filtered: no context begins or ends in them."""


class Round(Protocol):
    """What a plan needs to know of the round of the gang group that is being scheduled."""

    attempted: set[str]
    """The keys of the pods that were tried so far, the one being tried included."""
    failed_message: str
    topology_spec: GangTopologySpec | None
    topology_tree: Tree | None
    """The network when the round began."""
    planned_nodes: Mapping[str, str] | None
    """The nodes by the members' keys, once there is a plan."""


class NetworkPlacement:
    """Plans the nodes of gangs, and keeps members to the plan."""

    def __init__(self, handle: Handle, counts: SelectorCounts, layouts: Layouts) -> None:
        self._handle, self._counts, self._layouts = handle, counts, layouts

    # --- extension points --------------------------------------------------------------------------

    def pre_filter(
        self, context: Round | None, state: CycleState, pod: Pod
    ) -> tuple[frozenset[str] | None, Status]:
        """Restrict a member to its planned node; the first one is left to `find_one_node`."""
        if context is None or _spec(context) is None or len(context.attempted) <= 1 or state.read(PROBING):
            return None, SUCCESS
        node_name = (context.planned_nodes or {}).get(pod.metadata.key, "")
        if not node_name:
            return None, Status.failed(NO_PLANNED_PODS)
        return frozenset((node_name,)), SUCCESS

    def find_one_node(
        self,
        context: Round | None,
        pending: Sequence[Pod],
        state: CycleState,
        node_names: frozenset[str] | None,
    ) -> tuple[PlacementPlan | None, Status]:
        """Plan the nodes of all pending members of the group, if its first member is being tried."""
        spec = None if context is None else _spec(context)
        if context is None or spec is None or state.read(PROBING):
            return None, Status.skip()
        if len(context.attempted) > 1:
            return None, Status.skip() if context.planned_nodes else Status.failed(NO_PLANNED_PODS)
        if not pending:
            return None, Status.failed(NO_PENDING_PODS)
        nodes, missing = self._nodes(state, node_names)
        if missing:
            return None, Status.failed(f'nodeinfo not found for node name "{missing[0]}"')
        if context.topology_tree is None:
            return None, Status.unresolvable(NO_TOPOLOGY)
        state.write(NOMINATED_PODS_TO_IGNORE, frozenset(pod.metadata.uid for pod in pending))
        solution = self._solve(context.topology_tree, spec, pending, state, nodes)
        if not solution.status.is_success:
            return None, solution.status
        context.planned_nodes = dict(solution.nodes)
        planned = [PlannedPod(pod, solution.nodes[pod.metadata.key]) for pod in in_order_of_name(pending)]
        return PlacementPlan(planned), SUCCESS

    # --- the plan ----------------------------------------------------------------------------------

    def _nodes(self, state: CycleState, node_names: frozenset[str] | None) -> tuple[NodeSet, Sequence[str]]:
        """Return the nodes to choose from, with the pods of a what-if, and names that do not exist."""
        table = self._handle.nodes
        if node_names is None:
            nodes, missing = table.all(), list[str]()
        else:
            nodes, missing = table.select(sorted(node_names))
        placed = state.read(PLACED)
        return nodes.with_pods(placed) if placed else nodes, missing

    def _solve(
        self,
        tree: Tree,
        spec: GangTopologySpec,
        pending: Sequence[Pod],
        state: CycleState,
        nodes: NodeSet,
    ) -> Solution:
        requirement = requirement_of(spec, tree)
        members = in_order_of_index(pending)
        ignored = frozenset(pod.metadata.uid for pod in pending)
        placed = state.read(PLACED)

        def begin(member: Pod) -> tuple[CycleState, PreFilterOutcome]:
            own = self._handle.framework.new_state()
            own.write(PROBING, True)
            own.write(NOMINATED_PODS_TO_IGNORE, ignored)
            if placed is not None:
                own.write(PLACED, placed)
            return own, self._handle.framework.run_pre_filter(own, member, nodes)

        slots = SlotProbe(self._handle.framework, members, nodes, begin).run()
        if slots.error is None:
            _record(state, requirement, slots)
        existing = self.existing(members, slots)
        return solve(self._layouts.of(tree), requirement, members, slots, existing)

    def existing(self, members: Sequence[Pod], slots: Slots) -> Int64 | None:
        """(n,) the pods of the first member's selector on each node; None if it has none.

        As in Koordinator members that were assumed on a node to count its slots are among them.
        """
        selector = selector_of(members[0])
        if not selector:
            return None
        there = self._counts.by_row(selector, slots.nodes)[slots.nodes.rows]
        alike = [0]
        for pod in members[:-1]:
            alike.append(alike[-1] + (selector_of(pod) == selector))
        return there + np.array(alike, np.int64)[np.minimum(slots.numbers, len(members) - 1)]


def _spec(context: Round) -> GangTopologySpec | None:
    """Return what the group wants of the network, None if nothing, or if the group has failed already."""
    return None if context.failed_message else context.topology_spec


def _record(state: CycleState, requirement: Requirement, slots: Slots) -> None:
    """Add what was found to the diagnosis of the attempt."""
    diagnosis = diagnosis_of(state)
    diagnosis.topology_key_to_explain = requirement.must_gather
    found = diagnosis.schedule = diagnosis.schedule or ScheduleDiagnosis()
    found.is_job = True
    found.node_offer_slot = dict(zip(slots.nodes.names, slots.numbers.tolist(), strict=True))
    found.node_to_status = slots.refusals
