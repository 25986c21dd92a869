"""What the pods of each node request in total, kept current as pods come and go.

Exact amounts, of which Koordinator's and the Kubernetes descheduler's checks of a node's free resources
subtract. The sums of a cluster would cost a second to compute in each cycle.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from koordpy.api import resources
from koordpy.api.core import Pod
from koordpy.api.quantity import QuantityError
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.lib.bounded_lru import BoundedLru

if TYPE_CHECKING:
    from koordpy.cluster.cluster import Cluster

log = logging.getLogger(__name__)

Amounts = Mapping[str, int]
"""Resource name to billionths."""

PARTS_BYTES = 16 << 20

_NOTHING: Final[Amounts] = {}


class PodRequests:
    """The requests of pods, computed once a workload.

    A store keeps the equal parts of pods as one object (`koordpy.cluster.sharing`), so the identities of a
    pod's containers determine its requests.
    """

    def __init__(self) -> None:
        self._of_parts: BoundedLru[tuple[int, int], tuple[Amounts, Any]]
        self._of_parts = BoundedLru("pod_requests", PARTS_BYTES)

    def of(self, pod: Pod) -> Amounts:
        """Return what the spec of a pod requests, in billionths; not to be changed. Raises QuantityError."""
        spec = pod.spec
        if spec.overhead or spec.resources is not None:
            return resources.pod_request_nanos(pod)
        parts = spec.containers, spec.init_containers
        key = id(parts[0]), id(parts[1])
        known = self._of_parts.get(key)
        if known is None:
            # The parts are kept, so that their ids are not reused.
            known = resources.pod_request_nanos(pod), parts
            containers = len(spec.containers) + len(spec.init_containers)
            self._of_parts.put(key, known, 600 + 2_000 * containers)
        return known[0]


class NodeRequests(DerivedState):
    """The sums by node, of pods that have neither succeeded nor failed."""

    def __init__(self, cluster: "Cluster") -> None:
        super().__init__(cluster)
        self.pods = PodRequests()
        self._sums: dict[str, dict[str, int]] = {}
        self.follow(Pod, self._add, self._change, self._remove)

    def on(self, node_name: str) -> Amounts:
        """Return the sums of a node in billionths, without those that are 0; not to be changed or kept."""
        return self._sums.get(node_name, _NOTHING)

    def snapshot(self) -> Snapshot:
        """Return the sums by node."""
        return {name: dict(sums) for name, sums in self._sums.items()}

    def _add(self, pod: Pod) -> None:
        self._count(pod, 1)

    def _remove(self, pod: Pod) -> None:
        self._count(pod, -1)

    def _change(self, old: Pod, new: Pod) -> None:
        if (
            old.spec.node_name == new.spec.node_name
            and old.is_terminal == new.is_terminal
            and self._of(old) is self._of(new)
        ):
            return
        self._count(old, -1)
        self._count(new, 1)

    def _of(self, pod: Pod) -> Amounts:
        """What a pod requests; nothing if it has an invalid amount, which no API server lets pass."""
        try:
            return self.pods.of(pod)
        except QuantityError as error:
            log.warning("the requests of pod %s are not counted: %s", pod.metadata.key, error)
            return _NOTHING

    def _count(self, pod: Pod, sign: int) -> None:
        name = pod.spec.node_name
        if not name or pod.is_terminal:
            return
        amounts = self._of(pod)
        sums = self._sums.setdefault(name, {})
        for resource, amount in amounts.items():
            total = sums.get(resource, 0) + sign * amount
            if total:
                sums[resource] = total
            else:
                sums.pop(resource, None)
        if not sums:
            del self._sums[name]
