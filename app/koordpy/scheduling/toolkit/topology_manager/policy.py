"""Applies a node's NUMA topology policy to the hints.

Source: Koordinator, `pkg/scheduler/frameworkext/topologymanager` (`policy_*.go`) and
`apis/extension/numa_aware.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Final

from koordpy.scheduling.interface import NUMATopologyHint

from . import bitmask
from .merge import Hints, merge

ProviderHints = Mapping[str, Hints | None]
"""Hints by resource: None for no preference, an empty list if it cannot be satisfied."""


class NUMATopologyPolicy(StrEnum):
    """How strictly resources must come from the same NUMA nodes."""

    NONE = ""
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"


class NumaTopologyExclusive(StrEnum):
    """Whether pods on one NUMA node and pods across several exclude each other."""

    NONE = ""
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class NumaNodeStatus(StrEnum):
    """Which pods use a NUMA node: none, pods on it alone, or pods across several."""

    IDLE = "idle"
    SINGLE = "single"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class Exclusive:
    """A pod's exclusive policy, and the status of every NUMA node, by NUMA id."""

    policy: NumaTopologyExclusive = NumaTopologyExclusive.NONE
    statuses: Sequence[NumaNodeStatus] = ()

    def allows(self, mask: int) -> bool:
        """Return whether a pod may be preferred on these NUMA nodes."""
        if self.policy is not NumaTopologyExclusive.REQUIRED:
            return True
        unwanted = NumaNodeStatus.SINGLE if mask.bit_count() > 1 else NumaNodeStatus.SHARED
        return not any(
            numa_node < len(self.statuses) and self.statuses[numa_node] == unwanted
            for numa_node in bitmask.bits(mask)
        )


NOT_EXCLUSIVE = Exclusive()


UNALIGNED: Final = "Unaligned NUMA Hint cause"
UNSATISFIED: Final = "Unsatisfied NUMA"
"""How the reasons for which hints are rejected begin."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged hint, whether the policy admits it, and why not."""

    hint: NUMATopologyHint
    admit: bool = True
    reasons: tuple[str, ...] = ()


def merge_hints(
    policy: NUMATopologyPolicy,
    numa_nodes: Iterable[int],
    providers: Iterable[ProviderHints | None],
    exclusive: Exclusive = NOT_EXCLUSIVE,
    *,
    for_admission: bool = False,
) -> Merged:
    """Merge the hints of several providers under a node's policy.

    Resources of one provider are taken in the order of their names. With `for_admission` the hint of a
    rejected pod is meaningless: it is not searched for.
    """
    if policy is NUMATopologyPolicy.NONE:
        return Merged(NUMATopologyHint(None))
    everything = bitmask.of(numa_nodes)
    offered = [provider or {} for provider in providers]
    lists, reasons = _flatten(offered)
    if policy is NUMATopologyPolicy.BEST_EFFORT:
        best = merge(everything, lists, exclusive.allows)
        return Merged(NUMATopologyHint(everything) if best.unsatisfied else best)
    single = policy is NUMATopologyPolicy.SINGLE_NUMA_NODE
    if reasons:
        return Merged(NUMATopologyHint(None if single else everything), False, reasons)
    if single:
        lists = [_single(hints) for hints in lists]
    best = merge(everything, lists, exclusive.allows, only_preferred=for_admission)
    if single and best.affinity == everything:
        best = NUMATopologyHint(None, best.preferred)
    if best.preferred:
        return Merged(best)
    aligned = ("," if single else " & ").join(_summaries(offered))
    return Merged(best, False, (f"{UNALIGNED} {aligned}",))


def _flatten(providers: Iterable[ProviderHints]) -> tuple[list[Hints], tuple[str, ...]]:
    """Return one list of hints per resource, and what cannot be satisfied."""
    lists: list[Hints] = []
    reasons: list[str] = []
    for provider in providers:
        if not provider:
            lists.append(_ANYWHERE)
        for resource, hints in sorted(provider.items(), key=itemgetter(0)):
            if hints is None:
                lists.append(_ANYWHERE)
            elif not hints:
                lists.append(_NOWHERE)
                reasons.append(f"{UNSATISFIED} {resource}")
            else:
                lists.append(hints)
    return lists, tuple(reasons)


_ANYWHERE = (NUMATopologyHint(None, preferred=True),)
_NOWHERE = (NUMATopologyHint(None, unsatisfied=True),)


def _summaries(providers: Iterable[ProviderHints]) -> list[str]:
    """Return a line about each resource that has hints, sorted."""
    return sorted(
        _summary(resource, hints) for provider in providers for resource, hints in provider.items() if hints
    )


def _summary(resource: str, hints: Hints) -> str:
    possible = [hint for hint in hints if not hint.unsatisfied]
    preferred = " ".join(bitmask.text(hint.affinity) for hint in possible if hint.preferred)
    among = " ".join(bitmask.text(hint.affinity) for hint in possible)
    return f"{resource} prefer [{preferred}] among [{among}]"


def _single(hints: Hints) -> list[NUMATopologyHint]:
    """Return the preferred hints of one NUMA node, or of none in particular."""
    return [
        hint for hint in hints if hint.preferred and (hint.affinity is None or hint.affinity.bit_count() == 1)
    ]
