"""Hints of other providers, such as those for devices, for many nodes at once."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface import NUMAHintGroups, NUMATopologyHint, NUMATopologyHints
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.topology_manager.policy import Told, told

Statuses = dict[Status, int]
"""Statuses, in order, with their keys: 0, 1, 2..."""


@dataclass(frozen=True, slots=True)
class ProviderGroups:
    """The groups of one provider, and which of its `distinct` hints each node has (n,)."""

    groups: NUMAHintGroups
    distinct: Sequence[NUMATopologyHints]
    which: Int64

    @classmethod
    def of(cls, groups: NUMAHintGroups) -> "ProviderGroups":
        """Find the hints that groups share; nodes that are not known have any of them."""
        places: dict[int, int] = {}
        which = [places.setdefault(id(hints), len(places)) for hints in groups.hints]
        distinct = list({id(hints): hints for hints in groups.hints}.values())
        return cls(groups, distinct, np.array(which or [0], np.int64)[groups.numbers])

    def pick(self, at: Int64) -> "ProviderGroups":
        """Return those of some of the nodes."""
        return ProviderGroups(self.groups.pick(at), self.distinct, self.which[at])


@dataclass(frozen=True, slots=True)
class HintGroups:
    """The groups of the other providers that have hints for a pod, in the profile's order.

    `place` is how many of them come before the provider of CPUs.
    """

    providers: Sequence[ProviderGroups] = ()
    place: int = 0

    def pick(self, at: Int64) -> "HintGroups":
        """Return those of some of the nodes."""
        return HintGroups([provider.pick(at) for provider in self.providers], self.place)

    @property
    def numbers(self) -> list[Int64]:
        """(n,) the groups of nodes, by provider."""
        return [provider.groups.numbers for provider in self.providers]

    @property
    def unknown(self) -> Bool:
        """(n,) the nodes that must be evaluated by themselves; one cell for all without other providers."""
        unknown: Bool = np.zeros(1, np.bool_)
        for provider in self.providers:
            unknown = unknown | (provider.groups.numbers < 0)
        return unknown

    def refuse(self, keys: Int64, statuses: Statuses) -> None:
        """Refuse nodes for which there are no hints: set their keys (n,)."""
        refused = np.zeros(len(keys), np.bool_)
        for provider in self.providers:
            failing = [not status.is_success for _, status in provider.distinct]
            if any(failing):
                refused |= np.array(failing)[provider.which]
        here = np.flatnonzero(refused)
        groups, first = group([each.which[here] for each in self.providers], len(here))
        of_group = []
        for at in here[first].tolist():
            found = [each.distinct[int(each.which[at])][1] for each in self.providers]
            messages = [status.message for status in found if not status.is_success]
            of_group.append(key_of(Status.unschedulable(*messages), statuses))
        keys[here] = np.array(of_group, np.int64)[groups]


@dataclass(frozen=True, slots=True)
class _Offer:
    """The hints of a group, by positions of masks; `is_plain` is whether that says all that matters."""

    preferred: Sequence[bool]
    scores: Sequence[int]
    is_plain: bool = True


@dataclass(frozen=True, slots=True)
class _Offers:
    """The different offers of a provider (offers, masks), and which of them nodes have (n,)."""

    preferred: Bool
    scores: Int64
    which: Int64


class OtherHints:
    """Hints for n nodes as arrays over masks, `numbers`, which are in the order in which they are tried."""

    def __init__(self, groups: HintGroups, numbers: Sequence[int], count: int) -> None:
        self._groups, self._numbers = groups, numbers
        self._position = {number: at for at, number in enumerate(numbers)}
        self._offers: list[_Offers] = []
        self.kinds = np.zeros(count, np.int64)
        """(n,) a number for the same hints."""
        self.is_plain = np.ones(count, np.bool_)
        """(n,) whether arrays say all about the hints: others must be merged by themselves."""
        for provider in groups.providers:
            self._add(provider)

    def pick(self, at: Int64) -> "OtherHints":
        """Return those for some of the nodes."""
        picked = copy(self)
        picked._groups = self._groups.pick(at)
        picked._offers = [replace(each, which=each.which[at]) for each in self._offers]
        picked.kinds, picked.is_plain = self.kinds[at], self.is_plain[at]
        return picked

    def preferred(self, masks: slice, nodes: Int64) -> Bool:
        """(masks, nodes) whether masks are preferred for all resources of all providers, by positions."""
        found: Bool = np.ones((masks.stop - masks.start, len(nodes)), np.bool_)
        for each in self._offers:
            found &= each.preferred[each.which[nodes], masks].T
        return found

    def scores(self, masks: slice, nodes: Int64) -> Int64:
        """(masks, nodes) the sums of the scores of hints with masks, by positions."""
        found = np.zeros((masks.stop - masks.start, len(nodes)), np.int64)
        for each in self._offers:
            found += each.scores[each.which[nodes], masks].T
        return found

    def _add(self, provider: ProviderGroups) -> None:
        if not provider.distinct:
            return
        offers, which = [self._read(hints) for hints, _ in provider.distinct], provider.which
        self._offers.append(
            _Offers(
                np.array([each.preferred for each in offers], np.bool_),
                np.array([each.scores for each in offers], np.int64),
                which,
            )
        )
        self.kinds = self.kinds * len(offers) + which
        self.is_plain &= np.array([each.is_plain for each in offers])[which]

    def _read(self, hints: Mapping[str, Sequence[NUMATopologyHint] | None]) -> _Offer:
        count = len(self._numbers)
        preferred, scores = [True] * count, [0] * count
        for of_resource in hints.values():
            if of_resource is None:
                continue
            served, last = [False] * count, -1
            for hint in of_resource:
                if hint.affinity is None or hint.unsatisfied:
                    return _Offer([False] * count, scores, is_plain=False)
                at = self._position.get(hint.affinity)
                if at is None or not hint.preferred:
                    continue
                if at <= last:  # merging depends on the order of hints
                    return _Offer([False] * count, scores, is_plain=False)
                served[at], last = True, at
                scores[at] += hint.score
            preferred = [before and now for before, now in zip(preferred, served, strict=True)]
        return _Offer(preferred, scores)

    def told(self, at: int, own: Told) -> list[Told]:
        """Return what reasons say of the hints of all providers for a node, in the profile's order."""
        found = [
            of_groups[int(each.which[at])]
            for each, of_groups in zip(self._groups.providers, self._told, strict=True)
        ]
        found.insert(self._groups.place, own)
        return found

    @cached_property
    def _told(self) -> list[list[Told]]:
        """What reasons say of the distinct hints of each provider."""
        return [[told(hints) for hints, _ in each.distinct] for each in self._groups.providers]

    def check(self, masks: Int64, keys: Int64, statuses: Statuses) -> None:
        """Refuse nodes on which a provider refuses the affinity: set their keys.

        `masks` (n,) are affinities, of the nodes whose key is 0.
        """
        for provider in self._groups.providers:
            admitted = np.flatnonzero(keys == 0)
            found, answers = provider.groups.check(admitted, masks[admitted])
            for number in np.unique(found).tolist():
                if not answers[number].is_success:
                    keys[admitted[found == number]] = key_of(answers[number], statuses)


def key_of(status: Status, statuses: Statuses) -> int:
    """Return the key of a status, a new one if it has none."""
    return statuses.setdefault(status, len(statuses))
