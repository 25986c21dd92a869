"""What reservations of a node hold, as a digest: where it is the same, they give a pod the same devices."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from koordpy.api.reservation import RESTRICTED

from ..amounts import NodeAmounts
from ..state.exact import exact
from ..state.node_devices import NodeDevices
from .restored import RestoredNode

_DIGEST_BYTES: Final = 16


def digest_of(restored: RestoredNode, devices: NodeDevices, version: int) -> bytes:
    """Return a digest of all that reservations change about what is free of a node's devices.

    `version` is that of the devices in the ledger. The digest is kept until it changes.
    """
    known = restored.digests.get(version)
    if known is None:
        text = repr(tuple(_contents(restored, devices))).encode()
        restored.digests.clear()
        known = restored.digests[version] = blake2b(text, digest_size=_DIGEST_BYTES).digest()
    return known


def _contents(restored: RestoredNode, devices: NodeDevices) -> Iterator[object]:
    yield _amounts(restored.unmatched_used)
    for item in restored.matched:
        yield item.reservation.policy == RESTRICTED
        yield tuple(_amounts(each) for each in (item.allocatable, item.allocated, item.remained))
    concerned = {(t, minor) for t, minors in restored.matched_allocatable.items() for minor in minors}
    concerned |= {(t, minor) for t, minors in restored.unmatched_used.items() for minor in minors}
    for type_, minor in sorted(concerned):
        # What is free is among the columns, but not what is used of a device that has less than that.
        of_type = devices.amounts(type_)
        yield (
            type_,
            minor,
            *(tuple((each.get(minor) or {}).items()) for each in (of_type.total, of_type.used)),
        )


def _amounts(amounts: NodeAmounts) -> tuple[object, ...]:
    """Return amounts in their order, which the allocator may follow."""
    return tuple(
        (type_, minor, tuple(exact(of_minor).items()))
        for type_, minors in amounts.items()
        for minor, of_minor in minors.items()
    )
