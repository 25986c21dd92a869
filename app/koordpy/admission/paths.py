"""Koordinator's webhook paths, and what each does before its handlers are called.

Source: Koordinator, `pkg/webhook` (`add_*.go` and each path's handler).
"""

from dataclasses import dataclass
from typing import Final

from .handler import CREATE, DELETE, UPDATE

ELASTIC_QUOTA_VALIDATION: Final = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
"""The path that validates ElasticQuotas against the quota tree."""


@dataclass(frozen=True)
class WebhookPath:
    """The requests that a path handles.

    Where `resource` is set, a request for another resource or subresource is allowed unread. The object must
    decode as `kind` of `api_version`, where they are set; on the operations in `old_object` the oldObject
    must too. A DELETE that is listed there has no object, and may have no oldObject; with
    `allows_empty_delete` one without oldObject is allowed unread. Without `reads_object` the object is not
    decoded. Handlers run on `operations` (empty: on all); other operations are allowed once the object is
    decoded. `type` and `object_type` are metric labels.
    """

    path: str
    type: str = ""
    object_type: str = ""
    gate: str | None = None
    resource: str = ""
    sub_resource: str = ""
    api_version: str = ""
    kind: str = ""
    operations: frozenset[str] = frozenset()
    old_object: frozenset[str] = frozenset()
    allows_empty_delete: bool = False
    reads_object: bool = True


PATHS: dict[str, WebhookPath] = {
    path.path: path
    for path in (
        WebhookPath(
            path="/mutate-pod",
            type="mutate",
            object_type="pod",
            gate="PodMutatingWebhook",
            resource="pods",
            api_version="v1",
            kind="Pod",
            operations=frozenset((CREATE,)),
        ),
        WebhookPath(
            path="/mutate-reservation",
            type="mutate",
            object_type="reservation",
            gate="ReservationMutatingWebhook",
            resource="reservations",
            api_version="scheduling.koordinator.sh/v1alpha1",
            kind="Reservation",
            operations=frozenset((CREATE,)),
        ),
        WebhookPath(
            path="/validate-pod",
            type="validate",
            object_type="pod",
            gate="PodValidatingWebhook",
            resource="pods",
            api_version="v1",
            kind="Pod",
            old_object=frozenset((UPDATE,)),
            allows_empty_delete=True,
        ),
        WebhookPath(
            path="/validate-pod-binding",
            type="validate",
            object_type="pod",
            gate="PodValidatingWebhook",
            resource="pods",
            sub_resource="binding",
            operations=frozenset((CREATE,)),
            reads_object=False,
        ),
        WebhookPath(
            path="/mutate-node-status",
            type="mutate",
            object_type="node",
            gate="NodeMutatingWebhook",
            resource="nodes",
            sub_resource="status",
            api_version="v1",
            kind="Node",
            old_object=frozenset((UPDATE, DELETE)),
        ),
        WebhookPath(
            path="/validate-node",
            type="validate",
            object_type="node",
            gate="NodeValidatingWebhook",
            resource="nodes",
            api_version="v1",
            kind="Node",
            old_object=frozenset((UPDATE, DELETE)),
        ),
        WebhookPath(
            path="/validate-configmap",
            type="validate",
            object_type="configmap",
            gate="ConfigMapValidatingWebhook",
            resource="configmaps",
            api_version="v1",
            kind="ConfigMap",
            old_object=frozenset((UPDATE, DELETE)),
        ),
        WebhookPath(
            path="/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota",
            type="mutate",
            object_type="elasticquota",
            gate="ElasticMutatingWebhook",
            resource="elasticquotas",
            api_version="scheduling.sigs.k8s.io/v1alpha1",
            kind="ElasticQuota",
            operations=frozenset((CREATE,)),
        ),
        WebhookPath(
            path=ELASTIC_QUOTA_VALIDATION,
            type="validate",
            object_type="elasticquota",
            gate="ElasticValidatingWebhook",
            resource="elasticquotas",
            api_version="scheduling.sigs.k8s.io/v1alpha1",
            kind="ElasticQuota",
            old_object=frozenset((DELETE,)),
        ),
    )
}


def webhook_path(path: str) -> WebhookPath:
    """Return the definition of a path; one that Koordinator does not have handles every request."""
    return PATHS.get(path) or WebhookPath(path)
