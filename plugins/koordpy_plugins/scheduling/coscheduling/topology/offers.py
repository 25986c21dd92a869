"""How many pods each member of the network offers room for, and which of them are taken first.

The tree is laid out as arrays, the cluster first and each layer after the one above, so that sums and orders
are computed for all members of a layer at once. Source: Koordinator,
`pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from koordpy.api.network_topology import NODE_TOPOLOGY_LAYER
from koordpy.cluster.columns import Int64
from koordpy.cluster.network_topology.tree import Tree, TreeNode

from .requirement import Requirement

Key = tuple[int | str, ...]


class Layout:
    """The m members of a tree in the order of their depth; made once for each tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        members: list[TreeNode] = [tree.root]
        parents = [0]
        self.depths: list[slice] = []
        """The members of each depth, from the cluster down."""
        begin = 0
        while begin < len(members):
            end = len(members)
            self.depths.append(slice(begin, end))
            for index in range(begin, end):
                below = members[index].children.values()
                members.extend(below)
                parents.extend([index] * len(below))
            begin = end
        self.members: Sequence[TreeNode] = members
        self.parents: Int64 = np.array(parents, np.int64)
        """(m,) the cluster is its own."""
        first = np.searchsorted(self.parents[1:], np.arange(len(members) + 1)) + 1
        self.children: Sequence[range] = [
            range(start, stop) for start, stop in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
        ]
        self.nodes: Mapping[str, int] = {
            member.name: index for index, member in enumerate(members) if member.layer == NODE_TOPOLOGY_LAYER
        }
        """The members that are nodes, by name."""

    def at(self, names: Sequence[str]) -> Int64:
        """(n,) the members of nodes; -1 for nodes outside the tree."""
        return np.fromiter((self.nodes.get(name, -1) for name in names), np.int64, len(names))

    def summed(self, at: Int64, numbers: Int64) -> Int64:
        """(m,) the sums below each member of numbers (n,) of nodes, which are at the members `at` (n,)."""
        sums = np.zeros(len(self.members), np.int64)
        inside = at >= 0
        np.add.at(sums, at[inside], numbers[inside])
        for depth in self.depths[:0:-1]:
            np.add.at(sums, self.parents[depth], sums[depth])
        return sums

    def up(self, at: Int64) -> Sequence[Int64]:
        """Return the members (n,), their parents, the parents of these, and so on up to the cluster."""
        chain = [at]
        for _ in self.depths[1:]:
            chain.append(self.parents[chain[-1]])
        return chain


class Offers:
    """The offers of the members of a tree for one gang.

    `names` (n,) are nodes; `slots` (n,) is how many pods of the gang each holds, `existing` (n,) how many
    pods of the same selector are there, and `scores` (n,) what makes them preferable among equals.
    """

    def __init__(
        self,
        layout: Layout,
        requirement: Requirement,
        names: Sequence[str],
        slots: Int64,
        existing: Int64 | None = None,
        scores: Int64 | None = None,
    ) -> None:
        self._layout, self._requirement = layout, requirement
        at = layout.at(names)
        none = np.zeros(len(names), np.int64)
        self.slots = layout.summed(at, slots)
        """(m,) of each member, after multiples."""
        self._existing = layout.summed(at, none if existing is None else existing)
        self._scores = layout.summed(at, none if scores is None else scores)
        if requirement.multiples:
            self._round_down()

    def _round_down(self) -> None:
        """Let each member offer a multiple of its layer's number, from the nodes upward."""
        layout, slots = self._layout, self.slots
        multiples = [self._requirement.multiples.get(member.layer, 1) for member in layout.members]
        units = np.array(multiples, np.int64)
        for depth in reversed(layout.depths):
            slots[depth] -= slots[depth] % units[depth]
            if depth.start:
                parents = layout.parents[depth]
                slots[parents] = 0
                np.add.at(slots, parents, slots[depth])

    def gathering(self) -> list[int]:
        """Return the members of which one must hold the gang; none if no member is of the layer."""
        layer = self._requirement.must_gather
        if not layer:
            return [0]
        for depth in self._layout.depths:
            found = [
                index
                for index in range(depth.start, depth.stop)
                if self._layout.members[index].layer == layer
            ]
            if found:
                return found
        return []

    def candidates(self, gathering: Sequence[int], wanted: int) -> list[int]:
        """Return the lowest members below `gathering` that offer enough, all of one layer, the best first."""
        layout, found = self._layout, list[int]()
        level = list(gathering)
        while level:
            enough = [index for index in level if self.slots[index] >= wanted]
            found = enough or found
            level = [child for index in enough for child in layout.children[index]]
        at = np.array(found, np.int64)
        chain = layout.up(at)
        keys = [layout.members[index].name for index in found]
        order = np.lexsort(
            (
                ranks(keys),
                -self._scores[at],
                *(self.slots[up] for up in reversed(chain)),
                *(-self._existing[up] for up in reversed(chain)),
            )
        )
        return [found[place] for place in order.tolist()]

    def distribute(self, wanted: int, member: int) -> list[tuple[str, int]]:
        """Return nodes below a member with the numbers of pods for them, in order.

        Together they are as many as wanted, or fewer if multiples do not allow it.
        """
        layout = self._layout
        node = layout.members[member]
        most = self._requirement.floor(node.layer, min(int(self.slots[member]), wanted))
        if most <= 0:
            return []
        if node.layer == NODE_TOPOLOGY_LAYER:
            return [(node.name, most)]
        shares: list[tuple[str, int]] = []
        left = most
        for child in sorted(layout.children[member], key=self._fullest_first):
            if not left:
                break
            below = self.distribute(left, child)
            left -= sum(number for _, number in below)
            shares += below
        return shares

    def _fullest_first(self, member: int) -> Key:
        name = self._layout.members[member].name
        return -int(self._existing[member]), -int(self.slots[member]), -int(self._scores[member]), name


def ranks(names: Sequence[str]) -> Int64:
    """(n,) the places of names in alphabetical order."""
    order = {name: rank for rank, name in enumerate(sorted(set(names)))}
    return np.array([order[name] for name in names], np.int64)
