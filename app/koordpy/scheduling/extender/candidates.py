"""The candidate nodes of one call of kube-scheduler, decoded lazily."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from koordpy.cluster.nodes import NodeSet, NodeTable

from . import wire
from .wire import BadBody, ExtenderArgs


class Candidates:
    """Some hundred names, or Node objects if kube-scheduler sends them (`nodeCacheCapable: false`).

    Raises BadBody if there is neither; `names` does if they are not a list of strings.
    """

    def __init__(self, args: ExtenderArgs, table: NodeTable) -> None:
        self._table = table
        self.text = bytes(args.node_names)
        """The names as received; empty if Node objects were received."""
        self.full_nodes: Mapping[str, msgspec.Raw] = {}
        """Node objects by name, as received."""
        if not self.text or self.text == b"null":
            self.text = b""
            if args.nodes is None:
                raise BadBody("neither NodeNames nor Nodes is given")
            self.full_nodes = {wire.node_name_of(item): item for item in args.nodes.items}

    @property
    def bytes(self) -> int:
        """The length of the names, or of the Node objects, as they were received."""
        return len(self.text) + sum(memoryview(node).nbytes for node in self.full_nodes.values())

    @cached_property
    def names(self) -> Sequence[str]:
        """The names, in the order received."""
        return wire.node_names(self.text) if self.text else list(self.full_nodes)

    @cached_property
    def selected(self) -> tuple[NodeSet, list[str]]:
        """The nodes that are known, and the names of the others."""
        return self._table.select(self.names)

    @property
    def nodes(self) -> NodeSet:
        """The nodes that are known."""
        return self.selected[0]

    @property
    def are_several(self) -> bool:
        """Whether there are several candidates; estimated from the raw list if names were received."""
        return len(self.full_nodes) > 1 or (
            self.text.startswith(b'["') and self.text.endswith(b'"]') and b'","' in self.text
        )

    def include(self, name: str) -> bool:
        """Return whether a node is among them; a name with an unusual JSON encoding may be missed."""
        return b'"%b"' % name.encode() in self.text if self.text else name in self.full_nodes
