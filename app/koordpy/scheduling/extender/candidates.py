"""The nodes that kube-scheduler asks about in one call, read as far as anybody needs to know them."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from koordpy.cluster.nodes import NodeSet, NodeTable

from . import wire
from .wire import BadBody, ExtenderArgs


class Candidates:
    """Some hundred names, or where kube-scheduler sends them whole (`nodeCacheCapable: false`) Node objects.

    Raises BadBody where there is neither; `names` does where they are no list of strings.
    """

    def __init__(self, args: ExtenderArgs, table: NodeTable) -> None:
        self._table = table
        self.text = bytes(args.node_names)
        """The names as they came; empty where Node objects did."""
        self.full_nodes: Mapping[str, msgspec.Raw] = {}
        """Node objects by name, as they came."""
        if not self.text or self.text == b"null":
            self.text = b""
            if args.nodes is None:
                raise BadBody("neither NodeNames nor Nodes is given")
            self.full_nodes = {wire.node_name_of(item): item for item in args.nodes.items}

    @cached_property
    def names(self) -> Sequence[str]:
        """The names, in the order in which they came."""
        return wire.node_names(self.text) if self.text else list(self.full_nodes)

    @cached_property
    def selected(self) -> tuple[NodeSet, list[str]]:
        """The nodes that are known, and the names of the others."""
        return self._table.select(self.names)

    @property
    def are_several(self) -> bool:
        """Whether there is anything to choose among; where names came, their list has to look like one."""
        return len(self.full_nodes) > 1 or (
            self.text.startswith(b'["') and self.text.endswith(b'"]') and b'","' in self.text
        )

    def include(self, name: str) -> bool:
        """Return whether a node is among them; a name that came in an unusual spelling may be missed."""
        return b'"%b"' % name.encode() in self.text if self.text else name in self.full_nodes
