"""Which devices of a node a selector selects: nodes with the same labels share what is found out of it."""

from typing import Final, NamedTuple

from koordpy.api.label_selector import Selector

from .minors import bits_of
from .node_devices import NodeDevices

_MOST_LABELS: Final = 256
"""Of all devices of a node: the values are kept."""


class Selected(NamedTuple):
    """The set of devices that a selector selects, and how often a Device lists one that it selects."""

    bits: int
    listed: int


class DeviceLabels(NamedTuple):
    """The minors and labels of the devices of one type, as the Device lists them."""

    devices: tuple[tuple[int, tuple[tuple[str, str], ...]], ...]

    def of(self, selector: Selector) -> Selected:
        """Return what a selector selects."""
        minors = [minor for minor, labels in self.devices if selector.matches(dict(labels))]
        return Selected(bits_of(minors), len(minors))


NO_LABELS: Final = DeviceLabels(())


def device_labels(devices: NodeDevices, type_: str) -> DeviceLabels | None:
    """Return the labels of a node's devices; None if there are too many."""
    infos = devices.infos.get(type_, ())
    if sum(len(info.labels) for info in infos) > _MOST_LABELS:
        return None
    return DeviceLabels(tuple((info.minor or 0, tuple(info.labels.items())) for info in infos))
