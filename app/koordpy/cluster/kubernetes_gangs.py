"""Whose the gangs are that pods name with Kubernetes' own API: kube-scheduler's, or koordpy's.

kube-scheduler gates these gangs itself where its feature gates say so (GangScheduling, from 1.37 on part of
GenericWorkload). Two schedulers that each wait for all members of a gang are in each other's way, so koordpy
then leaves pods that name a group alone, also those with gang labels. Otherwise its own gates, named after
the fields, choose whether `spec.workloadRef` and `spec.schedulingGroup` make gangs. Both are decided for a
pod on its way into the store, so that all else knows only one kind of gang.
"""

from typing import Final

from koordpy.api.core import Pod
from koordpy.api.gang.kubernetes_group import as_member, group_name, names_group
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage

from .store import Store

WORKLOAD_REF: Final = "WorkloadRef"
"""Pods with `spec.workloadRef` are gangs, as their Workload of `scheduling.k8s.io/v1alpha1` says."""

SCHEDULING_GROUP: Final = "SchedulingGroup"
"""Pods with `spec.schedulingGroup` are gangs, as their PodGroup of `scheduling.k8s.io` says."""

SPECS: dict[str, FeatureSpec] = {
    WORKLOAD_REF: FeatureSpec(False, Stage.ALPHA),
    SCHEDULING_GROUP: FeatureSpec(False, Stage.ALPHA),
}


class KubernetesGangs:
    """Decides which pods that name a group of Kubernetes are members of a gang.

    `left_to_kube_scheduler` initially: whether kube-scheduler gates the gangs.
    """

    def __init__(self, gates: FeatureGates, *, left_to_kube_scheduler: bool = False) -> None:
        self._workload_ref = gates.enabled(WORKLOAD_REF)
        self._scheduling_group = gates.enabled(SCHEDULING_GROUP)
        self._left = left_to_kube_scheduler

    @property
    def left_to_kube_scheduler(self) -> bool:
        """Whether kube-scheduler gates the gangs, so that koordpy leaves them alone."""
        return self._left

    def transformed(self, pod: Pod) -> Pod:
        """Return a pod as everything that schedules sees it."""
        if not names_group(pod):
            return pod
        name = group_name(pod, workload_ref=self._workload_ref, scheduling_group=self._scheduling_group)
        return as_member(pod, name, left_to_kube_scheduler=self._left)

    def leave_to_kube_scheduler(self, leave: bool, pods: Store[Pod]) -> None:
        """Change whether kube-scheduler gates the gangs, and the pods that are known already."""
        if leave == self._left:
            return
        self._left = leave
        for pod in list(pods):
            changed = self.transformed(pod)
            if changed is not pod:
                pods.put(changed)
