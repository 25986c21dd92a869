"""The pods of the quotas of one tree.

A pod counts in the request of its quota from when it is seen, and in what the quota uses from when it has a
node or has passed Reserve. Source: Koordinator,
`pkg/scheduler/plugins/elasticquota/core/group_quota_manager.go` (`OnPodAdd`, ..., `UnreservePod`).
"""

from typing import Final

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.quantity import WireQuantity
from koordpy.api.resource_list import Quantities, from_wire
from koordpy.api.resources import pod_requests
from koordpy.lib import duration
from koordpy.lib.bounded_cache import cached
from koordpy.lib.clock import Clock

from .amounts import is_zero, masked, minus
from .latency import measured
from .manager import QuotaManager
from .quota_info import PodInfo, QuotaInfo
from .settings import QuotaSettings

_NOTHING: Final[Quantities] = {}


def _size(amounts: tuple[tuple[str, WireQuantity], ...], _: Quantities) -> int:
    return 400 + sum(300 + 2 * (len(name) + len(str(amount))) for name, amount in amounts)


@cached("quota_requests", 8 << 20, _size)
def _read(amounts: tuple[tuple[str, WireQuantity], ...]) -> Quantities:
    """Read a resource list. Most pods request the same as others, and share the result."""
    return from_wire(dict(amounts))


def is_non_preemptible(pod: Pod) -> bool:
    """Return whether a pod may use the minimum of its quota alone, and is never preempted for its quota."""
    return pod.metadata.labels.get(extension.LABEL_QUOTA_PREEMPTIBLE) == "false"


class PodAccounts(QuotaManager):
    """A tree with its pods."""

    def __init__(self, tree: str, settings: QuotaSettings, clock: Clock) -> None:
        super().__init__(tree, settings)
        self._clock = clock

    def requests(self, pod: Pod) -> Quantities:
        """Return what a pod requests, as quotas count it."""
        spec = pod.spec
        if len(spec.containers) != 1 or spec.init_containers or spec.resources is not None or spec.overhead:
            return pod_requests(pod, overhead=not self.settings.ignores_overhead)
        return _read(tuple(spec.containers[0].resources.requests.items()))

    @measured("OnPodAdd")
    def add_pod(self, name: str, pod: Pod) -> None:
        """Count a pod in a quota, unless it counts there already."""
        info = self.quotas.get(name)
        if info is None or info.has(pod) or self._is_ignored(pod):
            return
        self._count(info, pod)
        if has_node(pod):
            self._assign(info, pod)

    @measured("OnPodUpdate")
    def update_pod(self, new_name: str, old_name: str, new: Pod, old: Pod) -> None:
        """Count what has changed of a pod, which may have changed its quota within the tree."""
        if new_name == old_name:
            info = self.quotas.get(new_name)
            if info is not None:
                self._update_in(info, new, old)
            return
        self._discard(old_name, old, used_first=True)
        info = self.quotas.get(new_name)
        if info is not None and not info.has(new) and not self._is_ignored(new):
            self._count(info, new)
            if has_node(new):
                self._assign(info, new)

    def _update_in(self, info: QuotaInfo, new: Pod, old: Pod) -> None:
        if self._is_ignored(new):
            self._discard(info.name, old)
            return
        if info.has(new):
            self._change_request(info, old, new)
            info.pods[new.metadata.key].pod = new
        else:
            self._count(info, new)
        if info.is_assigned(new):
            self._change_used(info, old, new)
        elif has_node(new):
            self._assign(info, new)

    @measured("OnPodDelete")
    def delete_pod(self, name: str, pod: Pod) -> None:
        """Stop counting a pod."""
        self._discard(name, pod)

    @measured("ReservePod")
    def reserve(self, name: str, pod: Pod) -> None:
        """Count a pod as one that has a node. A pod that does not count in the quota is ignored."""
        info = self.quotas.get(name)
        if info is not None and info.has(pod) and not info.is_assigned(pod):
            self._assign(info, pod)

    @measured("UnreservePod")
    def unreserve(self, name: str, pod: Pod) -> None:
        """Count a pod as one that has no node."""
        info = self.quotas.get(name)
        if info is not None and info.is_assigned(pod):
            self._change_used(info, pod, None)
            info.pods[pod.metadata.key].is_assigned = False

    def migrate(self, pod: Pod, source: str, target: str) -> None:
        """Move a pod from one quota of the tree to another."""
        out, into = self.quotas[source], self.quotas[target]
        is_assigned = out.is_assigned(pod)
        self._change_request(out, pod, None)
        if is_assigned:
            self._change_used(out, pod, None)
        out.pods.pop(pod.metadata.key, None)
        known = into.pods.setdefault(pod.metadata.key, PodInfo(pod, pod, self.requests(pod)))
        known.is_assigned = is_assigned
        self._change_request(into, None, pod)
        if is_assigned:
            self._change_used(into, None, pod)

    # --- accounts --------------------------------------------------------------------------------

    def _count(self, info: QuotaInfo, pod: Pod) -> None:
        info.pods[pod.metadata.key] = PodInfo(pod, pod, self.requests(pod))
        self._change_request(info, None, pod)

    def _assign(self, info: QuotaInfo, pod: Pod) -> None:
        info.pods[pod.metadata.key].is_assigned = True
        self._change_used(info, None, pod)

    def _discard(self, name: str, pod: Pod, *, used_first: bool = False) -> None:
        info = self.quotas.get(name)
        if info is None or not info.has(pod):
            return
        is_assigned = info.is_assigned(pod)
        if is_assigned and used_first:
            self._change_used(info, pod, None)
        self._change_request(info, pod, None)
        if is_assigned and not used_first:
            self._change_used(info, pod, None)
        del info.pods[pod.metadata.key]

    def _change_request(self, info: QuotaInfo, old: Pod | None, new: Pod | None) -> None:
        delta, kept = self._delta(info, old, new)
        if not is_zero(delta) or not is_zero(kept):
            self.add_request(info.name, delta, kept, is_own=True)

    def _change_used(self, info: QuotaInfo, old: Pod | None, new: Pod | None) -> None:
        self.tell_hooks(info.name, old, new)
        delta, kept = self._delta(info, old, new)
        if not is_zero(delta) or not is_zero(kept):
            self.add_used(info.name, delta, kept, is_own=True)

    def _delta(self, info: QuotaInfo, old: Pod | None, new: Pod | None) -> tuple[Quantities, Quantities]:
        """Return the change of what a pod requests, and the part of it that is not preemptible."""
        before = _NOTHING if old is None else self.requests(old)
        after = _NOTHING if new is None else self.requests(new)
        kept_before = before if old is not None and is_non_preemptible(old) else _NOTHING
        kept_after = after if new is not None and is_non_preemptible(new) else _NOTHING
        if after is before and kept_after is kept_before:  # as in most updates
            return _NOTHING, _NOTHING
        return masked(minus(after, before), info.max), masked(minus(kept_after, kept_before), info.max)

    def _is_ignored(self, pod: Pod) -> bool:
        """Return whether a pod does not count because it is being deleted."""
        deleted_at = pod.metadata.deletion_timestamp
        if not deleted_at:
            return False
        if self.settings.ignores_terminating_at_once:
            return True
        if not self.settings.ignores_terminating:
            return False
        # The time of deletion has the grace period in it already; Koordinator adds it again, in 64 bits.
        grace = duration.of_seconds(pod.metadata.deletion_grace_period_seconds or 0)
        try:
            end = parse_time(deleted_at) + grace
        except (ValueError, OverflowError):
            return False  # after the year 9999, or before the first
        return self._clock.now() > end


def has_node(pod: Pod) -> bool:
    """Return whether a pod is bound and has not ended."""
    return bool(pod.spec.node_name) and not pod.is_terminal
