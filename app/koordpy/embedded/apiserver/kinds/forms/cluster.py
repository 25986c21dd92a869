"""The forms of Services, ConfigMaps, Secrets, Namespaces and role bindings."""

import msgspec

from .form import Form


class _ServicePort(Form):
    port: int | None = None
    target_port: int | str | None = None
    protocol: str | None = None
    name: str | None = None
    node_port: int | None = None


class _ServiceSpec(Form):
    type: str | None = None
    session_affinity: str | None = None
    selector: dict[str, str] | None = None
    ports: list[_ServicePort] | None = None
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    cluster_ips: list[str] | None = msgspec.field(default=None, name="clusterIPs")
    external_ips: list[str] | None = msgspec.field(default=None, name="externalIPs")
    external_name: str | None = None


class Service(Form):
    """A Service."""

    spec: _ServiceSpec | None = None


class Texts(Form):
    """A ConfigMap or a Secret."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None
    string_data: dict[str, str] | None = None
    immutable: bool | None = None
    type: str | None = None


class _Subject(Form):
    kind: str | None = None
    name: str | None = None


class RoleBinding(Form):
    """A RoleBinding or a ClusterRoleBinding."""

    subjects: list[_Subject] | None = None


class _NamespaceSpec(Form):
    finalizers: list[str] | None = None


class _NamespaceStatus(Form):
    phase: str | None = None


class Namespace(Form):
    """A Namespace."""

    spec: _NamespaceSpec | None = None
    status: _NamespaceStatus | None = None
