"""Traffic control on the node's interface: brings about a plan, keeps it, and removes it again."""

import errno
import os
import socket
from collections.abc import Mapping
from typing import Any, Final

from pyroute2 import AsyncIPRoute, NetlinkError

from . import netfilter
from .plan import DEFAULT_MINOR, FIRST_POD, QDISC, ROOT, SMALLEST_RATE, Plan, TrafficClass

_TOP: Final = 0xFFFF_FFFF
"""The parent of an interface's root qdisc, and of the classes right below it."""
_MAX_U32: Final = 0xFFFF_FFFF
_KERNELS_OWN: Final = frozenset({"noqueue", "pfifo_fast", "fq_codel", "fq", "mq", "pfifo", "noop"})
"""What interfaces have unless somebody has set up traffic control."""
_MTU: Final = 1600
_BURSTS_PER_SECOND: Final = 1000


class TrafficError(Exception):
    """The node's traffic cannot be shaped; the message says why."""


async def apply(plan: Plan) -> bool:
    """Bring a plan about on the interface of the default route; return whether anything had to be changed.

    Raises TrafficError, and NetlinkError for what the kernel refuses.
    """
    async with AsyncIPRoute() as ip:
        interface = await _interface(ip)
        made_for = await netfilter.current()
        if made_for is not None and made_for[0] != interface:
            await _remove_qdisc(ip, made_for[0])
        changed = await _keep_qdisc(ip, interface)
        changed |= await _keep_classes(ip, interface, plan.classes)
        if made_for != (interface, plan.digest):
            leaves = [handle for handle in plan.classes if handle != ROOT]
            await netfilter.replace(interface, plan.digest, plan.addresses, leaves)
            changed = True
        return changed | await _drop_classes(ip, interface, plan.classes)


async def remove() -> bool:
    """Remove what `apply` made, by this process or an earlier one; return whether there was something.

    Raises NetlinkError.
    """
    made_for = await netfilter.current()
    if made_for is None:
        return False
    async with AsyncIPRoute() as ip:
        await _remove_qdisc(ip, made_for[0])
    await netfilter.remove()
    return True


async def _interface(ip: AsyncIPRoute) -> int:
    """Return the index of the interface that the default route leads to."""
    for family in (socket.AF_INET, socket.AF_INET6):
        routes = [route async for route in await ip.get_default_routes(family=family)]
        for route in sorted(routes, key=lambda route: route.get_attr("RTA_PRIORITY") or 0):
            hops: list[Any] = route.get_attr("RTA_MULTIPATH") or []
            index = route.get_attr("RTA_OIF") or next((hop["oif"] for hop in hops), None)
            if index is not None:
                return int(index)
    raise TrafficError("the node has no default route, which tells the interface to shape")


async def _keep_qdisc(ip: AsyncIPRoute, interface: int) -> bool:
    root = [
        (qdisc["handle"], str(qdisc.get_attr("TCA_KIND")))
        async for qdisc in await ip.get_qdiscs(interface)
        if qdisc["parent"] == _TOP
    ]
    if (QDISC, "htb") in root:
        return False
    others = [kind for _, kind in root if kind not in _KERNELS_OWN]
    if others:
        raise TrafficError(
            f"interface {interface} has a root qdisc {others[0]} of somebody else; expected none, or HTB 1:"
        )
    await ip.tc("replace", "htb", interface, QDISC, default=DEFAULT_MINOR)
    return True


async def _keep_classes(ip: AsyncIPRoute, interface: int, wanted: Mapping[int, TrafficClass]) -> bool:
    existing = await _classes(ip, interface)
    changed = False
    for handle, each in wanted.items():
        found = existing.get(handle)
        if found == each:
            continue
        await ip.tc(
            "add-class" if found is None else "change-class",
            "htb",
            interface,
            handle,
            parent=each.parent,
            rate=each.rate,
            ceil=each.ceil,
            prio=each.priority,
            burst=each.rate // _BURSTS_PER_SECOND + _MTU,
            cburst=each.ceil // _BURSTS_PER_SECOND + _MTU,
        )
        changed = True
    return changed


async def _drop_classes(ip: AsyncIPRoute, interface: int, wanted: Mapping[int, TrafficClass]) -> bool:
    """Delete the classes of pods that are gone, when no packet is sent to them any more."""
    gone = [h for h in await _classes(ip, interface) if h >= FIRST_POD and h not in wanted]
    for handle in gone:
        # The kernel ignores the rates, but pyroute2 does not encode the message without.
        await ip.tc("del-class", "htb", interface, handle, rate=SMALLEST_RATE, ceil=SMALLEST_RATE)
    return bool(gone)


async def _classes(ip: AsyncIPRoute, interface: int) -> dict[int, TrafficClass]:
    found = {}
    async for each in await ip.get_classes(interface):
        if each.get_attr("TCA_KIND") != "htb" or each["handle"] & ~0xFFFF != QDISC:
            continue
        options = each.get_attr("TCA_OPTIONS")
        parameters = options.get_attr("TCA_HTB_PARMS")
        found[each["handle"]] = TrafficClass(
            QDISC if each["parent"] == _TOP else each["parent"],
            options.get_attr("TCA_HTB_RATE64") or parameters["rate"],
            options.get_attr("TCA_HTB_CEIL64") or parameters["ceil"],
            parameters["prio"],
        )
    return found


async def _remove_qdisc(ip: AsyncIPRoute, interface: int) -> None:
    async for qdisc in await ip.get_qdiscs(interface):
        if qdisc["parent"] == _TOP and qdisc["handle"] == QDISC and qdisc.get_attr("TCA_KIND") == "htb":
            await ip.tc("del", "htb", interface, QDISC, root=True)


def explain(error: Exception) -> str:
    """Return what an error of `apply` or `remove` means for whoever runs the node."""
    if not isinstance(error, NetlinkError):
        return str(error) or type(error).__name__
    hints = {
        errno.EPERM: "the agent lacks the privilege CAP_NET_ADMIN",
        errno.ENOENT: "the kernel lacks HTB (sch_htb) or nf_tables",
        errno.EOPNOTSUPP: "the kernel lacks HTB (sch_htb) or nf_tables",
        errno.EPROTONOSUPPORT: "the kernel lacks nf_tables",
    }
    code = abs(error.code)
    return f"{hints.get(code, 'refused by the kernel')} ({os.strerror(code)})"
