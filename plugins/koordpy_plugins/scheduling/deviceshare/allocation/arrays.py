"""Which nodes can give a pod its devices, and how they score: for all nodes at once.

The answers are those of `allocator` for pods without recorded allocations, and for Filter without joint
allocation, on nodes without reservations and preemption. Nodes whose devices are in the same state are
considered once. States that the columns cannot hold exactly are named, so that the allocator decides them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koordpy.cluster.nodes import NodeSet
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..scoring import Scorer
from ..state.columns import MISSING, NAMES, DeviceColumns
from ..state.exact import UNIT, Exact
from . import reasons
from .demands import Demand, demands_of
from .gpu_arrays import GPUArrays
from .requests import GPU, Requests
from .view_arrays import Bits, Bool, Int64, ViewArrays, width_of

Keys = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Answers:
    """One status for each row, (n,): its place in `statuses`, of which the first is Success.

    Of the `unknown` rows (n,) nothing is known.
    """

    keys: Keys
    statuses: Sequence[Status]
    unknown: Bool

    def spread(self, which: Int64) -> "Answers":
        """Return the answers for nodes whose rows are `which` (m,)."""
        return Answers(self.keys[which], self.statuses, self.unknown[which])


def feasible(
    columns: DeviceColumns, nodes: NodeSet, requests: Requests, masks: Int64 | None = None
) -> Answers | None:
    """Return for each node whether it can give a pod its devices; None if the allocator must decide all.

    `masks` (n,) are the NUMA nodes whose devices count, `ANY` or None for all.
    """
    allocation = allocation_of(requests)
    if allocation is None:
        return None
    views, which = views_of(columns, nodes, allocation.demands, masks)
    return allocation.answers(views).spread(which)


def views_of(
    columns: DeviceColumns, nodes: NodeSet, demands: Mapping[str, Demand], masks: Int64 | None
) -> tuple[ViewArrays, Int64]:
    """Return the different rows of nodes with masks (n,), and which of them each node has (n,)."""
    states, which = columns.states(nodes)
    if masks is None:
        return ViewArrays(columns, states, demands), which
    rows, first = group((which, masks), len(nodes))
    return ViewArrays(columns, states[which[first]], demands, masks[first]), rows


def allocation_of(requests: Requests) -> "Allocation | None":
    """Return how arrays allocate what a pod requests; None if they cannot decide it."""
    demands = demands_of(requests)
    return None if demands is None or requests.joint is not None else Allocation(demands, requests)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a pod wants of each type, and how."""

    demands: Mapping[str, Demand]
    requests: Requests

    def answers(self, views: ViewArrays) -> Answers:
        """Return for each row whether it can give the devices."""
        return self._allocate(views, self._gpus(views))

    def choose(self, views: ViewArrays) -> tuple[Answers, Bits]:
        """Return the same, and (n,) which GPUs it gives, if it can."""
        gpus = self._gpus(views)
        minors = np.zeros(len(views), np.uint32) if gpus is None else gpus.minors()
        return self._allocate(views, gpus), minors

    def _gpus(self, views: ViewArrays) -> GPUArrays | None:
        wanted = self.requests.gpu
        return GPUArrays(views, wanted) if GPU in self.demands and wanted is not None else None

    def _allocate(self, views: ViewArrays, gpus: GPUArrays | None) -> Answers:
        statuses: list[Status] = [SUCCESS]
        keys = np.zeros(len(views), np.int16)

        def refuse(refused: Bool, status: Status) -> None:
            if status not in statuses:
                statuses.append(status)
            keys[views.known & refused & (keys == 0)] = statuses.index(status)

        for type_, demand in self.demands.items():
            none = views.read(views.of(type_).count) == 0
            if demand.count is None:
                none = none | (views.least(type_, demand) == 0)
            refuse(none, reasons.no_devices(type_))
        for type_, demand in self.demands.items():
            if demand.functions is not None:
                refuse(~views.with_functions(type_)[1], reasons.no_virtual_functions(type_))
        for type_, demand in self.demands.items():
            if type_ == GPU and gpus is not None:
                for refused, status in gpus.refusals():
                    refuse(refused, status)
            else:
                refuse(_too_few(views, type_, demand), reasons.too_few_devices(type_))
        return Answers(keys, statuses, views.unknown())


def _too_few(views: ViewArrays, type_: str, demand: Demand) -> Bool:
    """(n,) which rows have too few free devices of a type."""
    of_type = views.of(type_)
    fitting = views.fitting(type_, demand.exact) & views.devices(type_, of_type.free_at_all)
    if demand.functions is not None:
        fitting &= views.with_functions(type_)[0]
    return np.asarray(np.bitwise_count(fitting) < np.maximum(views.least(type_, demand), 1), np.bool_)


def visible_columns(
    columns: DeviceColumns, states: Int64, requests: Requests
) -> tuple[list[Int64], Bool] | None:
    """Return numbers (s,) in which states are equal from which the allocator takes the same devices.

    Also (s,) the states of which that is not known. The allocator has no scorer, and any NUMA nodes. None if
    all nodes must be considered by themselves.
    """
    demands = demands_of(requests)
    if demands is None:
        return None
    views = ViewArrays(columns, states, demands)
    layouts = views.read(columns.layout_id)
    found: list[Any] = [views.known, layouts, views.read(columns.is_planned)]
    for type_, demand in demands.items():
        of_type = views.of(type_)
        sets = (of_type.listed, of_type.free_at_all, of_type.healthy, of_type.used, of_type.known_used)
        found.append(views.fitting(type_, demand.exact))
        found += [views.read(column) for column in (*sets, of_type.count)]
        if demand.selector is not None:
            found += views.selected(type_)
        if demand.functions is not None:
            found += views.with_functions(type_)
    if GPU in demands and requests.gpu is not None:
        found += [views.read(column) for column in (columns.table_id, columns.honors)]
        if requests.gpu.enforces_templates:
            found.append(views.read(columns.model_id))
    unknown = views.unknown() | (views.known & (layouts < 0))
    return found, unknown


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
    demands = demands_of(requests)
    if demands is None or not all(any(name in names for names in NAMES.values()) for name in scorer.weights):
        return None
    views, which = views_of(columns, nodes, demands, masks)
    total = np.zeros(len(views), np.int64)
    for type_, demand in demands.items():
        total += _scores(views, type_, demand.exact, scorer)
    unknown = views.unknown()
    if requests.joint is not None:
        unknown = unknown | views.read(columns.is_planned)
    return np.where(views.known, total, 0)[which], unknown[which]


def _scores(views: ViewArrays, type_: str, request: Exact, scorer: Scorer) -> Int64:
    """(n,) the score of the devices of a type."""
    of_type = views.of(type_)
    score, weights = np.zeros(len(views), np.int64), np.zeros(len(views), np.int64)
    if not any(request.values()):
        return score
    candidates = views.candidates(type_)
    chosen = None
    if candidates is not None:
        width = width_of(views.read(of_type.listed))
        chosen = (candidates[:, None] >> np.arange(width, dtype=np.uint32) & 1).astype(np.bool_)
    for at, name in enumerate(of_type.names):
        weight = scorer.weights.get(name, 0)
        if not weight:
            continue
        if chosen is None:
            capacity = of_type.capacity.values[views.states, at]
            left = of_type.available.values[views.states, at]
        else:
            free = of_type.free[name].values[views.states, : chosen.shape[1]]
            left = np.where(chosen & (free >= 0) & (free != MISSING), free, 0).sum(axis=1)
            capacity = (of_type.total[name].values[views.states, : chosen.shape[1]] * chosen).sum(axis=1)
        requested = np.where(capacity >= left, capacity - left + request.get(name, 0) // UNIT, capacity)
        counted = np.minimum(requested, capacity)
        if not scorer.most_allocated:
            counted = np.maximum(capacity - requested, 0)
        score += weight * (counted * 100 // np.maximum(capacity, 1))
        weights += weight * (capacity != 0)
    return score // np.maximum(weights, 1)
