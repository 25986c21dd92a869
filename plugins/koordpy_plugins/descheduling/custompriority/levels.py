"""The priority levels of nodes: which nodes are expensive, and which are cheaper than they are.

Source: Koordinator, `pkg/descheduler/framework/plugins/custompriority`.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from koordpy.api import label_selector
from koordpy.api.core import Node

from .args import Level as LevelArgs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Level:
    """The nodes of one priority level, in the given order."""

    name: str
    nodes: Sequence[Node]


@dataclass(frozen=True)
class Levels:
    """The levels that have nodes, most expensive first."""

    levels: Sequence[Level]

    @classmethod
    def of(cls, order: Iterable[LevelArgs], nodes: Iterable[Node]) -> "Levels":
        """Group nodes by the first level whose selector matches; others belong to none.

        A level with an invalid selector matches no node.
        """
        matchers = []
        for level in order:
            try:
                matchers.append((level.name, label_selector.of(level.node_selector)))
            except label_selector.SelectorError as error:
                log.warning("CustomPriority: level %s has an invalid nodeSelector: %s", level.name, error)
        found: dict[str, list[Node]] = {name: [] for name, _ in matchers}
        for node in nodes:
            name = next((name for name, matcher in matchers if matcher.matches(node.metadata.labels)), None)
            if name is not None:
                found[name].append(node)
        return cls([Level(name, members) for name, members in found.items() if members])

    @cached_property
    def sources(self) -> list[tuple[Level, list[Node]]]:
        """Every level but the cheapest, with the nodes of all cheaper levels."""
        return [
            (level, [node for cheaper in self.levels[index + 1 :] for node in cheaper.nodes])
            for index, level in enumerate(self.levels[:-1])
        ]

    def source(self, node_name: str) -> tuple[Level, list[Node]] | None:
        """Return the level of a node with the nodes of all cheaper levels; None if there is no such."""
        index = self._index.get(node_name)
        return None if index is None else self.sources[index]

    @cached_property
    def _index(self) -> dict[str, int]:
        """The position of a node's level among the sources."""
        return {
            node.metadata.name: index for index, (level, _) in enumerate(self.sources) for node in level.nodes
        }
