"""Applies a node's NUMA topology policy to the hints.

Source: Koordinator, `pkg/scheduler/frameworkext/topologymanager` (`policy_*.go`) and
`apis/extension/numa_aware.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
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
class Told:
    """What reasons say of the hints of one provider.

    `lacking` are reasons, one for each resource that no NUMA nodes can satisfy; `offered` has a text for each
    of the others for which there are hints.
    """

    lacking: Sequence[str]
    offered: Sequence[str]


def told(provider: ProviderHints) -> Told:
    """Return what reasons say of hints."""
    lacking, offered = [], []
    for resource, hints in sorted(provider.items(), key=itemgetter(0)):
        if hints:
            possible = [hint for hint in hints if not hint.unsatisfied]
            preferred = [bitmask.text(hint.affinity) for hint in possible if hint.preferred]
            among = [bitmask.text(hint.affinity) for hint in possible]
            offered.append(offer(resource, preferred, among))
        elif hints is not None:
            lacking.append(lack(resource))
    return Told(lacking, offered)


def offer(resource: str, preferred: Iterable[str], among: Iterable[str]) -> str:
    """Return what reasons say of a resource with hints, by the texts of masks."""
    return f"{resource} prefer [{' '.join(preferred)}] among [{' '.join(among)}]"


def lack(resource: str) -> str:
    """Return the reason for a resource that no NUMA nodes can satisfy."""
    return f"{UNSATISFIED} {resource}"


def rejection(policy: NUMATopologyPolicy, providers: Iterable[Told]) -> tuple[str, ...]:
    """Return why a policy rejects the hints of providers."""
    all_told = list(providers)
    lacking = tuple(chain.from_iterable(each.lacking for each in all_told))
    if lacking:
        return lacking
    offered = sorted(chain.from_iterable(each.offered for each in all_told))
    separator = "," if policy is NUMATopologyPolicy.SINGLE_NUMA_NODE else " & "
    return (f"{UNALIGNED} {separator.join(offered)}",)


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
    lists = list(chain.from_iterable(map(_lists, offered)))
    if policy is NUMATopologyPolicy.BEST_EFFORT:
        best = merge(everything, lists, exclusive.allows)
        return Merged(NUMATopologyHint(everything) if best.unsatisfied else best)
    single = policy is NUMATopologyPolicy.SINGLE_NUMA_NODE
    if any(hints is _NOWHERE for hints in lists):
        nothing = NUMATopologyHint(None if single else everything)
        return Merged(nothing, False, rejection(policy, map(told, offered)))
    if single:
        lists = [_single(hints) for hints in lists]
    best = merge(everything, lists, exclusive.allows, only_preferred=for_admission)
    if single and best.affinity == everything:
        best = NUMATopologyHint(None, best.preferred)
    if best.preferred:
        return Merged(best)
    return Merged(best, False, rejection(policy, map(told, offered)))


def _lists(provider: ProviderHints) -> list[Hints]:
    """Return a list of hints for each resource of a provider, which is one that suits all if it has none."""
    if not provider:
        return [_ANYWHERE]
    found = [hints for _, hints in sorted(provider.items(), key=itemgetter(0))]
    return [_ANYWHERE if hints is None else hints or _NOWHERE for hints in found]


_ANYWHERE = (NUMATopologyHint(None, preferred=True),)
_NOWHERE = (NUMATopologyHint(None, unsatisfied=True),)


def _single(hints: Hints) -> list[NUMATopologyHint]:
    """Return the preferred hints of one NUMA node, or of none in particular."""
    return [
        hint for hint in hints if hint.preferred and (hint.affinity is None or hint.affinity.bit_count() == 1)
    ]
