"""The results of filters and scores as text and tables, for decisions and what-ifs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from koordpy.api.output_model import OutputModel
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores
from koordpy.scheduling.interface.status import Status

NODES_SHOWN = 10
"""The number of best nodes shown with their scores, and of examples of rejected nodes."""


class Rejection(OutputModel):
    """Nodes that one plugin refused for one reason."""

    plugin: str
    reason: str
    code: str
    nodes: int
    examples: list[str]


class NodeScore(OutputModel):
    """A node's weighted scores."""

    node: str
    total: int
    plugins: dict[str, int]


Rejected = tuple[Status, int, list[str]]
"""A status, how many nodes have it, and examples of their names."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best nodes: names, totals, and scores by plugin, each in the same order."""

    names: list[str]
    totals: list[int]
    by_plugin: dict[str, list[int]]

    @classmethod
    def of(cls, scores: Scores, count: int = NODES_SHOWN, *, chosen: str = "") -> "Best":
        """Pick the best nodes out of all, and the chosen one, which may be none of them, as the last."""
        indexes = scores.top(count)
        names = scores.nodes.names
        shown = [names[i] for i in indexes]
        if chosen and chosen not in shown:
            index = scores.nodes.index_of(chosen)
            if index is not None:
                indexes = [*indexes, index]
                shown.append(chosen)
        at = np.array(indexes, np.int64)
        by_plugin = {plugin: values[at].tolist() for plugin, values in scores.by_plugin.items()}
        return cls(shown, scores.total[at].tolist(), by_plugin)

    def models(self) -> list[NodeScore]:
        """Render the scores."""
        return [
            NodeScore(
                node=name,
                total=self.totals[i],
                plugins={plugin: values[i] for plugin, values in self.by_plugin.items()},
            )
            for i, name in enumerate(self.names)
        ]


def rejected(outcome: FilterOutcome, examples: int = NODES_SHOWN) -> Iterator[Rejected]:
    """Yield every distinct rejection with the number of its nodes and some of their names."""
    names = outcome.nodes.names
    if not outcome.prefilter.is_success or outcome.error is not None:
        yield outcome.error or outcome.prefilter, len(names), list(names[:examples])
        return
    for refusals in outcome.refusals:
        for status, indexes in refusals.grouped():
            yield status, len(indexes), [names[i] for i in indexes[:examples].tolist()]
    if outcome.absent:
        yield outcome.absent_status, len(outcome.absent), list(outcome.absent[:examples])


def rejections(found: Sequence[Rejected]) -> list[Rejection]:
    """Render rejections."""
    return [
        Rejection(
            plugin=status.plugin,
            reason=status.message,
            code=status.code.name,
            nodes=nodes,
            examples=examples,
        )
        for status, nodes, examples in found
    ]
