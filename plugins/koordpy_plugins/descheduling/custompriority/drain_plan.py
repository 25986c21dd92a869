"""Whether all pods of a node would find room on cheaper nodes, with the room of earlier drains taken.

Source: Koordinator, `pkg/descheduler/framework/plugins/custompriority`.
"""

from collections.abc import Iterable, Sequence

from koordpy.api.core import Node, Pod
from koordpy.descheduling.toolkit.node_fit import NodeFit

from .requests import container_requests, in_milli, in_units

_RESOURCES = ("cpu", "memory")
_MILLI = 1_000_000


class Room:
    """The unrequested cpu and memory of target nodes, less what was planned to move there."""

    def __init__(self, targets: Sequence[Node], fit: NodeFit, *, check_fit: bool) -> None:
        """With `check_fit`, a pod must also fit a node as it is now, before any move."""
        self._targets, self._fit, self._check_fit = targets, fit, check_fit
        self._left = {
            node.metadata.name: {name: fit.left(node, name) // _MILLI for name in _RESOURCES}
            for node in targets
        }
        """Thousandths of cores and of bytes, by node."""

    def take(self, pods: Iterable[Pod]) -> bool:
        """Plan to move every pod, in order, to the first node with room; without room for all, for none."""
        left = {name: dict(amounts) for name, amounts in self._left.items()}
        if not all(self._placed(pod, left) for pod in pods):
            return False
        self._left = left
        return True

    def _placed(self, pod: Pod, left: dict[str, dict[str, int]]) -> bool:
        requests = container_requests(pod)
        for node in self._targets:
            room = left[node.metadata.name]
            if self._check_fit and not self._fit.fits(pod, node):
                continue
            if any(in_milli(requests[name]) > amount for name, amount in room.items() if name in requests):
                continue
            room["cpu"] -= in_milli(requests.get("cpu", 0))
            room["memory"] -= in_units(requests.get("memory", 0)) * 1000
            return True
        return False
