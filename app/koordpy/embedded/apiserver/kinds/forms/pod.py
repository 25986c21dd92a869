"""The form of Pods."""

from typing import Any

import msgspec

from .form import Form, Resources


class _Named(Form):
    name: str | None = None


class _FieldReference(Form):
    api_version: str | None = None
    field_path: str | None = None


class _ValueSource(Form):
    field_ref: _FieldReference | None = None


class _Variable(Form):
    name: str | None = None
    value: str | None = None
    value_from: _ValueSource | None = None


class _Port(Form):
    name: str | None = None
    container_port: int | None = None
    host_port: int | None = None
    protocol: str | None = None


class _Mount(Form):
    name: str | None = None
    mount_path: str | None = None


class _HttpGet(Form):
    path: str | None = None
    scheme: str | None = None


class _Probe(Form):
    http_get: _HttpGet | None = None
    timeout_seconds: int | None = None
    period_seconds: int | None = None
    success_threshold: int | None = None
    failure_threshold: int | None = None


class _Lifecycle(Form):
    post_start: _Probe | None = None
    pre_stop: _Probe | None = None


class _Container(Form):
    lifecycle: _Lifecycle | None = None
    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    termination_message_path: str | None = None
    termination_message_policy: str | None = None
    ports: list[_Port] | None = None
    env: list[_Variable] | None = None
    volume_mounts: list[_Mount] | None = None
    resources: Resources | None = None
    liveness_probe: _Probe | None = None
    readiness_probe: _Probe | None = None
    startup_probe: _Probe | None = None


class _VolumeItem(Form):
    field_ref: _FieldReference | None = None


class _DownwardVolume(Form):
    items: list[_VolumeItem] | None = None


class _TokenSource(Form):
    expiration_seconds: int | None = None


class _ProjectedSource(Form):
    service_account_token: _TokenSource | None = None
    downward_api: _DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")


class _Projected(Form):
    sources: list[_ProjectedSource] | None = None


class _EmptyDir(Form):
    medium: str | None = None
    size_limit: str | int | float | None = None


class _Volume(Form):
    name: str | None = None
    empty_dir: _EmptyDir | None = None
    host_path: dict[str, Any] | None = None
    secret: dict[str, Any] | None = None
    config_map: dict[str, Any] | None = None
    downward_api: _DownwardVolume | None = msgspec.field(default=None, name="downwardAPI")
    projected: _Projected | None = None


class _Toleration(Form):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class PodSpec(Form):
    """The spec of a Pod, or of the template of one."""

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
    resources: Resources | None = None
    overhead: dict[str, str | int | float] | None = None


class _StatusCondition(Form):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class _PodStatus(Form):
    phase: str | None = None
    reason: str | None = None
    conditions: list[_StatusCondition] | None = None
    container_statuses: list[dict[str, Any]] | None = None
    nominated_node_name: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")


class Pod(Form):
    """A Pod."""

    spec: PodSpec | None = None
    status: _PodStatus | None = None
