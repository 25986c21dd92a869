"""Why pods were not evicted: counted for all of a run, named with their reasons for some.

A run over a large cluster passes over 100,000 pods and more: counting one costs an entry of a set, while its
reason costs as much as the decision did. What the filters say about any other pod can be asked at any time.
"""

from collections import Counter
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
    """The candidates of one run that were not tried."""

    def __init__(self) -> None:
        self.named: list[Candidate] = []
        self._known: set[str] = set()
        self._counts: Counter[tuple[NotEvicted, str]] = Counter()
        self._by_node: Counter[str] = Counter()

    def add(self, pods: Sequence[Pod], outcome: NotEvicted, by: str, reason: Reason) -> None:
        """Record pods for one reason. A pod that is known already keeps its first reason."""
        known = self._known
        if len(self.named) >= MOST_NAMED:
            before = len(known)
            known.update(pod.metadata.uid or pod.metadata.key for pod in pods)
            self._counts[outcome, by] += len(known) - before
            return
        for pod in pods:
            identity = pod.metadata.uid or pod.metadata.key
            if identity in known:
                continue
            known.add(identity)
            self._counts[outcome, by] += 1
            node = pod.spec.node_name
            if len(self.named) < MOST_NAMED and self._by_node[node] < MOST_NAMED_PER_NODE:
                self._by_node[node] += 1
                text = reason if isinstance(reason, str) else reason()
                self.named.append(
                    Candidate(
                        pod=pod.metadata.key,
                        node=node,
                        outcome=outcome,
                        by=by,
                        reason=text[:LONGEST_REASON],
                    )
                )

    def counts(self) -> list[NotEvictedCount]:
        """Return the counts, largest first."""
        return [
            NotEvictedCount(outcome=outcome, by=by, pods=pods)
            for (outcome, by), pods in self._counts.most_common()
        ]
