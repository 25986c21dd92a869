"""What NUMA nodes can give a pod, on many nodes at once, by counts of CPUs and amounts.

Which CPUs are chosen does not matter here: on a regular machine (`CPUTopology.is_regular`) their number
alone decides whether a pod gets its CPUs. The arrays give what `allocation.allocate` and
`hints.topology_hints` give for a node by itself, without reservations and preemption.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from koordpy.api.extension import CPU
from koordpy.api.resource_list import Quantities
from koordpy.cluster.columns import Bool, Int64

from ..attempt.pod_state import PodState
from ..cpus import policies
from ..scorer import Scorer
from ..state.columns import CPURows, Float, whole_amount
from .scores import scores

REQUIRED: Final = ("", policies.FULL_PCPUS, policies.SPREAD_BY_PCPUS)
"""Required bind policies by position, which is also that of the policies of nodes with the same effect."""

_COUNTS: Final = ("free_cpus", "free_whole", "free_cores")
"""The columns of CPUs that a pod can get, by the position of the required bind policy."""


def whole_amounts(requests: Quantities) -> Mapping[str, int] | None:
    """Return what a pod requests in the units of the columns, None if that is not exact."""
    found = {name: whole_amount(name, amount) for name, amount in requests.items()}
    exact = {name: amount for name, amount in found.items() if amount is not None and amount >= 0}
    return exact if len(exact) == len(found) else None


def amplified(milli: int | Int64, ratio: Float) -> Int64:
    """(n,) an amount of cpu times ratios, rounded up; unchanged for ratios of at most 1."""
    more: Int64 = np.where(ratio > 1, np.ceil(milli * ratio), milli).astype(np.int64)
    return more


class ZoneArrays:
    """The NUMA nodes of n nodes, and what a pod asks of them.

    `wanted` are the amounts that a pod requests; `bind` (n,) is whether it gets CPUs of its own, and
    `required` (n,) the position of the bind policy that is required. `width`, K, is the number of NUMA nodes
    from 0 on that have zones. Amounts are (resources, K, n): sums over few NUMA nodes are fast then.

    Methods with masks (k, m), whose columns have k NUMA nodes each, ascending, tell of every mask on every
    node, (m, n), or with `nodes` (m,) of each mask on a node of its own, (m,).
    """

    fits_decide: ClassVar[bool] = True
    """Whether `fits` says all about what serves the pod."""

    def __init__(
        self, rows: CPURows, pod: PodState, wanted: Mapping[str, int], bind: Bool, required: Int64
    ) -> None:
        self.bind, self.num_cpus, self.wanted = bind, pod.num_cpus, wanted
        self._rows, self._pod, self._of_node = rows, pod, required
        self._required = _narrow(required)
        self._cores = _narrow(np.maximum(rows.number("cpus_per_core"), 1).astype(np.int64))
        self._orders: dict[tuple[str, int], Int64 | None] = {}
        self._cells = {name: at for at, name in enumerate(rows.resources)}
        self.width = max(int(np.bitwise_or.reduce(rows.number("zones"))).bit_length(), 1)
        milli = wanted.get(CPU, 0)
        self._cpu = np.where(bind, amplified(milli, rows.ratio("ratio")), milli)

    @cached_property
    def _offered(self) -> Bool:
        """(resources, K, n) whether a NUMA node has a resource."""
        return _by_zone(self._rows.offered, self.width)

    @cached_property
    def _capacity(self) -> Int64:
        return _by_zone(self._rows.capacity, self.width)

    @cached_property
    def _held(self) -> Int64:
        return np.asarray(np.maximum(_by_zone(self._rows.held, self.width), 0), np.int64)

    @cached_property
    def _available(self) -> Int64:
        """(resources, K, n) what is left; of cpu no more than free CPUs where a bind policy is required."""
        left: Int64 = np.maximum(self._capacity - self._held, 0)
        if (offered := self._rows.amounts) is not None:
            left = np.where(offered.is_all, _by_zone(offered.amounts, self.width), left)
        left[0] = np.where(self._required > 0, np.minimum(left[0], 1000 * self._free), left[0])
        return left

    @cached_property
    def _free(self) -> Int64:
        """(K, n) the CPUs that the pod can get."""
        free = self._of_policy(lambda count: self._rows.count(count)[:, : self.width])
        return np.ascontiguousarray(free.T).astype(np.int64)

    @cached_property
    def _total_free(self) -> Int64:
        """(n,) the same of all NUMA nodes, wherever they are."""
        return self._of_policy(lambda count: self._rows.number(f"all_{count}")).astype(np.int64)

    def _of_policy(self, read: Callable[[str], NDArray[np.int32]]) -> NDArray[np.int32]:
        """Return counts of CPUs, of those that suit the required bind policy of each node."""
        first, *others = np.unique(self._required).tolist()
        found = read(_COUNTS[first])
        for at in others:
            here = self._required == at
            found[here] = read(_COUNTS[at])[here]
        return found

    def __len__(self) -> int:
        return len(self.bind)

    def pick(self, at: Int64) -> "ZoneArrays":
        """Return the arrays of some of the nodes, by position."""
        if len(at) == len(self):
            return self
        return ZoneArrays(self._rows.pick(at), self._pod, self.wanted, self.bind[at], self._of_node[at])

    def alike(self, further: Sequence[Int64]) -> tuple[Int64, Int64]:
        """Return the group (n,) of each node, and the first node (g,) of each, ascending.

        NUMA nodes of a group can give a pod the same; `further` (n,) numbers are equal on its nodes too.
        """
        by_zone = (self._offered.astype(np.int64), self._capacity, self._available, self._free)
        numbers = [self._total_free, self._of_node, self.bind.astype(np.int64), self._cpu, *further]
        numbers.append(self._rows.number("cpus_per_core").astype(np.int64))
        table = np.concatenate([*(each.reshape(-1, len(self)) for each in by_zone), np.stack(numbers)])
        whole, size = np.ascontiguousarray(table.T).tobytes(), len(table) * table.itemsize
        places: dict[bytes, int] = {}
        which = np.empty(len(self), np.int64)
        first: list[int] = []
        for at in range(len(self)):
            which[at] = place = places.setdefault(whole[at * size : at * size + size], len(places))
            if place == len(first):
                first.append(at)
        return which, np.array(first, np.int64)

    def offers(self, name: str) -> Bool:
        """(n,) whether any NUMA node has a resource."""
        at = self._cells.get(name)
        if at is None:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self._offered[at].any(axis=0), np.bool_)

    def has_left(self, name: str, masks: Int64, nodes: Int64 | None = None) -> Bool:
        """Return whether every NUMA node of masks has some of an offered resource left."""
        left = _zones_of(self._available[self._cells[name]] > 0, masks, nodes)
        return np.asarray(left.all(axis=0), np.bool_)

    def may_fit(self, count: int) -> Bool:
        """(n,) whether any so many NUMA nodes have together what the pod requests: few are tried then."""
        found = np.ones(len(self), np.bool_)
        for name, amount in self.wanted.items():
            if name in self._cells:
                most = self._sorted[self._cells[name], -count:].sum(axis=0)
                found &= (most >= amount) | ~self.offers(name)
        return found

    @cached_property
    def _sorted(self) -> Int64:
        """(resources, K, n) what is left, ascending."""
        return np.sort(self._available, axis=1)

    def serves(self, masks: Int64) -> Bool:
        """(m, n) whether the NUMA nodes of masks can serve the pod."""
        return self.fits(masks)[0]

    def fits(self, masks: Int64, nodes: Int64 | None = None) -> tuple[Bool, Int64]:
        """Return whether the NUMA nodes of masks can serve the pod, and the masks of those that give it."""
        shape = self._shape(masks, nodes)
        fits, used = np.ones(shape, np.bool_), np.zeros(shape, np.int64)
        cpus = np.zeros((len(masks), *shape), np.int64)
        for name in self.wanted:
            if name not in self._cells:
                continue
            left, shares = self._distribute(name, masks, nodes)
            fits &= (left == 0) | ~_nodes_of(self.offers(name), nodes)
            for share, zones in zip(shares, masks, strict=True):
                used |= (share > 0).astype(np.int64) << (zones[:, None] if nodes is None else zones)
            if name == CPU:
                cpus = shares // 1000
        bind = _nodes_of(self.bind, nodes)
        if bind.any():
            fits &= ~bind | self._binds(cpus, masks, used, nodes)
        return fits, used

    def _shape(self, masks: Int64, nodes: Int64 | None) -> tuple[int, ...]:
        return (masks.shape[1], len(self)) if nodes is None else (masks.shape[1],)

    def has_cpus(self) -> Bool:
        """(n,) whether there are enough CPUs, on whichever NUMA nodes, if the pod gets CPUs of its own."""
        enough: Bool = self._total_free >= self.num_cpus
        if self._rows.cpus is not None:
            enough &= self._rows.cpus.most >= self.num_cpus
        return ~self.bind | enough

    def held_cpus(self, masks: Int64 | None, used: Int64) -> Int64:
        """(n,) the CPUs that pods have, without those that an offer returns and the pod does not take.

        The pod takes its CPUs from the NUMA nodes of masks (k, n) that give amounts by `used` (n,); from any
        NUMA nodes if there are none.
        """
        held = self._rows.number("allocated").astype(np.int64)
        offered = self._rows.cpus
        if offered is None:
            return held
        taken = np.minimum(offered.all_preferred, self.num_cpus).astype(np.int64)
        if masks is not None and CPU in self.wanted and CPU in self._cells:
            nodes = np.arange(len(self))
            shares = self._distribute(CPU, masks, nodes)[1] // 1000
            there = np.minimum(shares, _zones_of(self._free, masks, nodes))
            preferred = np.minimum(there, _zones_of(offered.preferred.T, masks, nodes)).sum(axis=0)
            taken = np.where(used > 0, preferred, taken)
        return held - offered.returned + np.where(self.bind, taken, 0)

    def _binds(self, shares: Int64, masks: Int64, used: Int64, nodes: Int64 | None) -> Bool:
        """Return whether CPUs can be chosen by the shares of masks (k, ...), of any where `used` has none."""
        taken = np.minimum(shares, _zones_of(self._free, masks, nodes))
        is_whole = taken % _nodes_of(self._cores, nodes) == 0
        is_broken = (_nodes_of(self._required, nodes) == 1) & ~is_whole
        exact = (taken.sum(axis=0) == self.num_cpus) & ~is_broken.any(axis=0)
        found: Bool = _nodes_of(self.has_cpus(), nodes) & (exact | (used == 0))
        return found

    def _distribute(self, name: str, masks: Int64, nodes: Int64 | None) -> tuple[Int64, Int64]:
        """Return what is missing of a resource, and (k, ...) what NUMA nodes give, see `distribution`."""
        left = np.full(self._shape(masks, nodes), self.wanted[name])
        amounts = _zones_of(self._available[self._cells[name]], masks, nodes)
        order = self._order(name, len(masks))
        if order is not None:
            order = order[:, None] if nodes is None else order[:, nodes]
            amounts = np.take_along_axis(amounts, order, axis=0)
        unit = self._unit(name, nodes)
        given = np.empty_like(amounts)
        for at, amount in enumerate(amounts):
            given[at] = np.minimum(self._part(left, len(masks) - at, unit), amount)
            left = left - given[at]
        if order is not None:
            shares = np.empty_like(given)
            np.put_along_axis(shares, order, given, axis=0)
            return left, shares
        return left, given

    def _order(self, name: str, size: int) -> Int64 | None:
        """(size, n) the order in which the NUMA nodes of masks of one size give, see `_order_of`."""
        if (name, size) not in self._orders:
            self._orders[name, size] = _order_of(self._available[self._cells[name]], size)
        return self._orders[name, size]

    def _unit(self, name: str, nodes: Int64 | None) -> Int64 | None:
        """Return the CPUs of which NUMA nodes give multiples, 0 for pods without CPUs of their own."""
        if name != CPU or not self.bind.any():
            return None
        unit = np.where(_nodes_of(self._required, nodes) == 1, _nodes_of(self._cores, nodes), 1)
        return unit if self.bind.all() else np.where(_nodes_of(self.bind, nodes), unit, 0)

    @staticmethod
    def _part(left: Int64, nodes: int, unit: Int64 | None) -> Int64:
        """Return what the first of some NUMA nodes should give of what is left."""
        part = left // nodes
        if unit is None:
            return part
        whole = -(-left // 1000) // np.maximum(unit, 1) // nodes * unit * 1000
        return np.where(unit > 0, whole, part)

    def scores(self, scorer: Scorer, masks: Int64, nodes: Int64 | None = None) -> Int64:
        """Return the scores of hints with masks."""
        shape = self._shape(masks, nodes)

        def column(name: str) -> tuple[Int64, Int64]:
            at = self._cells.get(name)
            if at is None:
                return np.zeros(shape, np.int64), np.zeros(shape, np.int64)
            there = _zones_of(self._capacity[at], masks, nodes).sum(axis=0)
            left = _zones_of(self._available[at], masks, nodes).sum(axis=0)
            return np.maximum(there - left, 0), there

        return scores(scorer, shape, column, lambda name: _nodes_of(self.asked(name), nodes))

    @property
    def _nothing(self) -> Int64:
        return np.zeros(len(self), np.int64)

    def asked(self, name: str) -> Int64:
        """(n,) what the pod requests of a resource, cpu amplified if it gets CPUs of its own."""
        return self._cpu if name == CPU else np.full(len(self), self.wanted.get(name, 0))

    def used_of(self, name: str, used: Int64) -> tuple[Int64, Int64]:
        """(n,) what is allocated of a resource on the NUMA nodes of masks (n,), and what they have."""
        at = self._cells.get(name)
        if at is None:
            return self._nothing, self._nothing
        chosen = (used >> np.arange(self.width)[:, None]) & 1
        return (self._held[at] * chosen).sum(axis=0), (self._capacity[at] * chosen).sum(axis=0)


def _by_zone(amounts: NDArray[Any], width: int) -> NDArray[Any]:
    """Return (resources, width, n) for amounts (n, resources, K)."""
    return np.ascontiguousarray(amounts[..., :width].transpose(1, 2, 0))


def _zones_of(table: NDArray[Any], masks: Int64, nodes: Int64 | None) -> NDArray[Any]:
    """Return what (K, n) says of the NUMA nodes of masks (k, m): (k, m, n), or (k, m) on nodes (m,)."""
    found: NDArray[Any] = table[masks] if nodes is None else table[masks, nodes]
    return found


def _nodes_of(values: NDArray[Any], nodes: Int64 | None) -> NDArray[Any]:
    """Return values (n,), or one for all, of nodes."""
    return values if nodes is None or len(values) == 1 else values[nodes]


def _narrow(values: Int64) -> Int64:
    """Return one value (1,) for values (n,) that are all equal: arrays divide by it much faster."""
    return values[:1] if len(values) and (values == values[0]).all() else values


def _order_of(offered: Int64, size: int) -> Int64 | None:
    """(size, n) the positions, in masks of one size, of the NUMA nodes in the order in which they give.

    None if that is the order of their numbers everywhere. Offered amounts are (K, n); see `distribution`.
    """
    order: list[Int64] | None = None
    for end in range(1, size):
        moves = np.ones(offered.shape[1], np.bool_)
        for at in range(end, 0, -1):
            moves = moves & (offered[at] < offered[at - 1])
            if not moves.any():
                break
            if order is None:
                order = [np.full(offered.shape[1], place) for place in range(size)]
            before, after = order[at - 1], order[at]
            order[at - 1], order[at] = np.where(moves, after, before), np.where(moves, before, after)
    return None if order is None else np.stack(order)
