"""Which devices of a node have free virtual functions: nodes with the same share what is found out of it."""

from typing import Final, NamedTuple

from koordpy.api.label_selector import Selector

from .device_labels import Labels, bytes_of
from .minors import bits_of
from .node_devices import NodeDevices

_MOST_BYTES: Final = 32 << 10
"""Of a value, by estimate: values are kept as long as the process lives."""


class FreeFunctions(NamedTuple):
    """Of one type; `has_any` is whether any device has virtual functions at all, free or not.

    `groups` are the labels of the groups with free ones, by minor.
    """

    has_any: bool
    groups: tuple[tuple[int, tuple[Labels, ...]], ...]

    def of(self, selector: Selector) -> int:
        """Return the set of devices that can give a virtual function that a selector selects."""
        return bits_of(
            minor for minor, groups in self.groups if any(selector.matches(dict(labels)) for labels in groups)
        )


NO_FUNCTIONS: Final = FreeFunctions(False, ())


def free_functions(devices: NodeDevices, type_: str) -> FreeFunctions | None:
    """Return the free virtual functions of a node's devices; None if these are too large."""
    infos = devices.infos.get(type_, ())
    if not any(info.vf_groups for info in infos):
        return NO_FUNCTIONS
    taken = devices.vf_allocations.get(type_, {})
    found = []
    for minor, info in {info.minor or 0: info for info in infos}.items():  # the last one counts
        of_minor = taken.get(minor, ())
        free = {
            tuple(group.labels.items()): None  # equal groups once
            for group in info.vf_groups
            if any(function.bus_id not in of_minor for function in group.vfs)
        }
        if free:
            found.append((minor, tuple(free)))
    if sum(100 + sum(map(bytes_of, free)) for _, free in found) > _MOST_BYTES:
        return None
    return FreeFunctions(True, tuple(found))
