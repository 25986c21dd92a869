"""The assign cache and the nodes' annotations as columns of the node table.

A row has the values that Filter and Score compare; it is updated whenever its node, its NodeMetric or a pod
on it changes, so that a query over 5,000 nodes only reads arrays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Node
from koordpy.api.quantity import QuantityError
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Int64
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.nodes import NodeSet
from koordpy.lib import duration, int64

from . import annotations
from .arithmetic import any_resource
from .assign_cache import AssignCache
from .estimator import Vector
from .node_load import ZERO_TIME, NodeLoad
from .settings import LoadSettings, ThresholdSettings

Bool = NDArray[np.bool_]

_ANY, _NONE = (1 << 63) - 1, -(1 << 63)
_FAR = 1 << 62
"""Beyond this, sums might overflow."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The thresholds in force on a node, percent, in vector order; None where there are none."""

    usage: Vector | None
    prod: Vector | None
    aggregated: Vector | None
    aggregation_type: str
    aggregated_duration: int

    @property
    def is_aggregated(self) -> bool:
        """Whether pods that are not compared by prod usage are compared by a percentile."""
        return self.aggregated is not None


class LoadColumns(DerivedState):
    """Has the table's interface: methods take a NodeSet and return arrays, (n, resources) or (n,)."""

    def __init__(self, cluster: Cluster, loads: LoadSettings, thresholds: ThresholdSettings) -> None:
        super().__init__(cluster)
        table = self._table = cluster.nodes
        self._cache = cluster.shared(AssignCache, loads)
        self._estimator = self._cache.estimator
        self._names = loads.names
        self._default = self._default_profile(thresholds)
        self._expiration = duration.of_seconds(thresholds.expiration_seconds) // timedelta(microseconds=1)
        aggregated = thresholds.aggregated
        self._score_type = aggregated.score_aggregation_type if aggregated else ""
        self._score_duration = _nanoseconds(aggregated.score_aggregated_duration) if aggregated else 0
        width = len(self._names)
        self._known = table.add_column(dtype=np.bool_, fill=False)
        self._measured = table.add_column(dtype=np.bool_, fill=False)
        self._update_time = table.add_column(fill=ZERO_TIME)
        self._allocatable = table.add_column(width)
        self._thresholds = table.add_column(width)
        self._prod_thresholds = table.add_column(width)
        self._aggregated = table.add_column(dtype=np.bool_, fill=False)
        self._existing = table.add_column(width)
        self._existing_prod = table.add_column(width)
        self._existing_score = table.add_column(width)
        self._headroom = table.add_column(width, fill=_ANY)
        self._headroom_prod = table.add_column(width, fill=_ANY)
        self._expires = table.add_column(fill=_ANY)
        self._scored_until = table.add_column(fill=_NONE)
        self._profiles: dict[str, Profile] = {}
        self.at_close(self._cache.on_change(self.refresh))
        self.follow(Node, self.set_node, lambda _, node: self.set_node(node), self.remove_node)

    def snapshot(self) -> Snapshot:
        """Return every present node's cells."""
        columns = {name: getattr(self, f"_{name}").values for name in _NAMES}
        present = np.flatnonzero(self._table.present).tolist()
        return {
            self._table.name_of(row): {name: values[row].tolist() for name, values in columns.items()}
            for row in present
        }

    # --- reading ---------------------------------------------------------------------------------

    def suspects(self, nodes: NodeSet, estimate: Int64, now: int | None, *, prod: bool) -> Bool | None:
        """Return (n,) the nodes that need an exact check for this estimate, (r,) or (n, r).

        All others certainly stay below their thresholds and have an unexpired NodeMetric at `now`
        (microseconds; None: not checked). None when no node needs a check.
        """
        headroom = (self._headroom_prod if prod else self._headroom).values.take(nodes.rows, axis=0)
        tight = estimate > headroom
        late = None if now is None else self._expires.values.take(nodes.rows) <= now
        if not np.count_nonzero(tight) and (late is None or not np.count_nonzero(late)):
            return None
        found = any_resource(tight)
        return found if late is None else found | late

    def scored(self, nodes: NodeSet, now: int) -> Bool:
        """(n,) whether a node was measured, and not expired at `now` (microseconds)."""
        scored: Bool = self._scored_until.values.take(nodes.rows) > now
        return scored

    def known(self, nodes: NodeSet) -> Bool:
        """(n,) whether there is a NodeMetric."""
        known: Bool = self._known.values.take(nodes.rows)
        return known

    def measured(self, nodes: NodeSet) -> Bool:
        """(n,) whether the NodeMetric has a measurement of the node."""
        measured: Bool = self._measured.values.take(nodes.rows)
        return measured

    def expired(self, nodes: NodeSet, now: int) -> Bool:
        """(n,) whether the NodeMetric is missing, has no time or has expired at `now` (microseconds)."""
        old: Bool = now - self._update_time.values.take(nodes.rows) >= self._expiration
        return old

    def allocatable(self, nodes: NodeSet) -> Int64:
        """(n, r) the capacity with which usage is compared."""
        return self._allocatable.values.take(nodes.rows, axis=0)

    def thresholds(self, nodes: NodeSet, *, prod: bool) -> tuple[Int64, Int64, Bool]:
        """Return percentages (n, r), existing usage (n, r), and whether that is a percentile (n,).

        For a prod pod, prod thresholds and prod usage where the node has any; 0 means no threshold.
        """
        rows = nodes.rows
        thresholds: Int64 = self._thresholds.values.take(rows, axis=0)
        existing: Int64 = self._existing.values.take(rows, axis=0)
        aggregated: Bool = self._aggregated.values.take(rows)
        if prod:
            of_prod = self._prod_thresholds.values.take(rows, axis=0)
            judged = any_resource(of_prod)
            if judged.any():
                thresholds = np.where(judged[:, None], of_prod, thresholds)
                existing = np.where(judged[:, None], self._existing_prod.values.take(rows, axis=0), existing)
                aggregated = np.asarray(aggregated & ~judged)
        return thresholds, existing, aggregated

    def existing_for_score(self, nodes: NodeSet, *, prod: bool) -> Int64:
        """(n, r) the existing usage for Score."""
        column = self._existing_prod if prod else self._existing_score
        return column.values.take(nodes.rows, axis=0)

    # --- writing ---------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """A Node object was added or changed."""
        name = node.metadata.name
        custom = annotations.usage_thresholds(node)
        if custom is None:
            self._profiles.pop(name, None)
        else:
            self._profiles[name] = self._custom_profile(custom)
        row = self._table.row_of(name)
        if row is not None:
            try:
                allocatable = self._estimator.of_node(node)
            except QuantityError:
                allocatable = [0] * len(self._names)
            self._allocatable.values[row] = allocatable
            self._write_thresholds(row, self._profiles.get(name, self._default))
            self.refresh(name)

    def remove_node(self, node: Node) -> None:
        """A Node object was deleted; its row may stay as long as it has pods."""
        self._profiles.pop(node.metadata.name, None)

    def refresh(self, name: str) -> None:
        """Write the usage of a node whose load changed."""
        row = self._table.row_of(name)
        if row is not None:
            self._write_load(row, self._cache.get(name), self._profiles.get(name, self._default))

    def _write_thresholds(self, row: int, profile: Profile) -> None:
        plain = profile.aggregated if profile.is_aggregated else profile.usage
        self._thresholds.values[row] = plain or 0
        self._prod_thresholds.values[row] = profile.prod or 0
        self._aggregated.values[row] = profile.is_aggregated

    def _write_load(self, row: int, load: NodeLoad | None, profile: Profile) -> None:
        metric = load.metric if load is not None else None
        self._known.cells[row] = metric is not None
        if load is None or metric is None:
            self._measured.cells[row] = False
            self._update_time.cells[row] = ZERO_TIME
            for column in (
                self._existing, self._existing_prod, self._existing_score,
                self._headroom, self._headroom_prod, self._expires, self._scored_until,
            ):  # fmt: skip
                column.reset(row)
            return
        measured = metric.status.node_metric is not None
        self._measured.cells[row] = measured
        updated = load.reported
        self._update_time.cells[row] = updated
        self._expires.cells[row] = updated + self._expiration
        self._scored_until.cells[row] = updated + self._expiration if measured else _NONE
        kind = profile.aggregation_type if profile.is_aggregated else ""
        existing = _cells(load.existing(False, kind, profile.aggregated_duration))
        existing_prod = _cells(load.existing(True, "", 0))
        self._existing.values[row] = existing
        self._existing_prod.values[row] = existing_prod
        self._existing_score.values[row] = _cells(
            load.existing(False, self._score_type, self._score_duration)
        )
        if not measured:
            self._headroom.reset(row)
            self._headroom_prod.reset(row)
            return
        capacity = self._allocatable.values[row].tolist()
        plain = profile.aggregated if profile.is_aggregated else profile.usage
        headroom = _headroom(existing, capacity, plain)
        of_prod = profile.prod is not None and any(profile.prod)
        self._headroom.values[row] = headroom
        self._headroom_prod.values[row] = (
            _headroom(existing_prod, capacity, profile.prod) if of_prod else headroom
        )

    # --- thresholds ------------------------------------------------------------------------------

    def _default_profile(self, settings: ThresholdSettings) -> Profile:
        aggregated = settings.aggregated
        active = aggregated is not None and aggregated.usage_thresholds and aggregated.usage_aggregation_type
        return Profile(
            self._thresholds_vector(settings.usage),
            self._thresholds_vector(settings.prod_usage),
            self._thresholds_vector(aggregated.usage_thresholds) if aggregated and active else None,
            aggregated.usage_aggregation_type if aggregated and active else "",
            _nanoseconds(aggregated.usage_aggregated_duration) if aggregated and active else 0,
        )

    def _custom_profile(self, custom: annotations.UsageThresholds) -> Profile:
        default = self._default
        active = bool(custom.aggregated and custom.aggregation_type)
        return Profile(
            self._thresholds_vector(custom.usage) if custom.usage else default.usage,
            self._thresholds_vector(custom.prod) if custom.prod else default.prod,
            self._thresholds_vector(custom.aggregated) if active else default.aggregated,
            custom.aggregation_type if active else default.aggregation_type,
            custom.aggregated_duration if active else default.aggregated_duration,
        )

    def _thresholds_vector(self, thresholds: Mapping[str, int]) -> Vector | None:
        return [thresholds.get(name, 0) for name in self._names] if thresholds else None


_NAMES: Sequence[str] = (
    "known", "measured", "update_time", "allocatable", "thresholds", "prod_thresholds", "aggregated",
    "existing", "existing_prod", "existing_score", "headroom", "headroom_prod", "expires", "scored_until",
)  # fmt: skip


def _headroom(existing: Vector, capacity: Vector, thresholds: Vector | None) -> Vector | int:
    """Return, by resource, an estimate that certainly keeps usage at or below its threshold.

    It is slightly below the largest such estimate; rounding is left to the exact check.
    """
    if not thresholds:
        return _ANY
    rooms = []
    for used, total, threshold in zip(existing, capacity, thresholds, strict=True):
        if threshold == 0 or (total == 0 and threshold > 0):
            rooms.append(_ANY)
        elif total < 0 or threshold < 0 or abs(used) > _FAR:
            rooms.append(_NONE)
        else:
            limit = int((threshold + 0.5) / 100 * total * (1 - 1e-9)) - 1
            rooms.append(min(max(limit - used, _NONE), _ANY))
    return rooms


def _cells(vector: Vector | None) -> Vector:
    return [int64.wrap(number) for number in vector or ()]


def _nanoseconds(seconds: float) -> int:
    return round(seconds * duration.SECOND)
