"""Reservations by their labels, so that a pod's reservationSelector finds their nodes quickly.

Exact keys are found with their value, keys with a configured prefix without it. Source: Koordinator,
`pkg/scheduler/plugins/reservation/cache.go`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import Counter, Histogram

from koordpy.scheduling.interface.reservation_info import ReservationInfo

from ..args import ReservationSelectorIndexConfig

QUERIES = Counter(
    "scheduler_reservation_selector_index_query_total",
    "Lookups of reservations by selector that found an index (hit) or had to check all nodes (miss).",
    ["result"],
)
CANDIDATES = Histogram(
    "scheduler_reservation_selector_index_candidates_count",
    "Nodes in the result of a lookup of reservations by selector.",
    buckets=[2**power for power in range(16)],
)

_Bucket = dict[str, dict[str, None]]
"""UIDs by node."""


class SelectorIndex:
    """Nodes and reservations by label. Switched off when neither keys nor prefixes are configured."""

    def __init__(self, config: ReservationSelectorIndexConfig) -> None:
        self.prefixes = _cleaned(config.key_prefixes) if config.enabled else []
        self.keys = _cleaned(config.keys) if config.enabled else []
        self._exact: dict[tuple[str, str], _Bucket] = {}
        self._prefixed: dict[str, _Bucket] = {}
        self._indexed: dict[str, tuple[str, list[tuple[str, str]], list[str]]] = {}

    @property
    def enabled(self) -> bool:
        """Whether anything is indexed."""
        return bool(self.prefixes or self.keys)

    def put(self, info: ReservationInfo) -> None:
        """Add a reservation that is on a node, or replace it."""
        self.discard(info.uid)
        if not (self.enabled and info.uid and info.node_name and info.meta.labels):
            return
        labels = info.meta.labels
        exact = [(key, value) for key, value in labels.items() if key in self.keys]
        prefixes = list(dict.fromkeys(prefix for key in labels if (prefix := self._prefix_of(key))))
        if not exact and not prefixes:
            return
        self._indexed[info.uid] = info.node_name, exact, prefixes
        for bucket in self._buckets(exact, prefixes, create=True):
            bucket.setdefault(info.node_name, {})[info.uid] = None

    def discard(self, uid: str) -> None:
        """Remove a reservation, if it is there."""
        indexed = self._indexed.pop(uid, None)
        if indexed is None:
            return
        node_name, exact, prefixes = indexed
        for bucket in self._buckets(exact, prefixes):
            uids = bucket.get(node_name, {})
            uids.pop(uid, None)
            if not uids:
                bucket.pop(node_name, None)
        for pair in exact:
            if not self._exact[pair]:
                del self._exact[pair]
        for prefix in prefixes:
            if not self._prefixed[prefix]:
                del self._prefixed[prefix]

    def query(self, selector: Mapping[str, str]) -> Sequence[str] | None:
        """Return the nodes that may have what a selector wants; None if nothing of it is indexed.

        Where a prefix and an exact key leave equally many, these are the prefix's.
        """
        prefixed: list[_Bucket] = []
        exact: list[_Bucket] = []
        for key, value in selector.items():
            if key in self.keys:
                exact.append(self._exact.get((key, value), {}))
            elif prefix := self._prefix_of(key):
                prefixed.append(self._prefixed.get(prefix, {}))
        touched = prefixed + exact
        if not touched:
            QUERIES.labels("miss").inc()
            return None
        QUERIES.labels("hit").inc()
        smallest = min(touched, key=len)
        if smallest:
            CANDIDATES.observe(len(smallest))
        return list(smallest)

    def _prefix_of(self, key: str) -> str:
        return next((prefix for prefix in self.prefixes if key.startswith(prefix)), "")

    def _buckets(
        self, exact: Iterable[tuple[str, str]], prefixes: Iterable[str], *, create: bool = False
    ) -> Iterator[_Bucket]:
        for pair in exact:
            yield self._exact.setdefault(pair, {}) if create else self._exact[pair]
        for prefix in prefixes:
            yield self._prefixed.setdefault(prefix, {}) if create else self._prefixed[prefix]

    def describe(self, *, detail: bool) -> dict[str, Any]:
        """Return what is indexed, as the REST interface shows it; `detail` adds nodes and values."""
        shown: dict[str, Any] = {
            "enabled": self.enabled,
            "prefixes": self.prefixes,
            "indexedReservations": len(self._indexed),
        }
        if self.keys:
            shown["keys"] = self.keys
        if self._prefixed:
            shown["byPrefix"] = {
                prefix: _counts([bucket], detail=detail) for prefix, bucket in self._prefixed.items()
            }
        by_key: dict[str, list[_Bucket]] = {}
        by_value: dict[str, dict[str, Any]] = {}
        for (key, value), bucket in self._exact.items():
            by_key.setdefault(key, []).append(bucket)
            by_value.setdefault(key, {})[value] = _counts([bucket], detail=detail)
        if by_key:
            shown["byKey"] = {key: _counts(buckets, detail=False) for key, buckets in by_key.items()}
            if detail:
                shown["byKeyValue"] = by_value
        return shown


def _counts(buckets: Sequence[_Bucket], *, detail: bool) -> dict[str, Any]:
    nodes: dict[str, int] = {}
    for bucket in buckets:
        for node_name, uids in bucket.items():
            nodes[node_name] = nodes.get(node_name, 0) + len(uids)
    counts: dict[str, Any] = {"nodes": len(nodes), "reservations": sum(nodes.values())}
    if detail:
        counts["byNode"] = nodes
    return counts


def _cleaned(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))
