"""Host ports and their conflicts.

Source: Kubernetes, `k8s.io/kube-scheduler/framework` (`HostPortInfo`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from koordpy.api.core import Pod

ANY_IP = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of a node."""

    ip: str
    protocol: str
    port: int


def host_ports(pod: Pod) -> Iterator[HostPort]:
    """Yield the host ports of a pod's containers and sidecars."""
    for container in pod.spec.containers:
        for port in container.ports:
            if port.host_port > 0:
                yield HostPort(port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            for port in container.ports:
                if port.host_port > 0:
                    yield HostPort(port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)


class UsedPorts:
    """The host ports in use on one node, counted."""

    __slots__ = ("_addresses", "_ports")

    def __init__(self, ports: Iterable[HostPort] = ()) -> None:
        self._ports: Counter[HostPort] = Counter(ports)
        self._addresses: Counter[tuple[str, int]] = Counter((p.protocol, p.port) for p in self._ports)

    def __bool__(self) -> bool:
        return bool(self._ports)

    @property
    def ports(self) -> Iterable[HostPort]:
        """The ports, each once."""
        return self._ports.keys()

    def add(self, pod: Pod) -> None:
        """Add a pod's ports."""
        for port in host_ports(pod):
            self._ports[port] += 1
            self._addresses[port.protocol, port.port] += 1

    def remove(self, pod: Pod) -> None:
        """Remove a pod's ports."""
        for port in host_ports(pod):
            self._ports[port] -= 1
            self._addresses[port.protocol, port.port] -= 1
        self._ports = +self._ports
        self._addresses = +self._addresses

    def conflicts(self, wanted: HostPort) -> bool:
        """Return whether a port is in use: the address 0.0.0.0 stands for all addresses."""
        if wanted.ip == ANY_IP:
            return (wanted.protocol, wanted.port) in self._addresses
        return wanted in self._ports or wanted._replace(ip=ANY_IP) in self._ports
