"""Whether more of a device is handed out than it has, and every virtual function once.

A resource that a Device does not list of a minor is not limited (deviceshare, section 0). A minor that is
unhealthy keeps its pods, which is worth a warning; one that the Device does not list at all cannot be
anyone's.
"""

from collections.abc import Iterator
from typing import Final

from koordpy.api import extension
from koordpy.api.device import Device, DeviceInfo

from ..amounts import Vector, text, vector
from ..annotations import DeviceAmounts, Function
from ..finding import Counts, Finding, Owner, Severity
from ..holding import Holding
from ..node_books import NodeBooks

NAME: Final = "devices"

Minor = tuple[str, int]


def check(books: NodeBooks, counts: Counts) -> Iterator[Finding]:
    """Compare the devices that a node's holders have with its Device."""
    using = [holder for holder in books.holders() if holder.devices.minors]
    if not using:
        return
    used: set[Minor] = set().union(*(holder.devices.minors for holder in using))
    counts.add(NAME, "nodes", 1)
    counts.add(NAME, "allocations", len(using))
    counts.add(NAME, "devices", len(used))
    yield from _functions_twice(books, using, counts)
    if books.device is None:
        counts.add(NAME, "nodes without a Device", 1)
        yield _finding(
            books, "Device", "devices are handed out, and the node has no Device", _all(using), warns=True
        )
        return
    infos = _infos(books.device)
    totals = _totals(infos, used)
    for (kind, minor, name), number in books.sums(_amounts).items():
        limit = totals.get((kind, minor), {}).get(name)
        if limit is not None and number > limit:
            owners = books.sharers((kind, minor, name), _amounts, name)
            yield _finding(
                books,
                f"{kind} {minor} {name}",
                "more handed out than it has",
                owners,
                held=text(name, number),
                limit=text(name, limit),
            )
    some_functions = any(holder.devices.functions for holder in using)
    for key in used:
        info = infos.get(key)
        if info is None or not info.health or some_functions:
            yield from _minor(books, key, info, using)
    for holder in using:
        yield from _inconsistent(books, holder, totals)


def _amounts(holding: Holding) -> DeviceAmounts:
    return holding.devices.amounts


def _infos(device: Device) -> dict[Minor, DeviceInfo]:
    return {(info.type, info.minor or 0): info for info in device.spec.devices}


def _totals(infos: dict[Minor, DeviceInfo], used: set[Minor]) -> dict[Minor, Vector]:
    """Return what the minors in use have; devices of a node are equal mostly, and are read once."""
    known: dict[tuple[object, ...], Vector] = {}
    found: dict[Minor, Vector] = {}
    for minor in used:
        info = infos.get(minor)
        if info is None:
            continue
        key = tuple(info.resources.items())
        total = known.get(key)
        if total is None:
            total = known[key] = vector(info.resources)
        found[minor] = total
    return found


def _minor(books: NodeBooks, key: Minor, info: DeviceInfo | None, using: list[Holding]) -> Iterator[Finding]:
    """Yield what is wrong with a minor, and with the virtual functions that are handed out of it."""
    what, holders = f"{key[0]} {key[1]}", [holder for holder in using if key in holder.devices.minors]
    if info is None:
        yield _finding(books, what, "handed out, and not in the Device", _all(holders))
        return
    if not info.health:
        yield _finding(books, what, "handed out, and unhealthy", _all(holders), warns=True)
    known = {function.bus_id for group in info.vf_groups for function in group.vfs}
    for holder in holders:
        for kind, minor, address in sorted(holder.devices.functions):
            if (kind, minor) == key and address not in known:
                yield _finding(
                    books,
                    f"{what} virtual function {address}",
                    "handed out, and not in the Device",
                    _all([holder]),
                )


def _functions_twice(books: NodeBooks, using: list[Holding], counts: Counts) -> Iterator[Finding]:
    """Yield virtual functions with two holders, one of which does not use the reservation of the other."""
    holders: dict[Function, list[Holding]] = {}
    for holder in using:
        for function in holder.devices.functions:
            holders.setdefault(function, []).append(holder)
    if holders:
        counts.add(NAME, "virtual functions", len(holders))
    for (kind, minor, address), found in sorted(holders.items()):
        for at, one in enumerate(found):
            for other in found[at + 1 :]:
                if not books.may_share(one, other):
                    what = f"{kind} {minor} virtual function {address}"
                    yield _finding(books, what, "handed out twice", _all([one, other]))


def _inconsistent(books: NodeBooks, holder: Holding, totals: dict[Minor, Vector]) -> Iterator[Finding]:
    """Yield GPUs whose memory and share of memory mean different amounts (deviceshare, section 5.4)."""
    amounts = holder.devices.amounts
    for kind, minor in holder.devices.minors:
        memory = amounts.get((kind, minor, extension.GPU_MEMORY))
        ratio = amounts.get((kind, minor, extension.GPU_MEMORY_RATIO))
        whole = totals.get((kind, minor), {}).get(extension.GPU_MEMORY, 0)
        if memory is None or ratio is None or not whole:
            continue
        if memory != ratio * whole // 100 and ratio != int(memory / whole * 100):
            yield _finding(
                books,
                f"{kind} {minor} {extension.GPU_MEMORY}",
                f"not the {ratio}% that {extension.GPU_MEMORY_RATIO} says",
                _all([holder]),
                held=text(extension.GPU_MEMORY, memory),
                limit=text(extension.GPU_MEMORY, ratio * whole // 100),
                warns=True,
            )


def _all(holders: list[Holding]) -> list[Owner]:
    return [Owner(kind=holder.kind, name=holder.name) for holder in holders]


def _finding(
    books: NodeBooks,
    what: str,
    problem: str,
    owners: list[Owner],
    *,
    held: str = "",
    limit: str = "",
    warns: bool = False,
) -> Finding:
    return Finding(
        check=NAME,
        severity=Severity.WARNING if warns else Severity.ERROR,
        node=books.name,
        what=what,
        problem=problem,
        owners=owners,
        held=held,
        limit=limit,
    )
