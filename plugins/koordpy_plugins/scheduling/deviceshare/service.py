"""The REST API: the devices of nodes, and what is allocated of them.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/service.go`.
"""

from collections.abc import Callable, Mapping

from .state.ledger import DeviceLedger


class DeviceService:
    """The endpoints."""

    def __init__(self, ledger: DeviceLedger) -> None:
        self._ledger = ledger

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """Return the endpoints by path."""
        return {
            "nodeDeviceSummaries": self.summaries,
            "nodeDeviceSummaries/{name}": self.summary,
        }

    def summaries(self) -> Mapping[str, object]:
        """Return the summaries of all nodes by name."""
        return {name: devices.summary() for name, devices in self._ledger}

    def summary(self, name: str) -> object:
        """Return the summary of a node. Raises LookupError if no devices of it are known."""
        devices = self._ledger.node(name)
        if devices is None:
            raise LookupError(f"cannot find node {name}")
        return devices.summary()
