"""When a pod that its quota refused is worth another attempt.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/plugin.go` (`EventsToRegister` and its hints). Of the
changes that Koordinator's hints let pass, only those wake a pod after which its quota has room for it: a
change elsewhere in the tree may give room too (another quota requests less, or there are more nodes), and a
change of the quota itself may give none.
"""

from collections.abc import Mapping, Sequence

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import KubeObject
from koordpy.scheduling.interface import ChangeHelps
from koordpy.scheduling.interface.cycle_state import CycleState

from .admission import QuotaCheck
from .state.quota_changes import says_the_same


def quota_may_help(old: ElasticQuota | None, new: ElasticQuota | None) -> bool:
    """Return whether a change of a quota may give room; its status is written all the time."""
    return old is None or new is None or not says_the_same(old, new)


def pod_may_help(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a pod that ends, leaves its quota, requests less, or is promised no node any more may
    give room to others.
    """
    if old is None:
        return False
    if new is None or (new.is_terminal and not old.is_terminal):
        return True
    if bool(new.metadata.deletion_timestamp) != bool(old.metadata.deletion_timestamp):
        return True
    if old.status.nominated_node_name and not (new.status.nominated_node_name or new.spec.node_name):
        return True
    if new.metadata.labels != old.metadata.labels or new.spec.containers != old.spec.containers:
        return True
    return new.spec.init_containers != old.spec.init_containers or new.spec.resources != old.spec.resources


def node_may_help(old: Node | None, new: Node | None) -> bool:
    """Return whether a node adds to what there is to distribute."""
    if new is None:
        return False
    return old is None or old.status.allocatable != new.status.allocatable


EVENTS: Mapping[type[KubeObject], ChangeHelps] = {
    ElasticQuota: quota_may_help,
    Pod: pod_may_help,
    Node: node_may_help,
}
"""The changes after which refused pods are checked again."""


def have_room(check: QuotaCheck, pods: Sequence[Pod]) -> list[bool]:
    """Return which pods their quotas have room for now, or do not limit any more."""
    found = []
    for pod in pods:
        status = check.check(CycleState(), pod)
        found.append(status.is_success or status.is_skip)
    return found
