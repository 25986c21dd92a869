"""Nodes with a pod's images start it sooner. Source: Kubernetes, `framework/plugins/imagelocality`."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib import int64
from koordpy.scheduling.interface import (
    MAX_NODE_SCORE,
    Plugin,
    Reach,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState

from .images import Images

_MEGABYTE = 1 << 20
_SMALLEST = 23 * _MEGABYTE
"""Bytes up to which images make no difference."""
_LARGEST = 1000 * _MEGABYTE
"""Bytes per image above which larger ones make no difference."""


class ImageLocality(Plugin, Score, SignPlugin):
    """Scores the bytes that need not be pulled, with a lower weight for images that few nodes have: otherwise
    these few nodes would get all the pods."""

    name = "ImageLocality"
    reach = Reach.NOWHERE
    reads_requests = False

    @cached_property
    def _images(self) -> Images:
        return Images(self.handle.nodes)  # created when a pod is scored: some processes never score one

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Sum over the images on a node: size times the share of nodes that have it."""
        names = [normalized(name) for name in _images_of(pod)]
        if not any(self._images.get(name) is not None for name in names):
            return np.zeros(len(nodes), np.int64)
        held = np.zeros(nodes.table.capacity, np.int64)
        total = len(nodes.table)
        for name in names:
            image = self._images.get(name)
            if image is not None:
                held[image.rows] += int64.from_float(image.size * (len(image) / total))
        largest = _LARGEST * len(names)
        if largest <= _SMALLEST:
            return np.zeros(len(nodes), np.int64)
        counted = np.clip(held[nodes.rows], _SMALLEST, largest)
        return MAX_NODE_SCORE * (counted - _SMALLEST) // (largest - _SMALLEST)


def normalized(name: str) -> str:
    """Return an image name with the container runtime's default tag if it has none."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _images_of(pod: Pod) -> Iterator[str]:
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        yield container.image
    for volume in pod.spec.volumes:
        if volume.image is not None:
            yield volume.image.reference
