"""The requests of pods as rows of the node table, computed once per workload.

The pods of a workload have the same requests, and a store keeps their equal parts as one object
(`koordpy.cluster.sharing`). So the identities of a pod's parts determine its share.
"""

from collections.abc import Callable
from typing import Any

from koordpy.api import resources
from koordpy.api.core import Pod, PodStatus

from .columns import PODS

Share = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]
"""Columns, the amounts in them, and the non-zero amounts. Pods of one workload share one."""

KEPT = 65_536
"""The number of cached shares; beyond it the cache is cleared."""

PASSING = 512
"""The same for pods that are in no store but come with calls, each time with other objects."""


_Known = dict[tuple[int, ...], tuple[Share, tuple[Any, ...]]]
"""Shares by the identities of parts, with the parts."""


class Shares:
    """The shares of pods, equal ones as one object. `column_of` gives the column of a resource."""

    def __init__(self, column_of: Callable[[str], int]) -> None:
        self._column_of = column_of
        self._shares: dict[Share, Share] = {}
        self._of_parts: _Known = {}
        self._of_passing: _Known = {}

    def of(self, pod: Pod) -> Share:
        """Return the share of a pod of a store. Raises QuantityError."""
        return self._remembered(pod, self._of_parts, KEPT)

    def of_passing(self, pod: Pod) -> Share:
        """Return the share of a pod that may have come with a call, possibly repeatedly."""
        return self._remembered(pod, self._of_passing, PASSING)

    def _remembered(self, pod: Pod, in_: _Known, most: int) -> Share:
        spec = pod.spec
        reported = _reported(pod.status)
        if reported is None or spec.overhead or spec.resources is not None:
            return self._work_out(pod)
        parts = (spec.containers, spec.init_containers, *reported)
        key = tuple(map(id, parts))
        known = self._of_parts.get(key) or in_.get(key)
        if known is None:
            if len(in_) >= most:
                in_.clear()
            known = in_[key] = self._work_out(pod), parts  # kept alive, so that their ids are not reused
        return known[0]

    def _work_out(self, pod: Pod) -> Share:
        amounts = resources.pod_node_request_vector(pod)
        columns = (*map(self._column_of, amounts), PODS)
        share = (columns, (*amounts.values(), 1), resources.pod_nonzero_request(pod))
        if len(self._shares) >= KEPT:
            self._shares.clear()
        return self._shares.setdefault(share, share)


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
