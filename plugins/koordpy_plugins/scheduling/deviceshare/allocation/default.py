"""The default selection of devices: by score, or near the devices that were chosen before.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_allocator.go` (defaultAllocateDevices),
`device_resources.go`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from koordpy.api.device import DeviceInfo
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.label_selector import Selector

from ..scoring import Scorer
from ..state.exact import Exact, is_zero, within_known
from . import virtual_functions
from .requests import Amounts
from .view import TypeView

Chosen = tuple[DeviceAllocation, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """How many devices of a type, from `desired` to `most`, with what of each, and where.

    `required` minors alone are considered if there are any; `preferred` minors come first. `functions_of`
    selects the virtual functions of which each device must give one; None if it need not.
    """

    request: Amounts
    exact: Exact
    desired: int
    most: int
    required: Collection[int] = ()
    preferred: Collection[int] = ()
    preferred_pcies: Collection[str] = ()
    needs_function: bool = False
    function_selector: Selector | None = None
    designated: Mapping[int, Collection[str]] = field(default_factory=dict)


def select(view: TypeView, wanted: Selection, scorer: Scorer | None) -> Chosen | None:
    """Return the devices in the order of choice, None if there are too few."""
    infos = {info.minor or 0: info for info in view.infos}
    chosen: list[DeviceAllocation] = []
    for minor in _ordered(view, wanted, scorer, infos):
        free = view.free[minor]
        if wanted.required and minor not in wanted.required:
            continue
        if is_zero(free) or not within_known(wanted.exact, free):
            continue
        allocation = DeviceAllocation(minor, wanted.request)
        if wanted.needs_function:
            function = virtual_functions.choose(
                infos.get(minor),
                wanted.function_selector,
                view.vf_allocations.get(minor, ()),
                wanted.designated.get(minor),
            )
            if function is None:
                continue
            allocation = DeviceAllocation(minor, wanted.request, virtual_functions=(function,))
        chosen.append(allocation)
        if len(chosen) == wanted.most:
            break
    return tuple(chosen) if len(chosen) >= wanted.desired else None


def _ordered(
    view: TypeView, wanted: Selection, scorer: Scorer | None, infos: Mapping[int, DeviceInfo]
) -> Sequence[int]:
    """Return all minors in the order in which they are tried."""
    if scorer is None:
        ranks = dict.fromkeys(view.free, 0)
    else:
        ranks = {
            minor: -scorer.of_device(wanted.exact, view.total.get(minor, {}), free)
            for minor, free in view.free.items()
        }
    if wanted.preferred:
        return sorted(ranks, key=lambda minor: (minor not in wanted.preferred, ranks[minor], minor))
    minors = sorted(ranks, key=lambda minor: (ranks[minor], minor))
    if not wanted.preferred_pcies:
        return minors
    groups: dict[str, list[int]] = {}
    others = []
    for minor in minors:
        info = infos.get(minor)
        place = info.topology if info is not None else None
        if place is not None and place.pcie_id in wanted.preferred_pcies:
            groups.setdefault(place.pcie_id, []).append(minor)
        else:
            others.append(minor)
    rounds = [(at, ranks[minor], minor) for minors in groups.values() for at, minor in enumerate(minors)]
    return [minor for _, _, minor in sorted(rounds)] + others
