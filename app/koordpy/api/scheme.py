"""Which struct belongs to which resource, where it lives in the REST API, and how bytes become structs."""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from . import core, device, koordinator, network_topology, reservation, schedule_explanation
from .meta import KubeObject

T = TypeVar("T")


class DecodeError(ValueError):
    """A document does not have the shape of its kind; the message names the path and what was expected."""


@dataclass(frozen=True)
class Resource:
    """One kind of object as the REST API serves it."""

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
        Resource("apps", "v1", "deployments", "Deployment", True, core.Deployment),
        Resource(
            "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, core.PodDisruptionBudget
        ),
        Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, core.PriorityClass),
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
            "scheduleexplanations",
            "ScheduleExplanation",
            True,
            schedule_explanation.ScheduleExplanation,
        ),
        Resource("scheduling.koordinator.sh", "v1alpha1", "devices", "Device", False, device.Device),
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


def resource_of(type_: type[KubeObject]) -> Resource:
    """Return where objects of a struct type live. Raises KeyError for a type that no API serves."""
    return RESOURCES[type_]


MALFORMED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON, are no UTF-8, or nest too deeply."""

_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    """Return the (cached) decoder from JSON bytes to a struct type."""
    known = _DECODERS.get(type_)
    if known is None:
        known = _DECODERS[type_] = msgspec.json.Decoder(type_)
    return known


def decode(type_: type[T], raw: bytes | dict[str, Any]) -> T:
    """Decode JSON bytes or a decoded document.

    A null means "absent", as it does for Go's decoder; documents with nulls take a slower way. Raises
    DecodeError naming the path and what was expected there.
    """
    try:
        return decoder(type_).decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, type_)
    except msgspec.ValidationError as first:
        try:
            document = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
            return msgspec.convert(without_nulls(document), type_)
        except msgspec.ValidationError:
            raise DecodeError(f"{type_.__name__}: {first}") from None
        except MALFORMED as error:
            raise DecodeError(f"{type_.__name__}: not JSON: {error}") from None
    except MALFORMED as error:
        raise DecodeError(f"{type_.__name__}: not JSON: {error}") from None


def encode(obj: KubeObject) -> bytes:
    """Encode a struct as JSON, with apiVersion and kind filled in."""
    resource = RESOURCES[type(obj)]
    if not obj.kind:
        obj = msgspec.structs.replace(obj, api_version=resource.api_version, kind=resource.kind)
    return msgspec.json.encode(obj)


def without_nulls(value: Any) -> Any:
    """Return a document without members whose value is null; nulls inside arrays stay."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
