"""What a pod's quota would use if pods were evicted from a node, and whether the pod would then have room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from koordpy.api.core import Pod
from koordpy.scheduling.preemption import Limit

from ..state.amounts import Amounts, exceeded, masked, minus_not_negative, plus
from ..state.quota_info import QuotaInfo

Requests = Callable[[Pod], Amounts]
"""Returns what a pod requests."""


@dataclass(slots=True)
class QuotaLimit(Limit):
    """Koordinator's rule: only the pod's own quota counts, and only what the pod requests.

    `used` and `limit` are those of the attempt. Pods of other quotas change nothing.
    """

    info: QuotaInfo
    used: Amounts
    limit: Amounts
    request: Amounts
    requests: Requests
    _used_without: dict[str, Amounts] = field(default_factory=dict)
    """What is used without the pods that were removed, by node name."""

    def took(self, node_name: str, pod: Pod) -> None:
        """Subtract a pod of the quota."""
        if self.info.has(pod):
            amounts = masked(self.requests(pod), self.info.max)
            self._used_without[node_name] = minus_not_negative(self._used(node_name), amounts)

    def gave_back(self, node_name: str, pod: Pod) -> None:
        """Add a pod of the quota."""
        if self.info.has(pod):
            amounts = masked(self.requests(pod), self.info.max)
            self._used_without[node_name] = plus(self._used(node_name), amounts)

    def allows(self, node_name: str) -> bool:
        """Return whether the quota has room for the resources that the pod requests."""
        return not exceeded(masked(plus(self._used(node_name), self.request), self.request), self.limit)

    def _used(self, node_name: str) -> Amounts:
        return self._used_without.get(node_name, self.used)


@dataclass(frozen=True, slots=True)
class Step:
    """A quota on the way to the root, as PreFilter checks it.

    `names` are the resources that are compared, None for all that are used or requested.
    """

    used: Amounts
    limit: Amounts
    names: Amounts | None = None


@dataclass(slots=True)
class PathLimit(Limit):
    """koordpy's rule: with the pods gone, the pod has to pass the very check that rejected it.

    `steps` are the quota and, where they are checked, its ancestors. `request` is limited to the resources of
    the quota, as is what removed pods free. `refuses` is true where evictions do not help, because
    pods that cannot be preempted exceed the minimum.
    """

    info: QuotaInfo
    steps: Sequence[Step]
    request: Amounts
    requests: Requests
    refuses: bool = False
    _freed: dict[str, Amounts] = field(default_factory=dict)

    def took(self, node_name: str, pod: Pod) -> None:
        """Free what a pod of the quota uses."""
        if self.info.is_assigned(pod):
            amounts = masked(self.requests(pod), self.info.max)
            self._freed[node_name] = plus(self._freed.get(node_name, {}), amounts)

    def gave_back(self, node_name: str, pod: Pod) -> None:
        """Use it again."""
        if self.info.is_assigned(pod):
            amounts = masked(self.requests(pod), self.info.max)
            self._freed[node_name] = minus_not_negative(self._freed.get(node_name, {}), amounts)

    def allows(self, node_name: str) -> bool:
        """Return whether every step has room for the pod."""
        if self.refuses:
            return False
        freed = self._freed.get(node_name, {})
        for step in self.steps:
            wanted = plus(minus_not_negative(step.used, masked(freed, step.used)), self.request)
            if exceeded(wanted if step.names is None else masked(wanted, step.names), step.limit):
                return False
        return True
