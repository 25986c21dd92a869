"""What pods take of their nodes, worked out once a workload.

The pods of a workload ask for the same, and a store keeps their equal parts as one object
(`koordpy.cluster.sharing`). So which objects a pod is made of tells what it takes, without a look inside.
"""

from collections.abc import Callable
from typing import Any

from koordpy.api import resources
from koordpy.api.core import Pod, PodStatus

from .columns import PODS

Share = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int]]
"""Columns, the amounts in them, and the non-zero amounts. Pods of one workload have one share together."""

KEPT = 65_536
"""Shares, and makings of pods, that are remembered; then all are forgotten and remembering starts anew."""

PASSING = 512
"""The same for pods that are in no store but come with calls: each time their parts are other objects."""


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
        """Return the share of a pod that perhaps came with a call, and may come any number of times."""
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
            known = in_[key] = self._work_out(pod), parts  # kept alive: no other gets their ids
        return known[0]

    def _work_out(self, pod: Pod) -> Share:
        amounts = resources.pod_node_request_vector(pod)
        columns = (*map(self._column_of, amounts), PODS)
        share = (columns, (*amounts.values(), 1), resources.pod_nonzero_request(pod))
        if len(self._shares) >= KEPT:
            self._shares.clear()
        return self._shares.setdefault(share, share)


def _reported(status: PodStatus) -> list[Any] | None:
    """What a pod's containers were given, as far as it is known; None where that is not all that counts."""
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
