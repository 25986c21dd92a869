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
        taken: list[tuple[dict[str, int], int, int]] = []
        for pod in pods:
            if not self._place(pod, taken):
                for room, cpu, memory in taken:
                    room["cpu"] += cpu
                    room["memory"] += memory
                return False
        return True

    def _place(self, pod: Pod, taken: list[tuple[dict[str, int], int, int]]) -> bool:
        """Take the room of one pod, and note where; nodes that are too full are never looked at closer."""
        requests = container_requests(pod)
        needed = [(name, in_milli(requests[name])) for name in _RESOURCES if name in requests]
        for node in self._targets:
            room = self._left[node.metadata.name]
            if any(amount > room[name] for name, amount in needed):
                continue
            if self._check_fit and not self._fit.fits(pod, node):
                continue
            cpu = in_milli(requests.get("cpu", 0))
            memory = in_units(requests.get("memory", 0)) * 1000
            room["cpu"] -= cpu
            room["memory"] -= memory
            taken.append((room, cpu, memory))
            return True
        return False
