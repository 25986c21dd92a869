"""The nodes that calls ask about, read and looked up once where calls in a row ask about the same ones.

A kube-scheduler that looks at all nodes of a cluster sends the same hundred kilobytes of names with every
pod; finding 5,000 rows by name takes longer than filtering them.
"""

from collections.abc import Sequence

import msgspec

from koordpy.cluster.nodes import NodeSet, NodeTable

from . import wire


class AskedNodes:
    """Remembers the names of the last call, and their rows as long as no node comes or goes."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._text = b""
        self._names: list[str] | None = None
        self._nodes: NodeSet | None = None
        self._roster = 0

    def names(self, raw: msgspec.Raw) -> list[str] | None:
        """Read a list of node names, None when there is none; never change it. Raises BadBody."""
        text = bytes(raw)
        if text != self._text:
            self._names, self._nodes = wire.node_names(raw), None
            self._text = text
        return self._names

    def select(self, names: Sequence[str]) -> tuple[NodeSet, list[str]]:
        """Return the nodes of these names that exist, and the names that do not."""
        is_known = names is self._names
        if is_known and self._nodes is not None and self._roster == self._table.roster:
            return self._nodes, []
        nodes, unknown = self._table.select(names)
        if is_known and not unknown:
            self._nodes, self._roster = nodes, self._table.roster
        return nodes, unknown
