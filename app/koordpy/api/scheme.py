"""Maps structs to resources and their paths in the REST API.

Decoding is in `decoding`, whose names are re-exported here.
"""

from dataclasses import dataclass

import msgspec

from . import (
    core,
    device,
    device_class,
    koordinator,
    network_topology,
    pod_groups,
    pod_migration_job,
    reservation,
    schedule_explanation,
)
from .decoding import MALFORMED, DecodeError, decode, decoder, without_nulls
from .meta import KubeObject

__all__ = [
    "MALFORMED",
    "RESOURCES",
    "DecodeError",
    "Resource",
    "decode",
    "decoder",
    "encode",
    "resource_of",
    "without_nulls",
]


@dataclass(frozen=True)
class Resource:
    """One kind of object in the REST API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[KubeObject]

    @property
    def api_version(self) -> str:
        """`v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection (all namespaces when none is given), object or subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        path = f"{root}{middle}/{self.plural}"
        if name:
            path += f"/{name}"
        return f"{path}/{subresource}" if subresource else path


RESOURCES: dict[type[KubeObject], Resource] = {
    r.type: r
    for r in (
        Resource("", "v1", "pods", "Pod", True, core.Pod),
        Resource("", "v1", "nodes", "Node", False, core.Node),
        Resource("", "v1", "namespaces", "Namespace", False, core.Namespace),
        Resource("", "v1", "configmaps", "ConfigMap", True, core.ConfigMap),
        Resource("", "v1", "secrets", "Secret", True, core.Secret),
        Resource(
            "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, core.PersistentVolumeClaim
        ),
        Resource("", "v1", "services", "Service", True, core.Service),
        Resource(
            "", "v1", "replicationcontrollers", "ReplicationController", True, core.ReplicationController
        ),
        Resource("apps", "v1", "replicasets", "ReplicaSet", True, core.ReplicaSet),
        Resource("apps", "v1", "statefulsets", "StatefulSet", True, core.StatefulSet),
        Resource("apps", "v1", "daemonsets", "DaemonSet", True, core.DaemonSet),
        Resource("apps", "v1", "deployments", "Deployment", True, core.Deployment),
        Resource(
            "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, core.PodDisruptionBudget
        ),
        Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, core.PriorityClass),
        Resource("scheduling.k8s.io", "v1alpha1", "workloads", "Workload", True, pod_groups.Workload),
        Resource(
            "scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True, pod_groups.KubernetesPodGroup
        ),
        Resource(
            "scheduling.k8s.io",
            "v1alpha2",
            "podgroups",
            "PodGroup",
            True,
            pod_groups.KubernetesPodGroupV1Alpha2,
        ),
        Resource("coordination.k8s.io", "v1", "leases", "Lease", True, core.Lease),
        Resource("events.k8s.io", "v1", "events", "Event", True, core.Event),
        Resource(
            "admissionregistration.k8s.io",
            "v1",
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            False,
            core.MutatingWebhookConfiguration,
        ),
        Resource(
            "admissionregistration.k8s.io",
            "v1",
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            False,
            core.ValidatingWebhookConfiguration,
        ),
        Resource(
            "config.koordinator.sh",
            "v1alpha1",
            "clustercolocationprofiles",
            "ClusterColocationProfile",
            False,
            koordinator.ClusterColocationProfile,
        ),
        Resource(
            "scheduling.sigs.k8s.io",
            "v1alpha1",
            "elasticquotas",
            "ElasticQuota",
            True,
            koordinator.ElasticQuota,
        ),
        Resource("scheduling.sigs.k8s.io", "v1alpha1", "podgroups", "PodGroup", True, koordinator.PodGroup),
        Resource(
            "quota.koordinator.sh",
            "v1alpha1",
            "elasticquotaprofiles",
            "ElasticQuotaProfile",
            True,
            koordinator.ElasticQuotaProfile,
        ),
        Resource(
            "slo.koordinator.sh", "v1alpha1", "nodemetrics", "NodeMetric", False, koordinator.NodeMetric
        ),
        Resource(
            "scheduling.koordinator.sh",
            "v1alpha1",
            "reservations",
            "Reservation",
            False,
            reservation.Reservation,
        ),
        Resource(
            "scheduling.koordinator.sh",
            "v1alpha1",
            "podmigrationjobs",
            "PodMigrationJob",
            False,
            pod_migration_job.PodMigrationJob,
        ),
        Resource(
            "scheduling.koordinator.sh",
            "v1alpha1",
            "scheduleexplanations",
            "ScheduleExplanation",
            True,
            schedule_explanation.ScheduleExplanation,
        ),
        Resource("scheduling.koordinator.sh", "v1alpha1", "devices", "Device", False, device.Device),
        Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, device_class.DeviceClass),
        Resource(
            "scheduling.koordinator.sh",
            "v1alpha1",
            "clusternetworktopologies",
            "ClusterNetworkTopology",
            False,
            network_topology.ClusterNetworkTopology,
        ),
        Resource("slo.koordinator.sh", "v1alpha1", "nodeslos", "NodeSLO", False, koordinator.NodeSLO),
        Resource(
            "topology.node.k8s.io",
            "v1alpha1",
            "noderesourcetopologies",
            "NodeResourceTopology",
            False,
            koordinator.NodeResourceTopology,
        ),
    )
}


_VIEWS: dict[type[KubeObject], Resource] = {}


def register(*resources: Resource) -> None:
    """Add structs that one component reads with other fields than the others, or that only it reads."""
    _VIEWS.update((resource.type, resource) for resource in resources)


def resource_of(type_: type[KubeObject]) -> Resource:
    """Return the resource of a struct type. Raises KeyError for a type that no API serves."""
    return RESOURCES.get(type_) or _VIEWS[type_]


def encode(obj: KubeObject) -> bytes:
    """Encode a struct as JSON, with apiVersion and kind filled in."""
    resource = resource_of(type(obj))
    if not obj.kind:
        obj = msgspec.structs.replace(obj, api_version=resource.api_version, kind=resource.kind)
    return msgspec.json.encode(obj)
