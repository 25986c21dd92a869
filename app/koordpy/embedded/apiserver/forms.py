"""The JSON types of kinds that the API structs do not cover, as far as the rules of a kind read them.

A document that does not have them is refused before any rule looks at it.
"""

import re
from typing import Any

import msgspec

from .errors import bad_request

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


class _Form(msgspec.Struct, rename="camel"):
    pass


class _Names(_Form):
    plural: str | None = None
    singular: str | None = None
    kind: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Column(_Form):
    name: str
    type: str
    json_path: str
    priority: int | None = None
    format: str | None = None
    description: str | None = None


class _SelectableField(_Form):
    json_path: str


class _VersionSchema(_Form):
    open_apiv3_schema: dict[str, Any] | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Version(_Form):
    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    schema: _VersionSchema | None = None
    subresources: dict[str, dict[str, Any]] | None = None
    additional_printer_columns: list[_Column] | None = None
    selectable_fields: list[_SelectableField] | None = None


class _Conversion(_Form):
    strategy: str | None = None


class _DefinitionSpec(_Form):
    group: str | None = None
    scope: str | None = None
    names: _Names | None = None
    versions: list[_Version] | None = None
    conversion: _Conversion | None = None


class Definition(_Form):
    """A CustomResourceDefinition."""

    spec: _DefinitionSpec | None = None
    status: dict[str, Any] | None = None


class _Expression(_Form):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class _Selector(_Form):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class _Rule(_Form):
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    scope: str | None = None


class _Service(_Form):
    namespace: str | None = None
    name: str | None = None
    path: str | None = None
    port: int | None = None


class _Client(_Form):
    url: str | None = None
    service: _Service | None = None
    ca_bundle: str | None = None


class _Condition(_Form):
    name: str | None = None
    expression: str | None = None


class _Webhook(_Form):
    name: str | None = None
    client_config: _Client | None = None
    rules: list[_Rule] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: _Selector | None = None
    object_selector: _Selector | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None
    admission_review_versions: list[str] | None = None
    reinvocation_policy: str | None = None
    match_conditions: list[_Condition] | None = None


class WebhookConfiguration(_Form):
    """A Mutating- or ValidatingWebhookConfiguration."""

    webhooks: list[_Webhook] | None = None


class _ServicePort(_Form):
    port: int | None = None
    target_port: int | str | None = None
    protocol: str | None = None
    name: str | None = None


class _ServiceSpec(_Form):
    type: str | None = None
    session_affinity: str | None = None
    selector: dict[str, str] | None = None
    ports: list[_ServicePort] | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")


class Service(_Form):
    """A Service."""

    spec: _ServiceSpec | None = None


class Texts(_Form):
    """A ConfigMap or a Secret."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    string_data: dict[str, str] | None = None
    immutable: bool | None = None
    type: str | None = None


class _Reference(_Form):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class _Source(_Form):
    component: str | None = None
    host: str | None = None


class _Series(_Form):
    count: int | None = None
    last_observed_time: str | None = None


class Event(_Form):
    """A core event."""

    involved_object: _Reference | None = None
    related: _Reference | None = None
    reason: str | None = None
    message: str | None = None
    source: _Source | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int | None = None
    type: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    action: str | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


class _Named(_Form):
    name: str | None = None


class _FieldReference(_Form):
    api_version: str | None = None
    field_path: str | None = None


class _ValueSource(_Form):
    field_ref: _FieldReference | None = None


class _Variable(_Form):
    name: str | None = None
    value: str | None = None
    value_from: _ValueSource | None = None


class _Port(_Form):
    name: str | None = None
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None


class _Mount(_Form):
    name: str | None = None
    mount_path: str | None = None


class _HttpGet(_Form):
    path: str | None = None
    scheme: str | None = None


class _Probe(_Form):
    http_get: _HttpGet | None = None
    timeout_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None


class _Resources(_Form):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class _Lifecycle(_Form):
    post_start: _Probe | None = None
    pre_stop: _Probe | None = None


class _Container(_Form):
    lifecycle: _Lifecycle | None = None
    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    ports: list[_Port] | None = None
    env: list[_Variable] | None = None
    volume_mounts: list[_Mount] | None = None
    resources: _Resources | None = None
    liveness_probe: _Probe | None = None
    readiness_probe: _Probe | None = None
    startup_probe: _Probe | None = None


class _VolumeItem(_Form):
    field_ref: _FieldReference | None = None


class _DownwardVolume(_Form):
    items: list[_VolumeItem] | None = None


class _TokenSource(_Form):
    expiration_seconds: int | None = None


class _ProjectedSource(_Form):
    service_account_token: _TokenSource | None = None
    downward_api: _DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")


class _Projected(_Form):
    sources: list[_ProjectedSource] | None = None


class _EmptyDir(_Form):
    medium: str | None = None
    size_limit: str | int | float | None = None


class _Volume(_Form):
    name: str | None = None
    empty_dir: _EmptyDir | None = None
    host_path: dict[str, Any] | None = None
    secret: dict[str, Any] | None = None
    config_map: dict[str, Any] | None = None
    downward_api: _DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    projected: _Projected | None = None


class _Toleration(_Form):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class _PodSpec(_Form):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    restart_policy: str | None = None
    dns_policy: str | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    service_account_name: str | None = None
    service_account: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    host_network: bool | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    tolerations: list[_Toleration] | None = None
    scheduling_gates: list[_Named] | None = None
    affinity: dict[str, Any] | None = None
    resources: _Resources | None = None
    overhead: dict[str, str | int | float] | None = None


class _StatusCondition(_Form):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class _PodStatus(_Form):
    phase: str | None = None
    reason: str | None = None
    conditions: list[_StatusCondition] | None = None
    container_statuses: list[dict[str, Any]] | None = None
    nominated_node_name: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")


class Pod(_Form):
    """A Pod."""

    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _TemplateMetadata(_Form):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(_Form):
    metadata: _TemplateMetadata | None = None
    spec: _PodSpec | None = None


class _ReplicationControllerSpec(_Form):
    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: _Template | None = None


class ReplicationController(_Form):
    """A ReplicationController."""

    spec: _ReplicationControllerSpec | None = None
    status: dict[str, Any] | None = None


class _JobSpec(_Form):
    template: _Template | None = None


class _JobTemplate(_Form):
    metadata: _TemplateMetadata | None = None
    spec: _JobSpec | None = None


class _ClaimSpec(_Form):
    access_modes: list[str] | None = None
    resources: _Resources | None = None


class Claim(_Form):
    """A PersistentVolumeClaim, or the template of one."""

    spec: _ClaimSpec | None = None


class _CronJobSpec(_Form):
    schedule: str | None = None
    job_template: _JobTemplate | None = None


class CronJob(_Form):
    """A CronJob."""

    spec: _CronJobSpec | None = None


class _Subject(_Form):
    kind: str | None = None
    name: str | None = None


class RoleBinding(_Form):
    """A RoleBinding or a ClusterRoleBinding."""

    subjects: list[_Subject] | None = None


class _WorkloadSpec(_Form):
    volume_claim_templates: list[Claim] | None = None
    replicas: int | None = None
    selector: _Selector | None = None
    completions: int | None = None
    parallelism: int | None = None
    backoff_limit: int | None = None
    template: _Template | None = None
    strategy: dict[str, Any] | None = None
    update_strategy: dict[str, Any] | None = None


class Workload(_Form):
    """What has a pod template."""

    spec: _WorkloadSpec | None = None
    status: dict[str, Any] | None = None


class _Preconditions(_Form):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(_Form):
    """The options of a deletion."""

    kind: str | None = None
    api_version: str | None = None
    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: list[str] | None = None


class Eviction(_Form):
    """An Eviction."""

    delete_options: DeleteOptions | None = None


class _ReviewSpec(_Form):
    token: str | None = None
    audiences: list[str] | None = None
    resource_attributes: dict[str, Any] | None = None
    non_resource_attributes: dict[str, Any] | None = None
    user: str | None = None
    groups: list[str] | None = None


class Review(_Form):
    """A TokenReview or a SubjectAccessReview."""

    metadata: dict[str, Any] | None = None
    spec: _ReviewSpec | None = None


class _NamespaceSpec(_Form):
    finalizers: list[str] | None = None


class _NamespaceStatus(_Form):
    phase: str | None = None


class Namespace(_Form):
    """A Namespace."""

    spec: _NamespaceSpec | None = None
    status: _NamespaceStatus | None = None


def check_micro_time(kind: str, path: str, value: Any) -> None:
    """Raise ApiError (400) for what is no time with microseconds (a MicroTime)."""
    if value is not None and not (isinstance(value, str) and _MICRO_TIME.fullmatch(value)):
        raise bad_request(
            f"{kind} cannot be handled as a {kind}: {path}: parsing time {value!r} "
            'as "2006-01-02T15:04:05.000000Z07:00"'
        )


def check(kind: str, document: Any, type_: type) -> None:
    """Raise ApiError (400) where a document does not have the types of a form."""
    try:
        msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise bad_request(f"the object cannot be handled as a {kind}: {error}") from None


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
