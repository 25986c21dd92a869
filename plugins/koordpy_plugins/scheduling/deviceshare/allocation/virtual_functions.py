"""Which virtual function of a device a pod gets."""

from collections.abc import Collection

from koordpy.api.device import DeviceInfo, VirtualFunction
from koordpy.api.device_allocations import AllocatedFunction
from koordpy.api.label_selector import Selector


def choose(
    info: DeviceInfo | None,
    selector: Selector | None,
    allocated: Collection[str],
    designated: Collection[str] | None,
) -> AllocatedFunction | None:
    """Return the free virtual function with the smallest bus address as text; None if there is none.

    `designated` limits the choice to some bus addresses.
    """
    best: VirtualFunction | None = None
    for group in info.vf_groups if info is not None else ():
        if selector is None or selector.matches(group.labels):
            for function in group.vfs:
                address = function.bus_id
                if address in allocated or (designated is not None and address not in designated):
                    continue
                if best is None or address < best.bus_id:
                    best = function
    return None if best is None else AllocatedFunction(best.bus_id, best.minor)
