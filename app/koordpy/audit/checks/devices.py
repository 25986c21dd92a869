"""Whether more of a device is handed out than it has, and every virtual function once.

A resource that a Device does not list of a minor is not limited (deviceshare, section 0). A minor that is
unhealthy keeps its pods, which is worth a warning; one that the Device does not list at all cannot be
anyone's.
"""

from collections.abc import Iterator
from typing import Final

from koordpy.api import extension

from ..amounts import Vector, text
from ..annotations import DeviceAmounts, Function, Minor
from ..devices import Total
from ..finding import Counts, Finding, Owner, Severity
from ..holding import Holding
from ..node_books import NodeBooks

NAME: Final = "devices"
_UNKNOWN: Final = Total(
    dict.fromkeys((extension.GPU_CORE, extension.GPU_MEMORY_RATIO), 100), True, frozenset()
)
"""What a minor has in any case: hundredths of itself."""


def check(books: NodeBooks, counts: Counts) -> Iterator[Finding]:
    """Compare the devices that a node's holders have with its Device."""
    using = books.using
    if not using:
        return
    held = books.sums(using, _amounts)
    used = held.keys() | {key for each in books.reservations for key in each.devices.amounts}
    counts.add(NAME, "nodes", 1)
    counts.add(NAME, "allocations", len(using))
    counts.add(NAME, "devices", len(used))
    yield from _functions_twice(books, using, counts)
    totals = books.devices
    if totals is None:
        counts.add(NAME, "nodes without a Device", 1)
        if books.knows_devices:
            problem = "devices are handed out, and the node has no Device"
            yield _finding(books, "Device", problem, _all(using), warns=True)
        totals = dict.fromkeys(used, _UNKNOWN)
    for key, part in held.items():
        total = totals.get(key)
        if total is not None:
            for name, number in part.items():
                limit = total.resources.get(name)
                if limit is not None and number > limit:
                    yield _beyond(books, key, name, number, limit)
    if books.devices is None:
        return
    some_functions = any(holder.devices.functions for holder in using)
    for key in used:
        total = totals.get(key)
        if total is None or not total.health or some_functions:
            yield from _minor(books, key, total, using)
    for holder in using:
        for key, amounts in holder.devices.amounts.items():
            if extension.GPU_MEMORY_RATIO in amounts and key in totals:
                yield from _inconsistent(books, holder, key, totals[key].resources)


def _beyond(books: NodeBooks, key: Minor, name: str, held: int, limit: int) -> Finding:
    return _finding(
        books,
        f"{key[0]} {key[1]} {name}",
        "more handed out than it has",
        books.sharers(name, lambda holder: holder.devices.amounts.get(key)),
        held=text(name, held),
        limit=text(name, limit),
    )


def _amounts(holding: Holding) -> DeviceAmounts:
    return holding.devices.amounts


def _minor(books: NodeBooks, key: Minor, info: Total | None, using: list[Holding]) -> Iterator[Finding]:
    """Yield what is wrong with a minor, and with the virtual functions that are handed out of it."""
    what, holders = f"{key[0]} {key[1]}", [holder for holder in using if key in holder.devices.amounts]
    if info is None:
        yield _finding(books, what, "handed out, and not in the Device", _all(holders))
        return
    if not info.health:
        yield _finding(books, what, "handed out, and unhealthy", _all(holders), warns=True)
    for holder in holders:
        for kind, minor, address in sorted(set(holder.devices.functions)):
            if (kind, minor) == key and address not in info.functions:
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
                if one is other or not books.may_share(one, other):
                    what = f"{kind} {minor} virtual function {address}"
                    yield _finding(books, what, "handed out twice", _all([one, other]))


def _inconsistent(books: NodeBooks, holder: Holding, key: Minor, total: Vector) -> Iterator[Finding]:
    """Yield a GPU whose memory and share of memory mean different amounts (deviceshare, section 5.4)."""
    amounts, whole = holder.devices.amounts[key], total.get(extension.GPU_MEMORY, 0)
    memory, ratio = amounts.get(extension.GPU_MEMORY), amounts[extension.GPU_MEMORY_RATIO]
    if memory is None or not whole:
        return
    if memory != ratio * whole // 100 and ratio != int(memory / whole * 100):
        yield _finding(
            books,
            f"{key[0]} {key[1]} {extension.GPU_MEMORY}",
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
