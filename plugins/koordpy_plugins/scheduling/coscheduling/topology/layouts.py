"""The network of the cluster as it is now, laid out once for each state of it."""

from koordpy.cluster.network_topology.tree import Tree
from koordpy.scheduling.interface.handle import Handle

from .offers import Layout


class Layouts:
    """Layouts of the handle's network topology; only the last one is kept."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._last: Layout | None = None

    def current(self) -> Layout | None:
        """Return the layout of the network now, None if there is none or it is disabled."""
        topology = self._handle.network_topology
        tree = None if topology is None else topology.snapshot()
        return None if tree is None else self.of(tree)

    def of(self, tree: Tree) -> Layout:
        """Return the layout of a tree."""
        if self._last is None or self._last.tree is not tree:
            self._last = Layout(tree)
        return self._last
