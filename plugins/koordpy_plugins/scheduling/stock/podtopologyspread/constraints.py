"""Spread constraints, parsed once per workload.

Source: Kubernetes, `framework/plugins/podtopologyspread` (`common.go`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from koordpy.api import label_selector
from koordpy.api.core import Pod, TopologySpreadConstraint
from koordpy.api.label_selector import NOTHING, Selector
from koordpy.cluster.pod_counts import PodMatch
from koordpy.lib.bounded_cache import cached

HOSTNAME = "kubernetes.io/hostname"

_HONOR = "Honor"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[TopologySpreadConstraint]).decode


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on the spread of pods over the domains of a node label."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    """Whether nodes count only if the pod's node affinity allows them."""
    honors_taints: bool
    """Whether nodes count only if the pod tolerates their taints."""

    @property
    def is_per_node(self) -> bool:
        """Whether every node is a separate domain."""
        return self.topology_key == HOSTNAME

    def match(self, namespace: str) -> PodMatch | None:
        """Return the predicate of counted pods; an empty selector counts none."""
        if self.selector.is_empty or self.selector == NOTHING:
            return None
        return PodMatch(((frozenset((namespace,)), self.selector),), terminating=False)


def read(
    constraints: Sequence[TopologySpreadConstraint], pod: Pod, when_unsatisfiable: str
) -> tuple[Constraint, ...]:
    """Return the constraints of one kind. Raises SelectorError when one of them is invalid."""
    wanted = [item for item in constraints if item.when_unsatisfiable == when_unsatisfiable]
    if not wanted:
        return ()
    labels = pod.metadata.labels
    keys = {key for item in wanted for key in item.match_label_keys}
    same = tuple((key, labels[key]) for key in sorted(keys) if key in labels)
    return _read((_encode(wanted), same))


@cached("topology_spread", 4 << 20)
def _read(key: tuple[bytes, tuple[tuple[str, str], ...]]) -> tuple[Constraint, ...]:
    packed, same = key
    return tuple(_constraint(item, dict(same)) for item in _decode(packed))


def _constraint(item: TopologySpreadConstraint, labels: dict[str, str]) -> Constraint:
    selector = label_selector.of(item.label_selector)
    same = {key: labels[key] for key in item.match_label_keys if key in labels}
    if same and selector != NOTHING:
        selector = Selector((*label_selector.of_labels(same).requirements, *selector.requirements))
    return Constraint(
        item.max_skew,
        item.topology_key,
        selector,
        1 if item.min_domains is None else item.min_domains,
        item.node_affinity_policy in (None, _HONOR),
        item.node_taints_policy == _HONOR,
    )
