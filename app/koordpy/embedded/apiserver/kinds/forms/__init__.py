"""The JSON types of kinds that the API structs do not cover, of the fields that a kind's rules read.

A document of other types is rejected before any rule applies. A module has the forms of one kind, or of a few
related ones.
"""

from .cluster import Namespace, RoleBinding, Service, Texts
from .definition import Definition
from .event import Event, check_micro_time
from .form import check
from .pod import Pod
from .request import DeleteOptions, Eviction, Review
from .webhook_configuration import WebhookConfiguration
from .workload import Claim, CronJob, ReplicationController, Workload

__all__ = ["BY_KIND", "DeleteOptions", "Eviction", "Review", "check", "check_micro_time"]

BY_KIND: dict[str, type] = {
    "ClusterRoleBinding": RoleBinding,
    "ConfigMap": Texts,
    "CronJob": CronJob,
    "CustomResourceDefinition": Definition,
    "DaemonSet": Workload,
    "Deployment": Workload,
    "Event": Event,
    "Job": Workload,
    "MutatingWebhookConfiguration": WebhookConfiguration,
    "Namespace": Namespace,
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
