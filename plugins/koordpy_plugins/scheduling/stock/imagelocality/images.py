"""The images on the nodes.

A node's status lists up to fifty images. The index is created on the first query; each query updates it with
the nodes whose objects have changed since the last one.
"""

import numpy as np

from koordpy.api.core import ContainerImage
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeTable


class Image:
    """An image name, and the rows of the nodes that have it."""

    __slots__ = ("_array", "_rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes, from the status of the first node."""
        self._rows: dict[int, None] = {}
        self._array: Int64 | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: int) -> None:
        """Add a node."""
        self._rows[row] = None
        self._array = None

    def remove(self, row: int) -> None:
        """Remove a node; unknown ones are no error."""
        self._rows.pop(row, None)
        self._array = None

    @property
    def rows(self) -> Int64:
        """(k,) the rows of the nodes that have the image."""
        if self._array is None:
            self._array = np.fromiter(self._rows, np.int64, len(self._rows))
        return self._array


class Images:
    """The images on the nodes of a table, by name as written in the nodes' status."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._seen = 0
        self._images: dict[str, Image] = {}
        self._on_row: dict[int, list[ContainerImage]] = {}
        table.on_release(self._forget)

    def get(self, name: str) -> Image | None:
        """Return an image that is on some node."""
        if self._seen != self._table.latest_generation:
            self._catch_up()
        return self._images.get(name)

    def _catch_up(self) -> None:
        for row in np.flatnonzero(self._table.generation > self._seen).tolist():
            node = self._table.node(row)
            images = [] if node is None else node.status.images
            if images != self._on_row.get(row, []):
                self._forget(row)
                self._add(row, images)
        self._seen = self._table.latest_generation

    def _add(self, row: int, images: list[ContainerImage]) -> None:
        self._on_row[row] = images
        for listed in images:
            for name in listed.names:
                image = self._images.get(name)
                if image is None:
                    image = self._images[name] = Image(listed.size_bytes)
                image.add(row)

    def _forget(self, row: int) -> None:
        for listed in self._on_row.pop(row, ()):
            for name in listed.names:
                image = self._images.get(name)
                if image is not None:
                    image.remove(row)
                    if not len(image):
                        del self._images[name]
