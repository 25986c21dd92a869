"""The JSON types of kinds that the API structs do not cover, as far as the rules of a kind read them.

A document that does not have them is refused before any rule looks at it.
"""

from typing import Any

import msgspec


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


class _Template(_Form):
    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class _WorkloadSpec(_Form):
    replicas: int | None = None
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


class _NamespaceSpec(_Form):
    finalizers: list[str] | None = None


class _NamespaceStatus(_Form):
    phase: str | None = None


class Namespace(_Form):
    """A Namespace."""

    spec: _NamespaceSpec | None = None
    status: _NamespaceStatus | None = None


BY_KIND: dict[str, type] = {
    "ConfigMap": Texts,
    "CustomResourceDefinition": Definition,
    "DaemonSet": Workload,
    "Deployment": Workload,
    "Event": Event,
    "Job": Workload,
    "MutatingWebhookConfiguration": WebhookConfiguration,
    "Namespace": Namespace,
    "ReplicaSet": Workload,
    "ReplicationController": Workload,
    "Secret": Texts,
    "Service": Service,
    "StatefulSet": Workload,
    "ValidatingWebhookConfiguration": WebhookConfiguration,
}
