"""The domains of a constraint, and which pods have to leave the bigger ones.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from koordpy.api.core import Node, Pod
from koordpy.descheduling.toolkit.node_fit_snapshot import Candidates
from koordpy.lib import go_sort

from .constraint import Constraint, Nodes


class EligibleNodes:
    """The nodes of a run that pass a constraint's inclusion policies, and their domains."""

    def __init__(self, nodes: Sequence[Node], included: Nodes) -> None:
        self.by_domain: dict[str, list[Node]] = {}
        """Those with the label, by its value."""
        for node in nodes:
            value = node.metadata.labels.get(included.topology_key)
            if value is not None and included.include(node):
                self.by_domain.setdefault(value, []).append(node)


@dataclass(slots=True)
class Domain:
    """A domain with the pods that count there."""

    value: str
    pods: list[Pod] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Moves:
    """The pods that have to leave their domains, and those that would, but fit nowhere."""

    leaving: Sequence[Pod]
    stuck: Sequence[Pod]


class Spread:
    """The pods of one constraint by domain."""

    def __init__(
        self,
        constraint: Constraint,
        eligible: EligibleNodes,
        pods: Iterable[Pod],
        domain_of: Callable[[Pod], str | None],
    ) -> None:
        self.constraint = constraint
        self._eligible = eligible
        self.pods: dict[str, list[Pod]] = {}
        """By value of the label; only domains that have pods, also of nodes that are not eligible."""
        self._count = 0
        for pod in pods:
            value = domain_of(pod)
            if value is not None:
                self.pods.setdefault(value, []).append(pod)
                self._count += 1

    @property
    def _domains(self) -> int:
        return len(self._eligible.by_domain.keys() | self.pods.keys())

    @property
    def sizes(self) -> dict[str, int]:
        """The number of pods by domain, of domains that have any."""
        return {value: len(pods) for value, pods in self.pods.items()}

    @property
    def skew(self) -> int:
        """By how much domains differ at most."""
        sizes = self.sizes
        return max(sizes.values(), default=0) - self.smallest(sizes)

    @property
    def is_balanced(self) -> bool:
        """Whether no two domains differ by more than allowed. Without any domain they do not."""
        return not self._domains or self.skew <= self.constraint.max_skew

    def smallest(self, sizes: Mapping[str, int]) -> int:
        """Return the size of the smallest domain, given those of all domains that have pods."""
        if any(value not in sizes for value in self._eligible.by_domain):
            return 0
        return min(sizes.values(), default=0)

    def moves(
        self,
        is_evictable: Callable[[Pod], bool],
        candidates_of: Callable[[Sequence[Node]], Candidates],
        *,
        must_fit: bool,
    ) -> Moves:
        """Return the pods that have to leave so that domains come close to the average size.

        With `must_fit`, pods that fit none of the other eligible nodes of small domains are stuck; they count
        as moved.
        """
        average = self._count / self._domains
        domains = self._sorted(is_evictable)
        below = [
            node
            for domain in domains
            if len(domain.pods) < average
            for node in self._eligible.by_domain.get(domain.value, ())
        ]
        fits = candidates_of(below).other_fits
        known: dict[int, bool] = {}

        def fits_elsewhere(pod: Pod) -> bool:
            answer = known.get(id(pod))
            if answer is None:
                answer = known[id(pod)] = fits(pod)
            return answer

        moving: list[Pod] = []
        low, high = 0, len(domains) - 1
        while low < high:
            if len(domains[high].pods) <= average:
                high -= 1
            count = self._to_move(domains[low], domains[high], average)
            if count <= 0:
                low += 1
                continue
            giving = sorted(domains[high].pods, key=fits_elsewhere)
            domains[high].pods, moved = giving[:-count], giving[-count:]
            domains[low].pods += moved
            moving += moved
        if not must_fit:
            return Moves(moving, ())
        return Moves(list(filter(fits_elsewhere, moving)), [pod for pod in moving if not fits_elsewhere(pod)])

    def _to_move(self, low: Domain, high: Domain, average: float) -> int:
        """How many pods should move from a big to a small domain; 0 within the skew."""
        skew = len(high.pods) - len(low.pods)
        if skew <= self.constraint.max_skew:
            return 0
        above = math.ceil(len(high.pods) - average)
        missing = math.ceil(average - len(low.pods))
        half = math.ceil((skew - self.constraint.max_skew) / 2)
        return min(above, missing, half)

    def _sorted(self, is_evictable: Callable[[Pod], bool]) -> list[Domain]:
        """The domains by size, smallest first; the pods of each in the order in which they stay."""
        values = sorted(self._eligible.by_domain.keys() | self.pods.keys())
        domains = [Domain(value, _by_staying(self.pods.get(value, ()), is_evictable)) for value in values]
        go_sort.sort(domains, lambda first, second: len(first.pods) < len(second.pods))
        return domains


_Entry = tuple[bool, bool, int | None, Pod]
"""Whether the pod is evictable, whether it selects nodes, its priority, the pod."""


def _by_staying(pods: Iterable[Pod], is_evictable: Callable[[Pod], bool]) -> list[Pod]:
    """Return pods that are not evictable, then those that select nodes, then others; each by priority.

    So the most important of the others are last, and leave first, as in the descheduler.
    """
    entries: list[_Entry] = [(is_evictable(pod), _selects_nodes(pod), pod.spec.priority, pod) for pod in pods]
    go_sort.sort(entries, _stays_before)
    return [entry[3] for entry in entries]


def _stays_before(first: _Entry, second: _Entry) -> bool:
    """Not a strict order: pods that are not evictable, or equal, each come before the other."""
    if not first[0] or not second[0]:
        return not first[0] or second[0]
    if first[1] != second[1]:
        return first[1]
    if first[2] is not None and second[2] is not None:
        return first[2] <= second[2]
    return first[2] is None and second[2] is not None


def _selects_nodes(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return bool(pod.spec.node_selector) or (affinity is not None and affinity.node_affinity is not None)
