"""Services: their defaults, and the addresses and node ports that the server assigns.

Source: Kubernetes, `pkg/registry/core/service` (allocation), `pkg/apis/core/v1/defaults.go`.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from koordpy.api.field_cause import Cause, invalid_value, required, unsupported

from ..errors import invalid
from ..storage import Table
from .strategy import Strategy

Document = dict[str, Any]

_ADDRESSES = ipaddress.IPv4Network("10.96.0.0/16")
_NODE_PORTS = range(30000, 32768)
_NODE_PORTS_FIELD = "spec.ports.nodePort"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_ASSIGNED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
_WITH_NODE_PORTS = ("NodePort", "LoadBalancer")


class ServiceStrategy(Strategy):
    """The rules of services. Addresses are assigned, but there is no network behind them."""

    has_status = True
    returns_deleted = True
    selectable = ("spec.clusterIP", "spec.type")

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return the selectable fields, and the node ports: what is assigned already is found by them."""
        spec = document["spec"]
        found = {"spec.type": spec["type"], "spec.clusterIP": spec.get("clusterIP", "")}
        if ports := [str(port["nodePort"]) for port in spec.get("ports") or () if port.get("nodePort")]:
            found[_NODE_PORTS_FIELD] = ",".join(ports)
        return found

    def default(self, document: Document) -> None:
        """Set the defaults of the spec."""
        spec = document.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] in _WITH_NODE_PORTS:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port", 0))

    def prepare_create(self, document: Document) -> None:
        """A new service has no load balancer yet."""
        document["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Document, old: Document) -> None:
        """Addresses and node ports that an update leaves out stay."""
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        if spec["type"] == "ExternalName":
            for name in _ASSIGNED if before["type"] != "ExternalName" else ():
                spec.pop(name, None)
            return
        if not spec.get("clusterIP"):
            for name in _ASSIGNED:
                if name in before:
                    spec[name] = before[name]
        if spec["type"] in _WITH_NODE_PORTS:
            known = {(port.get("port"), port.get("protocol")): port for port in before.get("ports") or ()}
            for port in spec.get("ports") or ():
                same = known.get((port.get("port"), port.get("protocol")), {})
                if not port.get("nodePort") and same.get("nodePort"):
                    port["nodePort"] = same["nodePort"]
        elif before["type"] in _WITH_NODE_PORTS:
            spec.pop("externalTrafficPolicy", None)
            spec.pop("allocateLoadBalancerNodePorts", None)
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)

    def allocate(self, document: Document, table: Table) -> None:
        """Assign the cluster IP and node ports that are missing. Raises ApiError (422) for taken ones."""
        spec, uid = document["spec"], document["metadata"]["uid"]
        if spec["type"] == "ExternalName":
            return
        others = [record.fields for record in table if record.uid != uid]
        start = int(uid[:8], 16)
        self._assign_address(document, {other.get("spec.clusterIP", "") for other in others}, start)
        if spec["type"] not in _WITH_NODE_PORTS:
            return
        texts = ",".join(other[_NODE_PORTS_FIELD] for other in others if _NODE_PORTS_FIELD in other)
        used = {int(text) for text in texts.split(",") if text}
        used |= {port.get("nodePort") for port in spec.get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                numbers = (_NODE_PORTS[(start + i) % len(_NODE_PORTS)] for i in range(len(_NODE_PORTS)))
                port["nodePort"] = next((number for number in numbers if number not in used), 0)
                used.add(port["nodePort"])

    @staticmethod
    def _assign_address(document: Document, used: set[str], start: int) -> None:
        spec = document["spec"]
        address = spec.get("clusterIP")
        if address and address != "None" and address in used:
            told = f"failed to allocate IP {address}: provided IP is already allocated"
            name = document["metadata"].get("name", "")
            raise invalid("Service", "", name, [invalid_value("spec.clusterIPs", [address], told)])
        if not address:
            size = _ADDRESSES.num_addresses - 2
            numbers = (1 + (start + i) % size for i in range(size))
            address = next((text for text in map(_address, numbers) if text not in used), "")
            spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [address])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def validate(self, document: Document) -> Iterable[Cause]:
        """Ports must be valid and unique."""
        spec = document["spec"]
        if spec["type"] not in _TYPES:
            yield unsupported("spec.type", spec["type"], _TYPES)
        if not spec.get("ports") and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
            yield required("spec.ports")
        for index, port in enumerate(spec.get("ports") or ()):
            number = port.get("port", 0)
            if not isinstance(number, int) or not 1 <= number <= 65535:
                told = "must be between 1 and 65535, inclusive"
                yield invalid_value(f"spec.ports[{index}].port", number, told)

    def validate_update(self, new: Document, old: Document) -> Iterable[Cause]:
        """A cluster IP stays."""
        now, before = new["spec"].get("clusterIP"), old["spec"].get("clusterIP")
        if before and now and now != before and old["spec"]["type"] != "ExternalName":
            yield invalid_value("spec.clusterIPs[0]", [now], "may not change once set")


def _address(number: int) -> str:
    return str(_ADDRESSES[number])
