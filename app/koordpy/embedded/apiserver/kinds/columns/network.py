"""The columns of services, ingresses and what belongs to them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from .column import AGE, NAME, Column, joined, labels, path, selector

Document = dict[str, Any]


def _balanced(document: Document) -> str:
    """The addresses of a load balancer."""
    ingress = (document.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    return ",".join(item.get("ip") or item.get("hostname") or "" for item in ingress)


def _of_service() -> tuple[Column, ...]:
    def external(document: Document, now: datetime) -> str:
        spec = document.get("spec", {})
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName", ""))
        own = [_balanced(document)] if spec.get("type") == "LoadBalancer" else []
        texts = [text for text in (*own, *(spec.get("externalIPs") or ())) if text]
        return ",".join(texts) or ("<pending>" if own else "<none>")

    def ports(document: Document, now: datetime) -> str:
        texts = []
        for port in document.get("spec", {}).get("ports") or ():
            node = f":{port['nodePort']}" if port.get("nodePort") else ""
            texts.append(f"{port.get('port', 0)}{node}/{port.get('protocol', '')}")
        return ",".join(texts) or "<none>"

    return (
        NAME,
        Column("Type", path("spec", "type", default="")),
        Column("Cluster-IP", path("spec", "clusterIP")),
        Column("External-IP", external),
        Column("Port(s)", ports),
        AGE,
        Column("Selector", labels("spec", "selector"), priority=1),
    )


def _of_ingress() -> tuple[Column, ...]:
    def hosts(document: Document, now: datetime) -> str:
        found = [rule.get("host") or "*" for rule in document.get("spec", {}).get("rules") or ()]
        return joined(found, 3) if found else "*"

    def ports(document: Document, now: datetime) -> str:
        return "80, 443" if document.get("spec", {}).get("tls") else "80"

    return (
        NAME,
        Column("Class", path("spec", "ingressClassName")),
        Column("Hosts", hosts),
        Column("Address", lambda document, now: _balanced(document)),
        Column("Ports", ports),
        AGE,
    )


def _of_ingress_class() -> tuple[Column, ...]:
    def parameters(document: Document, now: datetime) -> str:
        found = document.get("spec", {}).get("parameters")
        if not found:
            return "<none>"
        group = f".{found['apiGroup']}" if found.get("apiGroup") else ""
        return f"{found.get('kind', '')}{group}/{found.get('name', '')}"

    controller = path("spec", "controller", default="")
    return NAME, Column("Controller", controller), Column("Parameters", parameters), AGE


def _of_endpoints() -> tuple[Column, ...]:
    def addresses(document: Document) -> Iterator[str]:
        for subset in document.get("subsets") or ():
            for port in subset.get("ports") or (None,):
                for address in subset.get("addresses") or ():
                    yield address.get("ip", "") + (f":{port.get('port', 0)}" if port else "")

    return NAME, Column("Endpoints", lambda document, now: joined(addresses(document), 3)), AGE


def _of_slice() -> tuple[Column, ...]:
    def ports(document: Document, now: datetime) -> str:
        found = document.get("ports")
        if not found:
            return "<unset>"
        return joined((port.get("port") or "*" for port in found), 3)

    def endpoints(document: Document, now: datetime) -> str:
        found = document.get("endpoints")
        if not found:
            return "<unset>"
        return joined((one for item in found for one in item.get("addresses") or ()), 3)

    return (
        NAME,
        Column("AddressType", path("addressType", default="")),
        Column("Ports", ports),
        Column("Endpoints", endpoints),
        AGE,
    )


def of_network() -> dict[str, tuple[Column, ...]]:
    """The columns of the network's kinds."""
    return {
        "Endpoints": _of_endpoints(),
        "EndpointSlice": _of_slice(),
        "Ingress": _of_ingress(),
        "IngressClass": _of_ingress_class(),
        "NetworkPolicy": (NAME, Column("Pod-Selector", selector("spec", "podSelector")), AGE),
        "Service": _of_service(),
    }
