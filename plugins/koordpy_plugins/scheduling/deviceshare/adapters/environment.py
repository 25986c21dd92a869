"""What containers read of the devices of their pod: annotations, by variables of the downward API.

The admission handler DeviceEnvironment adds the variables to containers, and the annotations to their pods,
without a device. They are written here for pods that have them, by whatever means.
"""

from collections.abc import Iterator, Mapping

from koordpy.api.device_allocations import DeviceAllocation, DeviceAllocations
from koordpy.api.extension import ANNOTATION_GPU_MINORS, ANNOTATION_RDMA_ADDRESSES

from .vendors import minors


def environment_of(annotations: Mapping[str, str], allocations: DeviceAllocations) -> dict[str, str]:
    """Return those of the annotations that containers read with what was allocated, where a pod has them."""
    found = {}
    gpus, cards = allocations.get("gpu"), allocations.get("rdma")
    if gpus and ANNOTATION_GPU_MINORS in annotations:
        found[ANNOTATION_GPU_MINORS] = minors(gpus)
    if cards and ANNOTATION_RDMA_ADDRESSES in annotations:
        found[ANNOTATION_RDMA_ADDRESSES] = ",".join(address for card in cards for address in _addresses(card))
    return found


def _addresses(card: DeviceAllocation) -> Iterator[str]:
    """Yield the PCI addresses of the virtual functions, or that of a card without any: its id."""
    if card.virtual_functions:
        yield from (function.bus_id for function in card.virtual_functions)
    elif card.id:
        yield card.id
