"""The requests of pods as rows of the node table, computed once per workload.

The pods of a workload have the same requests, and a store keeps their equal parts as one object
(`koordpy.cluster.sharing`). So the identities of a pod's parts determine its share.
"""

from collections.abc import Callable
from typing import Any

from koordpy.api import resources
from koordpy.api.core import Pod, PodStatus
from koordpy.lib.bounded_cache import BoundedCache
from koordpy.lib.bounded_lru import BoundedLru

from .columns import PODS, ResourceAxis

Share = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]
"""Columns, the amounts in them, and the non-zero amounts. Pods of one workload share one."""

SHARES_BYTES = 8 << 20
PARTS_BYTES = 16 << 20
PASSING_BYTES = 1 << 19
"""For pods that are in no store but come with calls, each time with other objects."""

MOST_NAMES = 64
"""Resources that only pods have named and that get columns; no node has them, so they need not be counted."""

_Parts = tuple[Any, ...]


class Shares:
    """The shares of pods, equal ones as one object, with the columns of an axis.

    Pods may name any number of resources. Beyond `most_names` those that no node has are not counted: no pod
    that requests them fits any node.
    """

    def __init__(
        self, axis: ResourceAxis, widen: Callable[[], None], *, most_names: int = MOST_NAMES
    ) -> None:
        """`widen` is called when the axis has got longer."""
        self._axis, self._widen, self._names_left = axis, widen, most_names
        self.is_incomplete = False
        """Whether resources were not counted."""
        self._shares = BoundedCache[Share, Share]("shares", SHARES_BYTES, _itself, _share_size)
        self._of_parts: BoundedLru[tuple[int, ...], tuple[Share, _Parts]]
        self._of_parts = BoundedLru("shares_of_parts", PARTS_BYTES)
        self._of_passing: BoundedLru[tuple[int, ...], tuple[Share, _Parts]]
        self._of_passing = BoundedLru("shares_of_passing_pods", PASSING_BYTES)

    def of(self, pod: Pod) -> Share:
        """Return the share of a pod of a store. Raises QuantityError."""
        return self._remembered(pod, self._of_parts)

    def of_passing(self, pod: Pod) -> Share:
        """Return the share of a pod that may have come with a call, possibly repeatedly."""
        return self._remembered(pod, self._of_passing)

    def forget(self) -> None:
        """Compute all shares anew: a node has a resource that was not counted so far."""
        self._of_parts.clear()
        self._of_passing.clear()
        self.is_incomplete = False

    def _remembered(self, pod: Pod, in_: BoundedLru[tuple[int, ...], tuple[Share, _Parts]]) -> Share:
        spec = pod.spec
        reported = _reported(pod.status)
        if reported is None or spec.overhead or spec.resources is not None:
            return self._work_out(pod)
        parts = (spec.containers, spec.init_containers, *reported)
        key = tuple(map(id, parts))
        known = self._of_parts.get(key) or self._of_passing.get(key)
        if known is not None:
            return known[0]
        share = self._work_out(pod)
        in_.put(key, (share, parts), _parts_size(pod))  # the parts are kept, so that ids are not reused
        return share

    def _work_out(self, pod: Pod) -> Share:
        amounts = resources.pod_node_request_vector(pod)
        counted = {self._column(name): amount for name, amount in amounts.items()}
        counted.pop(None, None)
        share = ((*counted, PODS), (*counted.values(), 1), resources.pod_nonzero_request(pod))
        return self._shares.get(share)  # type: ignore[arg-type]

    def _column(self, name: str) -> int | None:
        column = self._axis.get(name)
        if column is None and self._names_left:
            self._names_left -= 1
            column = self._axis.add(name)
            self._widen()
        self.is_incomplete |= column is None
        return column


def _itself(share: Share) -> Share:
    return share


def _share_size(share: Share, _: Share) -> int:
    return 400 + 48 * len(share[0])


def _parts_size(pod: Pod) -> int:
    """Estimate the bytes of a pod's containers."""
    size = 600
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        amounts = len(container.resources.requests) + len(container.resources.limits)
        size += 600 + 250 * (amounts + len(container.ports)) + len(container.image) + len(container.name)
    return size + 1000 * len(pod.status.container_statuses)


def _reported(status: PodStatus) -> list[Any] | None:
    """The resources allocated to a pod's containers, if known; None if other parts matter too."""
    reported: list[Any] = []
    for container in status.container_statuses:
        if container.resources is not None:
            reported += (container.name, container.resources, container.allocated_resources)
    for container in status.init_container_statuses:
        if container.resources is not None:
            reported += (container.name, container.resources, container.allocated_resources)
    if reported and any(condition.type == "PodResizePending" for condition in status.conditions):
        return None
    return reported
