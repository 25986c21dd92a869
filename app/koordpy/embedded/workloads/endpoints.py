"""Endpoints and EndpointSlices of Services: the addresses of the pods that they select.

Source: Kubernetes, `pkg/controller/endpoint`, `k8s.io/endpointslice`.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from koordpy.api import label_selector
from koordpy.api.meta import Condition, KubeObject, Struct
from koordpy.api.scheme import Resource, register, resource_of
from koordpy.cluster.errors import AlreadyExists, Forbidden, NotFound

from .controller import Context, Controller
from .dependents import Dependents, namespace_of
from .objects import Workload, owner_reference
from .template_hash import suffix

Document = dict[str, Any]

_MOST = 100
"""Endpoints of one slice."""
_MOST_OLD = 1000
"""Addresses of one Endpoints object."""
_NAME_LABEL = "kubernetes.io/service-name"
_MANAGED_LABEL = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"


class Service(Workload):
    """A Service."""


class Backend(KubeObject):
    """What endpoints show of a pod."""

    class Spec(Struct):
        """Where it runs, and its ports."""

        node_name: str = ""
        hostname: str = ""
        subdomain: str = ""
        containers: list[Document] = []

    class BackendStatus(Struct):
        """Its address, and whether it is ready."""

        phase: str = ""
        pod_ip: str = msgspec.field(default="", name="podIP")
        conditions: list[Condition] = []

    spec: Spec = msgspec.field(default_factory=Spec)
    status: BackendStatus = msgspec.field(default_factory=BackendStatus)

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests."""
        return any(item.type == "Ready" and item.status == "True" for item in self.status.conditions)

    @property
    def is_leaving(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def counts(self) -> bool:
        """Whether it has an address and has not ended."""
        return bool(self.status.pod_ip) and self.status.phase not in ("Succeeded", "Failed")


class EndpointSlice(KubeObject):
    """A part of the endpoints of a Service."""

    address_type: str = ""
    endpoints: list[Document] = []
    ports: list[Document] = []


class Endpoints(KubeObject):
    """All endpoints of a Service, in the old form."""

    subsets: list[Document] = []


register(
    Resource("", "v1", "services", "Service", True, Service),
    Resource("", "v1", "pods", "Pod", True, Backend),
    Resource("", "v1", "endpoints", "Endpoints", True, Endpoints),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice),
)
_SLICE, _ENDPOINTS = resource_of(EndpointSlice), resource_of(Endpoints)


class EndpointsController(Controller):
    """Maintains the endpoints of Services with a selector."""

    name = "endpoints-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._services = context.cluster.store(Service)
        self._services_in = self._services.index(namespace_of)
        self._pods = context.cluster.store(Backend)
        self._pods_in = self._pods.index(_label_pairs)
        self._endpoints = context.cluster.store(Endpoints)
        self._slices = Dependents(
            context.cluster.store(EndpointSlice), self._services, self.queue, context.client, adopts=False
        )
        self._services.subscribe(self._changed, lambda _, new: self._changed(new), self._changed)
        self._pods.subscribe(self._pod_changed, self._pod_updated, self._pod_changed)

    def _changed(self, service: Service) -> None:
        self.queue.add(service.metadata.key)

    def _pod_updated(self, old: Backend, new: Backend) -> None:
        if _shown(old) != _shown(new) or old.metadata.labels != new.metadata.labels:
            self._pod_changed(old)
            self._pod_changed(new)

    def _pod_changed(self, pod: Backend) -> None:
        labels = pod.metadata.labels
        for service in self._services_in.get(pod.metadata.namespace):
            selector = service.spec.get("selector")
            if selector and selector.items() <= labels.items():
                self.queue.add(service.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Bring the endpoints of a Service up to date."""
        service = self._services.by_key(key)
        namespace, _, name = key.partition("/")
        if service is None:
            if self._endpoints.get(namespace, name) is not None:
                with suppress(NotFound):
                    await self._client.delete(Endpoints, namespace, name)
            return None
        selector = service.spec.get("selector")
        deleted = service.metadata.deletion_timestamp is not None
        if not selector or service.spec.get("type") == "ExternalName" or deleted:
            return None
        pods = self._selected(namespace, selector)
        try:
            await self._write_slices(service, pods)
            await self._write_endpoints(service, pods)
        except Forbidden as error:
            if "being terminated" not in error.message:
                raise
        return None

    def _selected(self, namespace: str, selector: dict[str, str]) -> list[Backend]:
        first = next(iter(sorted(selector.items())))
        matches = label_selector.of_labels(selector).matches
        candidates = self._pods_in.get(f"{namespace}/{first[0]}={first[1]}")
        found = [pod for pod in candidates if pod.counts and matches(pod.metadata.labels)]
        return sorted(found, key=lambda pod: pod.metadata.name)

    async def _write_slices(self, service: Service, pods: list[Backend]) -> None:
        ignores = bool(service.spec.get("publishNotReadyAddresses"))
        by_ports: dict[bytes, list[Document]] = {}
        for pod in pods:
            ports = msgspec.json.encode(_ports(service, pod))
            by_ports.setdefault(ports, []).append(_endpoint(pod, ignores))
        wanted = [
            (msgspec.json.decode(ports), endpoints[start : start + _MOST])
            for ports, endpoints in by_ports.items()
            for start in range(0, len(endpoints), _MOST)
        ]
        there = sorted(self._slices.of(service), key=lambda item: item.metadata.name)
        for index, (ports, endpoints) in enumerate(wanted):
            content: Document = {"ports": ports, "endpoints": endpoints}
            if index >= len(there):
                await self._create_slice(service, content)
            elif (there[index].ports, there[index].endpoints) != (ports, endpoints):
                await self._patch(there[index], content)
        for surplus in there[max(len(wanted), 1) :]:
            with suppress(NotFound):
                await self._client.delete(
                    EndpointSlice, surplus.metadata.namespace, surplus.metadata.name, uid=surplus.metadata.uid
                )
        if not wanted and there and there[0].endpoints:
            await self._patch(there[0], {"endpoints": []})

    async def _create_slice(self, service: Service, content: Document) -> None:
        meta = service.metadata
        labels = {**meta.labels, _NAME_LABEL: meta.name, _MANAGED_LABEL: _MANAGER}
        document = {
            "apiVersion": _SLICE.api_version,
            "kind": _SLICE.kind,
            "metadata": {
                "name": f"{meta.name}-{suffix(self._rng)}",
                "generateName": f"{meta.name}-",
                "namespace": meta.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(service)],
            },
            "addressType": "IPv4",
            **content,
        }
        await self._client.create_raw(_SLICE, meta.namespace, document)
        await self._context.catch_up(EndpointSlice)  # so that the next change finds it

    async def _write_endpoints(self, service: Service, pods: list[Backend]) -> None:
        subsets: dict[bytes, Document] = {}
        for pod in pods[:_MOST_OLD]:
            if pod.is_leaving:
                continue
            ports = _ports(service, pod)
            subset = subsets.setdefault(msgspec.json.encode(ports), {"ports": ports} if ports else {})
            ready = pod.is_ready or service.spec.get("publishNotReadyAddresses")
            address = {"ip": pod.status.pod_ip, "nodeName": pod.spec.node_name, "targetRef": _reference(pod)}
            subset.setdefault("addresses" if ready else "notReadyAddresses", []).append(address)
        wanted = list(subsets.values())
        meta = service.metadata
        current = self._endpoints.get(meta.namespace, meta.name)
        if current is not None:
            if current.subsets != wanted:
                await self._patch(current, {"subsets": wanted or None})
            return
        document: Document = {
            "apiVersion": _ENDPOINTS.api_version,
            "kind": _ENDPOINTS.kind,
            "metadata": {"name": meta.name, "namespace": meta.namespace, "labels": dict(meta.labels)},
        }
        if wanted:
            document["subsets"] = wanted
        with suppress(AlreadyExists):
            await self._client.create_raw(_ENDPOINTS, meta.namespace, document)


def _label_pairs(pod: Backend) -> Iterable[str]:
    """Index: the labels of a pod with its namespace."""
    return [f"{pod.metadata.namespace}/{key}={value}" for key, value in pod.metadata.labels.items()]


def _shown(pod: Backend) -> tuple[object, ...]:
    """Return what endpoints show of a pod."""
    return pod.status.pod_ip, pod.counts, pod.is_ready, pod.is_leaving


def _reference(pod: Backend) -> Document:
    meta = pod.metadata
    return {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}


def _endpoint(pod: Backend, ignores_readiness: bool) -> Document:
    ready = pod.is_ready
    conditions = {
        "ready": ignores_readiness or (ready and not pod.is_leaving),
        "serving": ready,
        "terminating": pod.is_leaving,
    }
    found: Document = {
        "addresses": [pod.status.pod_ip],
        "conditions": conditions,
        "nodeName": pod.spec.node_name,
        "targetRef": _reference(pod),
    }
    if pod.spec.hostname and pod.spec.subdomain:
        found["hostname"] = pod.spec.hostname
    return found


def _ports(service: Service, pod: Backend) -> list[Document]:
    """Return the ports of a Service with the numbers that they have in a pod."""
    found = []
    for port in service.spec.get("ports") or ():
        target = port.get("targetPort", port.get("port"))
        protocol = port.get("protocol", "TCP")
        number = target if isinstance(target, int) else _named(pod, str(target), protocol)
        if number is None:
            continue
        entry = {"port": number, "protocol": protocol}
        if port.get("name"):
            entry = {"name": port["name"], **entry}
        if port.get("appProtocol"):
            entry["appProtocol"] = port["appProtocol"]
        found.append(entry)
    return found


def _named(pod: Backend, name: str, protocol: str) -> int | None:
    for container in pod.spec.containers:
        for port in container.get("ports") or ():
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None
