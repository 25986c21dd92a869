"""What a gang wants of the network, as the solver reads it.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/network_topology_types.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from koordpy.api.gang.topology_spec import MUST_GATHER, GangTopologySpec, GatherRule
from koordpy.cluster.network_topology.tree import Tree
from koordpy.lib import go_sort


@dataclass(frozen=True, slots=True)
class Requirement:
    """The layer of which one member must hold all pods, empty if any may, and the multiples.

    Below each member of a layer in `multiples` the number of pods is a multiple of the layer's.
    """

    must_gather: str
    multiples: Mapping[str, int]

    def floor(self, layer: str, count: int) -> int:
        """Round a number of pods below a member of a layer down to the layer's multiple."""
        multiple = self.multiples.get(layer, 1)
        return count if multiple == 1 else count // multiple * multiple


def requirement_of(spec: GangTopologySpec, tree: Tree) -> Requirement:
    """Return the requirement of a spec: the lowest layer that must gather counts.

    Rules are sorted as Koordinator does, whose order is improper: rules of layers of equal rank change
    places. Of several multiples for a layer the last counts; one of 1 or less means nothing.
    """
    rules = list(spec.gather_strategy)

    def not_above(one: GatherRule, other: GatherRule) -> bool:
        return not tree.is_ancestor(one.layer, other.layer)

    go_sort.sort(rules, not_above)
    must_gather = next((rule.layer for rule in rules if rule.strategy == MUST_GATHER), "")
    multiples = {rule.layer: rule.pod_count_multiple for rule in rules if rule.pod_count_multiple > 1}
    return Requirement(must_gather, multiples)
