"""Which devices of a node a selector selects: nodes with the same labels share what is found out of it."""

from typing import Final, NamedTuple

from koordpy.api.label_selector import Selector

from .minors import bits_of
from .node_devices import NodeDevices

_MOST_BYTES: Final = 32 << 10
"""Of a value, by estimate: values are kept as long as the process lives."""


Labels = tuple[tuple[str, str], ...]


class Selected(NamedTuple):
    """The set of devices that a selector selects, and how often a Device lists one that it selects."""

    bits: int
    listed: int


class DeviceLabels(NamedTuple):
    """The minors and labels of the devices of one type, as the Device lists them."""

    devices: tuple[tuple[int, Labels], ...]

    def of(self, selector: Selector) -> Selected:
        """Return what a selector selects."""
        minors = [minor for minor, labels in self.devices if selector.matches(dict(labels))]
        return Selected(bits_of(minors), len(minors))


NO_LABELS: Final = DeviceLabels(())


def device_labels(devices: NodeDevices, type_: str) -> DeviceLabels | None:
    """Return the labels of a node's devices; None if they are too large."""
    infos = devices.infos.get(type_, ())
    found = tuple((info.minor or 0, tuple(info.labels.items())) for info in infos)
    return DeviceLabels(found) if sum(bytes_of(labels) for _, labels in found) <= _MOST_BYTES else None


def bytes_of(labels: Labels) -> int:
    """Estimate the memory of the labels of one device or group."""
    return 150 + sum(150 + len(key) + len(value) for key, value in labels)
