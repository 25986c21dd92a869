"""Workloads and PodGroups of `scheduling.k8s.io`: how gangs are scheduled that Kubernetes' own API describes.

The types are followed behind their gates only, and readiness does not wait for them: the API server may not
serve them. As in kube-scheduler, pods wait as long as the object that they name, or its group, is missing.
"""

from collections.abc import Callable
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.gang.kubernetes_group import group_name, settings_of_group
from koordpy.api.gang.membership import gang_id, gang_name
from koordpy.api.gang.settings import GangSettings
from koordpy.api.pod_groups import KubernetesPodGroup, KubernetesPodGroupV1Alpha2, Workload
from koordpy.cluster.kubernetes_gangs import SCHEDULING_GROUP, WORKLOAD_REF
from koordpy.cluster.store import Store
from koordpy.scheduling.interface.handle import Handle


class KubernetesGroups:
    """The followed objects, and the gangs whose pods name them.

    `changed` is called with a gang's ID and one of its pods when the gang's object is new, changed or gone.
    """

    def __init__(self, handle: Handle, changed: Callable[[str, Pod], None]) -> None:
        self._changed = changed
        self._workloads: list[Store[Any]] = []
        self._pod_groups: list[Store[Any]] = []
        self._gangs_of: dict[str, dict[str, Pod]] = {}
        """By the key of an object the IDs of its gangs, each with a pod."""
        self._object_of: dict[str, str] = {}
        late = handle.cluster.late_store
        if handle.gates.enabled(WORKLOAD_REF):
            self._workloads.append(late(Workload))
        if handle.gates.enabled(SCHEDULING_GROUP):
            self._pod_groups += (late(KubernetesPodGroup), late(KubernetesPodGroupV1Alpha2))
        for store in (*self._workloads, *self._pod_groups):
            store.subscribe(self._noticed, lambda _, new: self._noticed(new), self._noticed)

    def describe(self, pod: Pod) -> bool:
        """Return whether the pod's gang is the one that its spec names."""
        if not (self._workloads or self._pod_groups):
            return False
        name = gang_name(pod)
        return bool(name) and name == group_name(pod)

    def settings(self, pod: Pod) -> GangSettings | None:
        """Return how the gang that a pod's spec names is scheduled, None as long as its object is missing."""
        key = _object_key(pod)
        for store in self._workloads if pod.spec.workload_ref is not None else self._pod_groups:
            found = store.by_key(key)
            if found is not None:
                return settings_of_group(pod, found, gang_id(pod))
        return None

    def joined(self, pod: Pod) -> None:
        """Remember the gang that a pod's spec names."""
        id_, key = gang_id(pod), _object_key(pod)
        self._object_of[id_] = key
        self._gangs_of.setdefault(key, {})[id_] = pod

    def ended(self, id_: str) -> None:
        """Forget a gang."""
        key = self._object_of.pop(id_, None)
        if key is None:
            return
        gangs = self._gangs_of[key]
        del gangs[id_]
        if not gangs:
            del self._gangs_of[key]

    def _noticed(self, obj: Workload | KubernetesPodGroup) -> None:
        for id_, pod in list(self._gangs_of.get(obj.metadata.key, {}).items()):
            self._changed(id_, pod)


def _object_key(pod: Pod) -> str:
    """Return the key of the object that a pod's spec names."""
    reference, group = pod.spec.workload_ref, pod.spec.scheduling_group
    if reference is not None:
        return f"{pod.metadata.namespace}/{reference.name}"
    return f"{pod.metadata.namespace}/{group.pod_group_name if group is not None else ''}"
