"""Addresses of nodes and pods. There is no network behind them."""

import ipaddress

_NODES = int(ipaddress.IPv4Address("172.18.0.0"))
_PODS = int(ipaddress.IPv4Address("10.244.0.0"))
_NODE_COUNT, _POD_COUNT = 1 << 16, 1 << 16


class Network:
    """Assigns addresses: to nodes by their names, to pods the lowest that is free."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}
        self._free_hosts: list[str] = []
        self._used: set[str] = set()
        self._free: list[str] = []
        self._next = 2

    def host(self, node: str) -> str:
        """Return the address of a node."""
        known = self._hosts.get(node)
        if known is None:
            known = self._free_hosts.pop() if self._free_hosts else self._next_host()
            self._hosts[node] = known
        return known

    def forget(self, node: str) -> None:
        """Free the address of a node that is gone."""
        address = self._hosts.pop(node, None)
        if address is not None:
            self._free_hosts.append(address)

    def _next_host(self) -> str:
        return _text(_NODES, 2 + len(self._hosts) % (_NODE_COUNT - 2))

    def assign(self, wanted: str = "") -> str:
        """Return a free address for a pod: the wanted one unless it is taken."""
        if wanted and wanted not in self._used:
            self._used.add(wanted)
            return wanted
        while self._free:
            address = self._free.pop()
            if address not in self._used:
                self._used.add(address)
                return address
        while True:
            address = _text(_PODS, self._next % _POD_COUNT)
            self._next += 1
            if address not in self._used or self._next > _POD_COUNT:
                self._used.add(address)
                return address

    def release(self, address: str) -> None:
        """Free the address of a pod that is gone."""
        if address in self._used:
            self._used.remove(address)
            self._free.append(address)


def _text(base: int, offset: int) -> str:
    return str(ipaddress.IPv4Address(base + offset))
