"""Why pods were not evicted: counted for all of a run, named with their reasons for some.

A run over a large cluster passes over 100,000 pods and more: counting one costs an entry of a set, while its
reason costs as much as the decision did. What the filters say about any other pod can be asked at any time.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.output_model import OutputModel

MOST_NAMED: Final = 600
"""Pods of a run that are named with their reasons."""

MOST_NAMED_PER_NODE: Final = 20

LONGEST_REASON: Final = 600
"""Characters of a reason that are kept."""

Reason = str | Callable[[], str]
"""A reason, or a function that returns it, called only if the pod is named."""


class NotEvicted(StrEnum):
    """Why no eviction of a candidate was attempted."""

    FILTERED = "filtered"
    """A filter plugin does not allow it."""
    SKIPPED = "skipped"
    """The plugin itself does not want it, such as for lack of a target."""


class Candidate(OutputModel):
    """A pod that a plugin considered and did not try to evict."""

    pod: str
    node: str
    outcome: NotEvicted
    by: str
    """The filter plugin that does not allow it, or the plugin itself."""
    reason: str


class NotEvictedCount(OutputModel):
    """How many pods of a run were not tried, by the plugin that refused them; each pod counts once."""

    outcome: NotEvicted
    by: str
    pods: int


class Candidates:
    """The candidates of one run that were not tried.

    The pods must live as long as the run does. Enum members are no keys here: hashing one costs more than all
    the rest.
    """

    def __init__(self) -> None:
        self.named: list[Candidate] = []
        self._known: set[int] = set()
        """The identities of the pods."""
        self._filtered: dict[str, int] = {}
        self._skipped: dict[str, int] = {}
        self._by_node: dict[str, int] = {}

    def filtered(self, pod: Pod, by: str, reason: Callable[[Pod], str | None]) -> None:
        """Record a pod that a filter plugin refuses; `reason` is asked only if the pod is named."""
        known, identity = self._known, id(pod)
        if identity in known:
            return
        known.add(identity)
        self._filtered[by] = self._filtered.get(by, 0) + 1
        if len(self.named) < MOST_NAMED:
            self._name(pod, NotEvicted.FILTERED, by, lambda: reason(pod) or "")

    def skipped(self, pods: Sequence[Pod], by: str, reason: Reason) -> None:
        """Record pods that a plugin does not want; one that is known already keeps its first reason."""
        known, before = self._known, len(self._known)
        if len(self.named) < MOST_NAMED:
            for pod in pods:
                if id(pod) not in known:
                    self._name(pod, NotEvicted.SKIPPED, by, reason)
                    if len(self.named) >= MOST_NAMED:
                        break
        known.update(map(id, pods))
        self._skipped[by] = self._skipped.get(by, 0) + len(known) - before

    def _name(self, pod: Pod, outcome: NotEvicted, by: str, reason: Reason) -> None:
        node = pod.spec.node_name
        already = self._by_node.get(node, 0)
        if already >= MOST_NAMED_PER_NODE:
            return
        self._by_node[node] = already + 1
        text = reason if isinstance(reason, str) else reason()
        self.named.append(
            Candidate(pod=pod.metadata.key, node=node, outcome=outcome, by=by, reason=text[:LONGEST_REASON])
        )

    def counts(self) -> list[NotEvictedCount]:
        """Return the counts, largest first."""
        both = ((NotEvicted.FILTERED, self._filtered), (NotEvicted.SKIPPED, self._skipped))
        found = [
            NotEvictedCount(outcome=outcome, by=by, pods=pods)
            for outcome, counts in both
            for by, pods in counts.items()
            if pods
        ]
        return sorted(found, key=lambda count: -count.pods)
