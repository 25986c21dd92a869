"""The JSON types of kinds that the API structs do not cover, of the fields that a kind's rules read.

A document of other types is rejected before any rule applies. A module has the forms of one kind, or of a few
related ones.
"""

from .autoscaler import Autoscaler
from .cluster import Namespace, RoleBinding, Service, Texts
from .definition import Definition
from .endpoints import Endpoints, EndpointSlice
from .event import Event, check_micro_time
from .form import check
from .ingress import Ingress, IngressClass, NetworkPolicy
from .pod import Pod
from .request import DeleteOptions, Eviction, Review, TokenRequest
from .signing_request import SigningRequest
from .webhook_configuration import WebhookConfiguration
from .workload import Claim, CronJob, ReplicationController, Workload

__all__ = ["BY_KIND", "DeleteOptions", "Eviction", "Review", "TokenRequest", "check", "check_micro_time"]

BY_KIND: dict[str, type] = {
    "CertificateSigningRequest": SigningRequest,
    "ClusterRoleBinding": RoleBinding,
    "ConfigMap": Texts,
    "CronJob": CronJob,
    "CustomResourceDefinition": Definition,
    "DaemonSet": Workload,
    "Deployment": Workload,
    "Endpoints": Endpoints,
    "EndpointSlice": EndpointSlice,
    "Event": Event,
    "HorizontalPodAutoscaler": Autoscaler,
    "Ingress": Ingress,
    "IngressClass": IngressClass,
    "Job": Workload,
    "MutatingWebhookConfiguration": WebhookConfiguration,
    "Namespace": Namespace,
    "NetworkPolicy": NetworkPolicy,
    "PersistentVolumeClaim": Claim,
    "Pod": Pod,
    "ReplicaSet": Workload,
    "ReplicationController": ReplicationController,
    "RoleBinding": RoleBinding,
    "Secret": Texts,
    "Service": Service,
    "StatefulSet": Workload,
    "ValidatingWebhookConfiguration": WebhookConfiguration,
}
