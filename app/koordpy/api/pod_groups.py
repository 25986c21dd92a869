"""Groups of pods as Kubernetes itself describes them: Workload and PodGroup of `scheduling.k8s.io`.

Kubernetes 1.35 has the Workload alone (v1alpha1), with the policies of its groups in it; pods name one in
`spec.workloadRef`. From 1.36 on each group is a PodGroup, which pods name in `spec.schedulingGroup`
(v1alpha2, since 1.37 v1beta1), and Workloads have only templates, which no scheduler reads. Only what decides
whether pods are a gang is decoded. Source: KEP-4671, and `k8s.io/api/scheduling` of these releases.
"""

import msgspec

from .meta import KubeObject, Struct


class BasicSchedulingPolicy(Struct):
    """The pods of the group are scheduled one by one."""


class GangSchedulingPolicy(Struct):
    """The pods of the group are scheduled once there is room for `min_count` of them."""

    min_count: int = 0


class SchedulingPolicy(Struct):
    """How the pods of a group are scheduled: one of these."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class WorkloadPodGroup(Struct):
    """One group of a Workload, by its name."""

    name: str = ""
    policy: SchedulingPolicy = msgspec.field(default_factory=SchedulingPolicy)


class Workload(KubeObject):
    """The groups of pods of an application, in Kubernetes 1.35."""

    class Spec(Struct):
        """The groups."""

        pod_groups: list[WorkloadPodGroup] = []

    spec: Spec = msgspec.field(default_factory=Spec)


class KubernetesPodGroup(KubeObject):
    """A group of pods, since Kubernetes 1.37. Unlike the PodGroup of scheduler-plugins it is built in."""

    class Spec(Struct):
        """How its pods are scheduled."""

        scheduling_policy: SchedulingPolicy = msgspec.field(default_factory=SchedulingPolicy)

    spec: Spec = msgspec.field(default_factory=Spec)


class KubernetesPodGroupV1Alpha2(KubernetesPodGroup):
    """The same in Kubernetes 1.36."""
