"""When pods of gangs are retried beside kube-scheduler: once their group has become complete."""

from collections.abc import Iterator, Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id, names_pod_group
from koordpy.api.gang.settings import GangDefaults, settings_of_pod
from koordpy.api.koordinator import PodGroup
from koordpy.api.meta import KubeObject
from koordpy.api.network_topology import DEFAULT_NAME, ClusterNetworkTopology
from koordpy.cluster.store import Store
from koordpy.scheduling.interface import Changed, ChangeHelps
from koordpy.scheduling.interface.handle import Handle

from .eligibility import eligibility
from .state.gang_cache import GangCache

_DEFAULTS = GangDefaults()

INCOMPLETE = ("can't find gang, gangName: ", "gang has not init, gangName: ", " basic check: memberGangs ")
"""Parts of the reasons of pods whose gang is incomplete."""

REASONS = (*INCOMPLETE, " fit; pod ")
"""These, and of pods whose gang has no room."""


class GangWaking:
    """Decides which changes may let refused pods pass, and which pods."""

    def __init__(self, cache: GangCache, pods: Store[Pod]) -> None:
        self._cache, self._pods = cache, pods

    def follow_network(self, handle: Handle) -> None:
        """Retry the pods of gangs that want a place in the network when the network changes.

        A node that is new or moves is in the network some seconds later than kube-scheduler retries them.
        """

        def changed(old: ClusterNetworkTopology, new: ClusterNetworkTopology) -> None:
            if new.metadata.name == DEFAULT_NAME and (old.spec, old.status) != (new.spec, new.status):
                handle.queue.activate(list(self._placed_in_network()))

        handle.cluster.late_store(ClusterNetworkTopology).subscribe(on_update=changed)

    def _placed_in_network(self) -> Iterator[Pod]:
        for gang in self._cache.gangs.values():
            if gang.settings.topology_spec is not None:
                yield from gang.pending.values()

    def events(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """New and changed PodGroups, and members that are new, changed or bound."""
        return {PodGroup: pod_group_helps, Pod: pod_helps}

    def may_pass(self, pods: Sequence[Pod], changed: Changed) -> list[bool]:
        """Return for each pod whether its group is complete and one of its gangs has changed.

        Without a change, when a process begins to lead, those pass whose group has become complete since
        they were told that it is not.
        """
        if not changed:
            return [_was_incomplete(pod) and not eligibility(self._cache, pod).reason for pod in pods]
        gangs = self._changed_gangs(changed)
        return [self._may_pass(pod, gangs) for pod in pods]

    def concerned(self, changed: Changed) -> Iterator[str]:
        """Yield the UIDs of the pending pods of all groups of which a gang has changed."""
        group = {
            id_: None
            for gang in self._cache.known(self._changed_gangs(changed))
            for id_ in (gang.id, *gang.settings.group)
        }
        for gang in self._cache.known(group):
            for pod in gang.pending.values():
                yield pod.metadata.uid

    def _changed_gangs(self, changed: Changed) -> set[str]:
        gangs = set(changed.get(PodGroup, ()))
        for key in changed.get(Pod, ()):
            member = self._pods.by_key(key)
            if member is not None:
                gangs.add(gang_id(member))
        return gangs

    def _may_pass(self, pod: Pod, changed: set[str]) -> bool:
        gang = self._cache.gang_of(pod)
        if gang is None or not any(id_ in changed for id_ in (gang.id, *gang.settings.group)):
            return False
        return not eligibility(self._cache, pod).reason


def _was_incomplete(pod: Pod) -> bool:
    return any(
        reason in each.message
        for each in pod.status.conditions
        if each.type == "PodScheduled"
        for reason in INCOMPLETE
    )


def pod_group_helps(old: PodGroup | None, new: PodGroup | None) -> bool:
    """Return whether a change of a PodGroup may complete a gang: not one of its status."""
    return new is not None and (
        old is None or old.spec != new.spec or old.metadata.annotations != new.metadata.annotations
    )


def pod_helps(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a change of a pod may complete its gang, or satisfy it."""
    if new is None:
        return False
    id_ = gang_id(new)
    if not id_:
        return False
    if old is None or gang_id(old) != id_ or old.spec.node_name != new.spec.node_name:
        return True
    if old.metadata.annotations == new.metadata.annotations or names_pod_group(new):
        return False
    return settings_of_pod(old, id_, _DEFAULTS) != settings_of_pod(new, id_, _DEFAULTS)
