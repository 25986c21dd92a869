"""The workload that a pod belongs to: its replicas, and which of its pods are unavailable.

ReplicationControllers, Deployments, ReplicaSets, StatefulSets and OpenKruise's CloneSets and StatefulSets are
followed; any other kind is asked for its `scale` subresource. Source: Koordinator,
`pkg/descheduler/controllers/migration/controllerfinder`.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from koordpy.api import label_selector
from koordpy.api.core import Deployment, Pod, ReplicaSet, ReplicationController, StatefulSet
from koordpy.api.kruise import AdvancedStatefulSet, CloneSet
from koordpy.api.meta import LabelSelector, OwnerReference
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.store import Store

from .scales import Scale, Unresolved

__all__ = ["ControllerFinder", "ScaleSource", "Unresolved", "Workload", "is_available"]

Followed = ReplicationController | ReplicaSet

_DEPLOYMENT: Final = ("apps", "Deployment")
_REPLICA_SET: Final = ("apps", "ReplicaSet")
_TYPES: Final[dict[tuple[str, str], type[Any]]] = {
    ("", "ReplicationController"): ReplicationController,
    _DEPLOYMENT: Deployment,
    _REPLICA_SET: ReplicaSet,
    ("apps", "StatefulSet"): StatefulSet,
    ("apps.kruise.io", "CloneSet"): CloneSet,
    ("apps.kruise.io", "StatefulSet"): AdvancedStatefulSet,
}
_OPTIONAL: Final = frozenset((CloneSet, AdvancedStatefulSet))

MAX_KEPT: Final = 100_000
"""Answers that are kept at most; beyond it all are dropped."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload and its size."""

    kind: str
    name: str
    uid: str
    replicas: int
    is_deleting: bool
    owner_uids: Sequence[str]
    """The UIDs that own its pods: of its ReplicaSets, for a Deployment that was found through one; else its
    own."""


class ScaleSource(Protocol):
    """Knows the scale of workloads of kinds that are not followed; see `Scales`."""

    async def run(self) -> None:
        """Read what is asked for, until cancelled."""
        ...

    def get(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """Return a workload's scale, None if there is none. Raises Unresolved."""
        ...


class ControllerFinder:
    """Finds workloads in the stores of a cluster. Answers are kept until a workload changes."""

    def __init__(self, cluster: Cluster, scales: ScaleSource) -> None:
        self._scales = scales
        self._pods = cluster.store(Pod)
        self._unavailable = self._pods.index(_unavailable_owners)
        self._stores: dict[tuple[str, str], Store[Any]] = {
            key: cluster.store(type_, optional=type_ in _OPTIONAL) for key, type_ in _TYPES.items()
        }
        self._replica_sets = cluster.store(ReplicaSet).index(_controllers)
        self._kept: dict[tuple[str, str, str, str, str], Workload | None] = {}
        for store in self._stores.values():
            store.subscribe(self._changed, self._updated, self._changed, replay=False)

    def _changed(self, _: Followed) -> None:
        self._kept.clear()

    def _updated(self, old: Followed, new: Followed) -> None:
        if old.spec != new.spec or old.metadata.labels != new.metadata.labels or _life(old) != _life(new):
            self._kept.clear()

    def workload_of(self, pod: Pod) -> Workload | None:
        """Return the workload of a pod's controller; None if the pod has none or it does not exist.

        Raises Unresolved for a kind that the API server does not serve, or a scale that cannot be read.
        """
        owner = pod.metadata.controller
        return None if owner is None else self.find(owner, pod.metadata.namespace)

    def find(self, owner: OwnerReference, namespace: str) -> Workload | None:
        """Return the workload that a reference of a pod in a namespace names; None if it does not exist.

        Without a UID in the reference, any object of that name counts. Raises Unresolved.
        """
        key = (namespace, owner.api_version, owner.kind, owner.name, owner.uid)
        try:
            return self._kept[key]
        except KeyError:
            pass
        kind = _kind(owner)
        if kind not in _TYPES:
            return self._by_scale(owner, namespace)
        found = self._followed(kind, owner, namespace)
        if len(self._kept) >= MAX_KEPT:
            self._kept.clear()
        self._kept[key] = found
        return found

    def expected_scale(self, pod: Pod) -> int:
        """Return the replicas of a pod's workload; 0 if it does not exist or is being deleted.

        Raises Unresolved.
        """
        workload = self.workload_of(pod)
        return 0 if workload is None or workload.is_deleting else workload.replicas

    async def run(self) -> None:
        """Ask for the scales of all pods' workloads, and read what is asked for, until cancelled."""
        for pod in self._pods:
            owner = pod.metadata.controller
            if owner is not None and _kind(owner) not in _TYPES:
                with suppress(Unresolved):
                    self._scales.get(owner, pod.metadata.namespace)
        await self._scales.run()

    def unavailable_pods(self, workload: Workload, namespace: str) -> set[str]:
        """Return the workload's pods that are not both active and ready, as `namespace/name`."""
        index = self._unavailable
        return {
            pod.metadata.key
            for uid in workload.owner_uids
            if uid in index
            for pod in index.get(uid)
            if pod.metadata.namespace == namespace
        }

    def _by_scale(self, owner: OwnerReference, namespace: str) -> Workload | None:
        scale = self._scales.get(owner, namespace)
        if scale is None or (owner.uid and scale.uid != owner.uid):
            return None
        return Workload(owner.kind, owner.name, scale.uid, scale.replicas, scale.is_deleting, (scale.uid,))

    def _followed(self, kind: tuple[str, str], owner: OwnerReference, namespace: str) -> Workload | None:
        found: Followed | None = self._stores[kind].get(namespace, owner.name)
        if found is None or (owner.uid and found.metadata.uid != owner.uid):
            return None
        if kind == _REPLICA_SET:
            controller = found.metadata.controller
            if controller is not None and controller.kind == "Deployment":
                return self._deployment_of(controller, namespace)
        return _workload(owner.kind, found, (found.metadata.uid,))

    def _deployment_of(self, owner: OwnerReference, namespace: str) -> Workload | None:
        """The Deployment of a ReplicaSet; it owns the pods of all its ReplicaSets."""
        group = owner.api_version.rpartition("/")[0]
        found: Deployment | None = self._stores[_DEPLOYMENT].get(namespace, owner.name)
        if group != "apps" or found is None or (owner.uid and found.metadata.uid != owner.uid):
            return None
        matcher = _matcher(found.spec.selector)
        uids = tuple(
            replica_set.metadata.uid
            for replica_set in self._replica_sets.get(found.metadata.uid)
            if replica_set.metadata.namespace == namespace and matcher.matches(replica_set.metadata.labels)
        )
        return _workload("Deployment", found, uids or (found.metadata.uid,))


def _kind(owner: OwnerReference) -> tuple[str, str]:
    return owner.api_version.rpartition("/")[0], owner.kind


def _workload(kind: str, found: Followed, owner_uids: Sequence[str]) -> Workload:
    meta, replicas = found.metadata, found.spec.replicas
    is_deleting = meta.deletion_timestamp is not None
    # The API server fills in 1.
    return Workload(kind, meta.name, meta.uid, 1 if replicas is None else replicas, is_deleting, owner_uids)


def _matcher(selector: LabelSelector | None) -> label_selector.Selector:
    try:
        return label_selector.of(selector)
    except label_selector.SelectorError:
        return label_selector.NOTHING


def _life(workload: Followed) -> tuple[object, ...]:
    meta = workload.metadata
    return meta.uid, meta.deletion_timestamp, meta.owner_references


def is_available(pod: Pod) -> bool:
    """Return whether a pod is active (neither ended nor being deleted) and ready."""
    if pod.is_terminal or pod.metadata.deletion_timestamp is not None:
        return False
    return any(item.type == "Ready" and item.status == "True" for item in pod.status.conditions)


def _unavailable_owners(pod: Pod) -> Sequence[str]:
    return () if is_available(pod) else tuple({owner.uid for owner in pod.metadata.owner_references})


def _controllers(replica_set: ReplicaSet) -> Sequence[str]:
    controller = replica_set.metadata.controller
    return () if controller is None else (controller.uid,)
