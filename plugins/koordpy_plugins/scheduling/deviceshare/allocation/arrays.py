"""Which nodes can give a pod its devices, and how they score: for all nodes at once.

The answers are those of `allocator` for pods without selectors and recorded allocations, and for Filter
without joint allocation, on nodes without reservations and preemption. Rows that the columns cannot hold
exactly are named, so that the allocator decides them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from koordpy.cluster.nodes import NodeSet
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY

from ..scoring import Scorer
from ..state.columns import MINORS, MISSING, NAMES, DeviceColumns, TypeColumns
from ..state.exact import UNIT, Exact
from ..state.gpu_topology import LEVELS
from ..state.layout import near
from ..state.partitions import Group, Partition
from . import reasons
from .counting import counted
from .requests import GPU, GPURequirements, Requests

Bool = NDArray[np.bool_]
Bits = NDArray[np.uint32]
Int64 = NDArray[np.int64]
Keys = NDArray[np.int16]

_SET: Final = np.dtype(f"<u{MINORS // 8}")
"""A set of minors, as packed bits."""


@dataclass(frozen=True, slots=True)
class Answers:
    """One status for each row, (n,): its place in `statuses`, of which the first is Success.

    Of the `inexact` rows (n,) nothing is known.
    """

    keys: Keys
    statuses: Sequence[Status]
    inexact: Bool


@dataclass(frozen=True, slots=True)
class _Demand:
    """What is wanted of a type; None is as many devices as a node has."""

    exact: Exact
    count: int | None


def feasible(columns: DeviceColumns, nodes: NodeSet, requests: Requests) -> Answers | None:
    """Return for each node whether it can give a pod its devices; None if the allocator must decide all."""
    demands = _demands(requests)
    if demands is None or requests.joint is not None:
        return None
    columns.refresh()
    return _Evaluation(columns, nodes.rows).feasible(demands, requests)


def looks(columns: DeviceColumns, nodes: NodeSet, requests: Requests) -> tuple[list[Int64], Bool] | None:
    """Return numbers (n,) in which nodes are equal from which the allocator takes the same devices.

    Also (n,) the nodes of which that is not known. The allocator has no scorer, and any NUMA nodes. None if
    all nodes must be considered by themselves.
    """
    demands = _demands(requests)
    if demands is None:
        return None
    columns.refresh()
    return _Evaluation(columns, nodes.rows).looks(demands, requests)


def scores(
    columns: DeviceColumns,
    nodes: NodeSet,
    requests: Requests,
    scorer: Scorer,
    masks: Int64 | None = None,
) -> tuple[Int64, Bool] | None:
    """Return the scores of nodes (n,), not normalised, and which of them are not known (n,).

    `masks` (n,) are the NUMA nodes whose devices count, `ANY` or None for all. Nodes that cannot give the
    devices have any score, those without devices 0. None if the allocator must decide all.
    """
    demands = _demands(requests)
    if demands is None or not all(any(name in names for names in NAMES.values()) for name in scorer.weights):
        return None
    columns.refresh()
    if masks is None:
        masks = np.full(len(nodes), ANY)
    evaluation = _Evaluation(columns, nodes.rows)
    total = np.zeros(len(nodes.rows), np.int64)
    for type_, demand in demands.items():
        total += evaluation.score(type_, demand.exact, scorer, masks)
    unknown = evaluation.inexact(demands) | evaluation.lacks_layout(masks)
    if requests.joint is not None:
        unknown |= columns.is_planned.values.take(nodes.rows)
    return np.where(evaluation.known, total, 0), unknown


def _demands(requests: Requests) -> dict[str, _Demand] | None:
    """Return what is wanted by type, None if arrays cannot decide it."""
    if requests.designated_functions:
        return None
    found = {}
    for type_, amounts in requests.amounts.items():
        hint = requests.hints.get(type_)
        if type_ not in NAMES or (hint is not None and (hint.selector or hint.vf_selector) is not None):
            return None
        if type_ == GPU:
            if requests.gpu is None:
                return None
            found[type_] = _Demand(requests.gpu.exact, requests.gpu.count)
        else:
            wanted = counted(requests, type_, amounts)
            each = wanted.exact if wanted is not None else {n: a.nano_value() for n, a in amounts.items()}
            found[type_] = _Demand(each, None if wanted is None else wanted.count)
        for name, amount in found[type_].exact.items():
            if name not in NAMES[type_] or amount % UNIT or not 0 <= amount < MISSING * UNIT:
                return None
    return found


class _Evaluation:
    """The columns of some rows."""

    def __init__(self, columns: DeviceColumns, rows: NDArray[np.intp]) -> None:
        self._columns = columns
        self._rows = rows
        self.known: Bool = columns.known.values.take(rows)

    def feasible(self, demands: dict[str, _Demand], requests: Requests) -> Answers:
        statuses: list[Status] = [SUCCESS]
        keys = np.zeros(len(self._rows), np.int16)

        def reject(refused: Bool, status: Status) -> None:
            if status not in statuses:
                statuses.append(status)
            keys[refused & (keys == 0)] = statuses.index(status)

        for type_ in demands:
            reject(
                self.known & (self._of(type_).count.values.take(self._rows) == 0), reasons.no_devices(type_)
            )
        for type_, demand in demands.items():
            if type_ == GPU and requests.gpu is not None:
                for refused, status in self._gpu_refusals(requests.gpu):
                    reject(self.known & refused, status)
            else:
                fits = self._fitting(type_, demand.exact, self._of(type_).free_at_all)
                wanted = demand.count
                least = self._of(type_).count.values.take(self._rows) if wanted is None else max(wanted, 1)
                reject(self.known & (np.bitwise_count(fits) < least), reasons.too_few_devices(type_))
        return Answers(keys, statuses, self.inexact(demands))

    def inexact(self, types: Any) -> Bool:
        """(n,) which rows the columns do not hold exactly."""
        result = np.zeros(len(self._rows), np.bool_)
        for type_ in types:
            result |= ~self._of(type_).exact.values.take(self._rows)
        return result & self.known

    def looks(self, demands: dict[str, _Demand], requests: Requests) -> tuple[list[Int64], Bool]:
        """Return what the allocator sees of the rows, and which rows (n,) it cannot be known of."""
        columns, layouts = self._columns, self._columns.layout_id.values.take(self._rows)
        found: list[Any] = [self.known, layouts, columns.is_planned.values.take(self._rows)]
        for type_, demand in demands.items():
            of_type = self._of(type_)
            sets = (of_type.listed, of_type.free_at_all, of_type.healthy, of_type.used, of_type.known_used)
            found.append(self._fitting(type_, demand.exact, of_type.listed))
            found += [column.values.take(self._rows) for column in (*sets, of_type.count)]
        if GPU in demands and requests.gpu is not None:
            found += [column.values.take(self._rows) for column in (columns.table_id, columns.honors)]
            if requests.gpu.enforces_templates:
                found.append(columns.model_id.values.take(self._rows))
        return found, self.inexact(demands) | (self.known & (layouts < 0))

    # --- scores ----------------------------------------------------------------------------------

    def lacks_layout(self, masks: Int64) -> Bool:
        """(n,) of which rows it is not known which devices the NUMA nodes of masks (n,) have."""
        lacks: Bool = self.known & (masks != ANY) & (self._columns.layout_id.values.take(self._rows) < 0)
        return lacks

    def score(self, type_: str, request: Exact, scorer: Scorer, masks: Int64) -> Int64:
        """(n,) the score of the devices of a type."""
        of_type = self._of(type_)
        score = np.zeros(len(self._rows), np.int64)
        weights = np.zeros(len(self._rows), np.int64)
        if not any(request.values()):
            return score
        chosen = self._near(type_, masks)
        for at, name in enumerate(of_type.names):
            weight = scorer.weights.get(name, 0)
            if weight:
                if chosen is None:
                    capacity = of_type.capacity.values[self._rows, at]
                    left = of_type.available.values[self._rows, at]
                else:
                    width = chosen.shape[1]
                    free = of_type.free_of(self._rows, name, width)
                    free[(free < 0) | (free == MISSING)] = 0
                    capacity = (of_type.total_of(self._rows, name, width) * chosen).sum(axis=1)
                    left = (free * chosen).sum(axis=1)
                requested = np.where(
                    capacity >= left, capacity - left + request.get(name, 0) // UNIT, capacity
                )
                counted_ = (
                    np.minimum(requested, capacity)
                    if scorer.most_allocated
                    else np.maximum(capacity - requested, 0)
                )
                score += weight * (counted_ * 100 // np.maximum(capacity, 1))
                weights += weight * (capacity != 0)
        return score // np.maximum(weights, 1)

    def _near(self, type_: str, masks: Int64) -> Bool | None:
        """(n, minors) the devices on the NUMA nodes of masks (n,), None if they are all."""
        if (masks == ANY).all():
            return None
        layouts = self._columns.layout_id.values.take(self._rows)
        groups, first = group((layouts, masks), len(masks))
        sets = []
        for layout, mask in zip(layouts[first].tolist(), masks[first].tolist(), strict=True):
            if mask == ANY or layout < 0:
                sets.append((1 << MINORS) - 1)
            else:
                sets.append(near(self._columns.layouts.value_of(layout), type_, mask))
        width = _width(self._of(type_).listed.values.take(self._rows))
        bits = np.array(sets)[:, None] >> np.arange(width) & 1
        return bits.astype(np.bool_)[groups]

    # --- GPUs ------------------------------------------------------------------------------------

    def _gpu_refusals(self, wanted: GPURequirements) -> Sequence[tuple[Bool, Status]]:
        """Return the nodes (n,) that are refused for each reason; the first one counts."""
        anywhere = np.ones(len(self._rows), np.bool_)
        general = self._general_refusals(wanted)
        if wanted.enforces_templates:
            candidates = np.array([len(wanted.templates.get(key, ())) for key in self._columns.models] or [0])
            models = self._columns.model_id.values.take(self._rows)
            matching = np.where(models >= 0, candidates.take(models, mode="clip"), 0)
            missing, any_strategy = matching == 0, matching > 1
        else:
            missing, any_strategy = ~anywhere, anywhere
        refusals = [(missing, reasons.NO_TEMPLATE)]
        if wanted.shared:
            return [*refusals, *general]
        chosen = ~anywhere
        by_partition: list[tuple[Bool, Status]] = []
        honors = any_strategy & (self._columns.honors.values.take(self._rows) | wanted.honors_partitions)
        for of_table, has, status in self._partitioned(wanted):
            chosen |= of_table & has & any_strategy
            by_partition.append((of_table & ~has & honors, status))
        return [
            *refusals,
            *by_partition,
            *((refused & ~chosen & ~honors, status) for refused, status in general),
        ]

    def _partitioned(self, wanted: GPURequirements) -> Sequence[tuple[Bool, Bool, Status]]:
        """Return for each table its nodes, which of them have a partition, and why the others have none."""
        tables = self._columns.table_id.values.take(self._rows)
        of_type = self._of(GPU)
        used = of_type.used.values.take(self._rows)
        healthy = of_type.healthy.values.take(self._rows)
        found = []
        for number in np.unique(tables).tolist():
            of_table = tables == number
            has = np.zeros(len(tables), np.bool_)
            groups: tuple[Group, ...] | None = None
            if number >= 0:
                groups = dict(self._columns.tables.value_of(number)).get(wanted.count)
            for of_score in (groups or ())[: 1 if wanted.restricted else None]:
                for bits in {each.bits for each in of_score if _is_offered(each, wanted)}:
                    has |= ((used & bits) == 0) & ((healthy & bits) == bits)
            if number < 0:
                status = reasons.MISSING_PARTITION_TABLE
            else:
                status = reasons.UNSUPPORTED_COUNT if groups is None else reasons.NO_PARTITION
            found.append((of_table, has, status))
        return found

    def _general_refusals(self, wanted: GPURequirements) -> Sequence[tuple[Bool, Status]]:
        of_type = self._of(GPU)
        has_tree: Bool = self._columns.has_tree.values.take(self._rows)
        is_searched = not (wanted.shared and wanted.count > 1)
        healthy = self._fitting(GPU, wanted.exact, of_type.healthy)
        if wanted.required_scope:
            missing = (~has_tree, reasons.MISSING_TOPOLOGY)
            if not is_searched:
                return [missing, (has_tree, reasons.SHARED_GPUS)]
            levels = self._columns.levels.values.take(self._rows, axis=0)
            scopes = self._columns.scopes.values.take(self._rows, axis=0)
            enough = np.bitwise_count(scopes & healthy[:, None]) >= wanted.count
            level = max(LEVELS.get(wanted.required_scope, 0), 1)
            return [missing, (~(enough & (levels >= level)).any(axis=1), reasons.NO_TOPOLOGY_SCOPE)]
        free = self._fitting(GPU, wanted.exact, of_type.free_at_all)
        by_place = has_tree if is_searched else np.zeros_like(has_tree)
        return [
            (by_place & (np.bitwise_count(healthy) < wanted.count), reasons.NO_GPUS),
            (~by_place & (np.bitwise_count(free) < wanted.count), reasons.too_few_devices(GPU)),
        ]

    def _fitting(self, type_: str, request: Exact, among: Any) -> Bits:
        """(n,) the devices of a set that can give a request."""
        of_type = self._of(type_)
        sets = among.values.take(self._rows)
        width = _width(sets)
        fits = np.zeros((len(self._rows), MINORS), np.bool_)
        fits[:, :width] = True
        for name, amount in request.items():
            fits[:, :width] &= of_type.free_of(self._rows, name, width) >= amount // UNIT
        packed: Bits = np.packbits(fits, axis=1, bitorder="little").view(_SET)[:, 0].astype(np.uint32)
        packed &= sets
        return packed

    def _of(self, type_: str) -> TypeColumns:
        return self._columns.types[type_]


def _width(sets: Bits) -> int:
    """Return how many minors there are, up to the last one in any set."""
    return max(int(np.bitwise_or.reduce(sets, initial=0)).bit_length(), 1)


def _is_offered(partition: Partition, wanted: GPURequirements) -> bool:
    """Whether a partition is in the columns, and has the bandwidth."""
    if partition.bits >> MINORS:
        return False
    bandwidth = wanted.bandwidth
    return bandwidth is None or (partition.bandwidth is not None and bandwidth <= partition.bandwidth)
