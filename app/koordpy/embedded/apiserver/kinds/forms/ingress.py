"""The forms of ingresses, their classes, and network policies, of the fields that tables show."""

from .form import Form, Selector


class _Rule(Form):
    host: str | None = None


class _TLS(Form):
    hosts: list[str] | None = None


class _Address(Form):
    ip: str | None = None
    hostname: str | None = None


class _Balancer(Form):
    ingress: list[_Address] | None = None


class _Status(Form):
    load_balancer: _Balancer | None = None


class _IngressSpec(Form):
    ingress_class_name: str | None = None
    rules: list[_Rule] | None = None
    tls: list[_TLS] | None = None


class Ingress(Form):
    """An Ingress."""

    spec: _IngressSpec | None = None
    status: _Status | None = None


class _Parameters(Form):
    api_group: str | None = None
    kind: str | None = None
    name: str | None = None


class _ClassSpec(Form):
    controller: str | None = None
    parameters: _Parameters | None = None


class IngressClass(Form):
    """An IngressClass."""

    spec: _ClassSpec | None = None


class _PolicySpec(Form):
    pod_selector: Selector | None = None


class NetworkPolicy(Form):
    """A NetworkPolicy."""

    spec: _PolicySpec | None = None
