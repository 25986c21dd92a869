"""Whether Reservations are used within what they reserve, and their status says by whom.

A Default or Aligned Reservation's owners may use more than it has, of the rest of its node; the check of node
resources counts that. Only Restricted limits owners to what is reserved.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from koordpy.api import reservation_annotations
from koordpy.api.reservation import RESTRICTED, Reservation
from koordpy.api.scheme import DecodeError
from koordpy.lib.counting import counted

from ..amounts import nano_text, nanos
from ..finding import Counts, Finding, Owner, Severity
from ..holding import RESERVATION, Holding

NAME: Final = "reservations"


def check(
    reservations: Sequence[Reservation],
    owners: Mapping[str, Sequence[Holding]],
    ended: Mapping[str, Sequence[Holding]],
    counts: Counts,
) -> Iterator[Finding]:
    """Compare Reservations with the pods that use them, by UID: running ones, and ended ones."""
    for reservation in reservations:
        uid = reservation.metadata.uid
        mine = owners.get(uid, ())
        counts.add(NAME, "reservations", 1)
        counts.add(NAME, "owners", len(mine))
        if reservation.is_active:
            yield from _elsewhere(reservation, mine)
            yield from _used_once(reservation, mine)
            yield from _restricted(reservation, mine)
        if reservation.is_available:
            yield from _status(reservation, mine, ended.get(uid, ()))


def _elsewhere(reservation: Reservation, owners: Sequence[Holding]) -> Iterator[Finding]:
    for owner in owners:
        if owner.node != reservation.status.node_name:
            yield _finding(
                reservation,
                f"used by a pod on node {owner.node}",
                [Owner(kind=owner.kind, name=owner.name)],
            )


def _used_once(reservation: Reservation, owners: Sequence[Holding]) -> Iterator[Finding]:
    if reservation.is_allocate_once and len(owners) > 1 and not reservation.takes_many:
        yield _finding(
            reservation,
            "allocateOnce, and used more than once",
            [Owner(kind=owner.kind, name=owner.name) for owner in owners],
            held=counted(len(owners), "owner"),
            limit="1 owner",
        )


def _restricted(reservation: Reservation, owners: Sequence[Holding]) -> Iterator[Finding]:
    if reservation.spec.allocate_policy != RESTRICTED:
        return
    allocatable = nanos(reservation.status.allocatable)
    try:
        options = reservation_annotations.restricted_options(reservation.metadata.annotations)
    except DecodeError:
        return
    for name in reservation_annotations.resource_names(allocatable, options):
        used = sum(owner.requests.nanos.get(name, 0) for owner in owners)
        if used > allocatable[name]:
            yield _finding(
                reservation,
                "Restricted, and its owners request more than it has",
                _requesting(name, owners),
                what=name,
                held=nano_text(name, used),
                limit=nano_text(name, allocatable[name]),
            )


def _status(
    reservation: Reservation, owners: Sequence[Holding], ended: Sequence[Holding]
) -> Iterator[Finding]:
    """Compare the status with the pods. Those that have ended may be in it until they are deleted."""
    here = [owner for owner in owners if owner.node == reservation.status.node_name]
    said = {owner.uid for owner in reservation.status.current_owners}
    missing = [owner for owner in here if owner.uid not in said]
    if missing:
        yield _finding(
            reservation,
            "status.currentOwners lacks owners",
            [Owner(kind=owner.kind, name=owner.name) for owner in missing],
            held=counted(len(said), "owner"),
            limit=counted(len(here), "owner"),
            warns=True,
        )
    by_uid = {owner.uid: owner for owner in (*ended, *here)}
    gone = [owner for owner in reservation.status.current_owners if owner.uid not in by_uid]
    if gone:
        yield _finding(
            reservation,
            "status.currentOwners has pods that do not use it",
            [Owner(kind="Pod", name=f"{owner.namespace}/{owner.name}") for owner in gone],
            held=counted(len(said), "owner"),
            limit=counted(len(here), "owner"),
            warns=True,
        )
    if missing or gone:
        return
    known = [by_uid[uid] for uid in sorted(said)]
    allocated = nanos(reservation.status.allocated)
    for name in reservation.status.allocatable:
        used = sum(owner.requests.nanos.get(name, 0) for owner in known)
        if used != allocated.get(name, 0):
            yield _finding(
                reservation,
                "status.allocated is not what its owners request",
                _requesting(name, known),
                what=name,
                held=nano_text(name, allocated.get(name, 0)),
                limit=nano_text(name, used),
                warns=True,
            )


def _requesting(resource: str, holdings: Sequence[Holding]) -> list[Owner]:
    """Return those that request a resource, with how much of it."""
    return [
        Owner(kind=holding.kind, name=holding.name, amount=nano_text(resource, amount))
        for holding in holdings
        if (amount := holding.requests.nanos.get(resource, 0))
    ]


def _finding(
    reservation: Reservation,
    problem: str,
    owners: list[Owner],
    *,
    what: str = "",
    held: str = "",
    limit: str = "",
    warns: bool = False,
) -> Finding:
    name = reservation.metadata.name
    return Finding(
        check=NAME,
        severity=Severity.WARNING if warns else Severity.ERROR,
        node=reservation.status.node_name,
        what=f"Reservation {name} {what}".rstrip(),
        problem=problem,
        owners=[Owner(kind=RESERVATION, name=name), *owners],
        held=held,
        limit=limit,
    )
