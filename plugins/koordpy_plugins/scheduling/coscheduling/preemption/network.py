"""The placement of a preempting job that asks for a place in the network."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from koordpy.api.gang.topology_spec import GangTopologySpec
from koordpy.cluster.network_topology.tree import Tree
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.preemption import HypotheticalNodes

from ..topology.layouts import Layouts
from ..topology.members import in_order_of_index
from ..topology.placement import NetworkPlacement
from ..topology.requirement import requirement_of
from ..topology.slots import SlotProbe
from ..topology.solver import solve
from .placement import Placements
from .preemptor import Preemptor

INVALID_PLAN: Final = "plan become invalid, wait for the next round"


class NetworkSolver:
    """Places one job. `attempted` is the number of its pods that were tried in this round.

    The solver is part of the first pod's attempt: later, the plan of the round is invalid.
    """

    def __init__(
        self,
        handle: Handle,
        network: NetworkPlacement,
        layouts: Layouts,
        spec: GangTopologySpec,
        tree: Tree,
        attempted: int,
    ) -> None:
        self._handle, self._network, self._layouts = handle, network, layouts
        self._spec, self._tree, self._attempted = spec, tree, attempted

    def __call__(self, preemptor: Preemptor, nodes: HypotheticalNodes, cost: Mapping[int, int]) -> Placements:
        """Place all pending members.

        As in Koordinator those that were assumed on a node to count its slots stay there, and of nodes that
        are equal otherwise the one with the higher cost comes first.
        """
        if self._attempted > 1:
            return Placements(message=INVALID_PLAN, failed=True)
        members = in_order_of_index(preemptor.pending)
        slots = SlotProbe(self._handle.framework, members, nodes.nodes, nodes.begin).run()
        scores = np.array([cost.get(index, 0) for index in nodes.indexes], np.int64)
        solution = solve(
            self._layouts.of(self._tree),
            requirement_of(self._spec, self._tree),
            members,
            slots,
            self._network.existing(members, slots),
            scores,
        )
        if not solution.status.is_success:
            numbers = zip(slots.nodes.names, slots.numbers.tolist(), strict=True)
            return Placements(
                statuses=slots.refusals,
                slots=dict(numbers),
                message=solution.status.message,
                failed=True,
            )
        found = Placements()
        index_of = {name: index for index, name in enumerate(nodes.names)}
        for pod in members:
            found.on_node.setdefault(index_of[solution.nodes[pod.metadata.key]], []).append(pod)
        for index in found.on_node:
            for pod in members[: min(int(slots.numbers[index]), len(members) - 1)]:
                nodes.add(index, pod)
        return found
