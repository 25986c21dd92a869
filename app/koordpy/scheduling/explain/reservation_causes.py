"""Why Reservations keep a pod waiting: those it requires but cannot use, and those that hold resources.

The messages of attempts are Koordinator's: they count nodes, and name neither the Reservation nor its
problem. What each one holds, and its owners, are taken from its status.
"""

from collections.abc import Collection, Iterator
from typing import Final

from koordpy.api.core import Node, Pod
from koordpy.api.extension import ANNOTATION_RESERVATION_AFFINITY
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import Reservation
from koordpy.api.reservation_affinity import ReservationAffinity, affinity_of, text_of
from koordpy.api.reservation_annotations import is_ignored_by
from koordpy.api.resources import Vector, pod_fit_vector, wire_vector
from koordpy.api.scheme import DecodeError
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .cause import Cause, Certainty

SHOWN: Final = 3
"""The number of Reservations that are named."""

Verdict = tuple[str, str]
"""The problem of a Reservation, and what to do about it."""

_NO_NODE = Node()


def reservation_causes(cluster: Cluster, pod: Pod, served: Collection[str]) -> Iterator[Cause]:
    """Return which Reservations keep a rejected pod waiting; `served` are the profiles' names.

    Empty if no plugin follows Reservations. An invalid affinity is a cause; a Reservation with invalid
    amounts is skipped.
    """
    known = next((store for store in cluster.stores if store.type is Reservation), None)
    if known is None:
        return
    try:
        affinity = affinity_of(pod.metadata.annotations)
    except DecodeError as error:
        yield _certain(
            "ReservationAffinityUnreadable",
            f"annotation {ANNOTATION_RESERVATION_AFFINITY} is invalid: {error}",
            "fix the annotation",
        )
        return
    reservations = [found for found in known if isinstance(found, Reservation)]
    if affinity is None:
        yield from _holders(cluster, pod, reservations)
    else:
        yield from _asked_for(cluster, pod, affinity, reservations, served)


# --- Reservations that it requires ---------------------------------------------------------------


def _asked_for(
    cluster: Cluster,
    pod: Pod,
    affinity: ReservationAffinity,
    reservations: list[Reservation],
    served: Collection[str],
) -> Iterator[Cause]:
    if affinity.name:
        wanted = [found for found in reservations if found.metadata.name == affinity.name]
    else:
        wanted = [found for found in reservations if _is_meant(cluster, affinity, found)]
    if not wanted:
        meant = f"Reservation {affinity.name!r}, which does not exist"
        if not affinity.name:
            meant = f"labels that none of the {len(reservations)} Reservations has"
        yield _certain(
            "ReservationMissing",
            f"annotation {ANNOTATION_RESERVATION_AFFINITY} requires {meant}",
            "create the Reservation, or change the annotation",
        )
    found = ((reservation, _verdict(reservation, pod, affinity, served)) for reservation in wanted)
    unusable = [(reservation, verdict) for reservation, verdict in found if verdict is not None]
    for reservation, (what, fix) in unusable[:SHOWN]:
        yield _certain("ReservationNotUsable", f"Reservation {reservation.metadata.name} {what}", fix)
    if len(unusable) > SHOWN:
        yield _certain(
            "ReservationNotUsable",
            f"{len(unusable) - SHOWN} more of the Reservations that it requires cannot be used by it",
            "kubectl get reservations",
        )


def _is_meant(cluster: Cluster, affinity: ReservationAffinity, reservation: Reservation) -> bool:
    info = _read(reservation)
    row = cluster.nodes.row_of(reservation.node_name)
    node = None if row is None else cluster.nodes.node(row)
    return info is not None and info.accepted_by(affinity, node or _NO_NODE)


def _read(reservation: Reservation) -> ReservationInfo | None:
    try:
        return ReservationInfo(reservation)
    except (DecodeError, QuantityError):
        return None


def _verdict(
    reservation: Reservation, pod: Pod, affinity: ReservationAffinity, served: Collection[str]
) -> Verdict | None:
    """Return why a pod cannot use a Reservation; None if no reason is known."""
    if reservation.is_terminating:
        return "is being deleted", "create another one"
    if reservation.is_terminated:
        return f"has ended: {reservation.status.phase}{_last_words(reservation)}", "create another one"
    if not reservation.node_name:
        return unplaced(reservation, served)
    if not reservation.is_available:
        return f"is {reservation.status.phase or 'without a phase'} on {reservation.node_name}", (
            "see its conditions: kubectl describe reservation"
        )
    info = _read(reservation)
    if info is None or info.parse_error:
        told = "its amounts or annotations are invalid" if info is None else info.parse_error
        return f"cannot be used by any pod: {told}", "fix it"
    if not info.has_owner(pod):
        return (
            "is not for this pod: none of its spec.owners describes it",
            "compare spec.owners with the pod's labels and owner references",
        )
    if reservation.is_allocate_once and reservation.status.current_owners:
        owner = reservation.status.current_owners[0]
        return (
            f"is used by {owner.namespace}/{owner.name} already, and allocateOnce",
            "create another one, or one with allocateOnce: false",
        )
    if reservation.spec.unschedulable and not (affinity.name or affinity.tolerates_unschedulable):
        return "has spec.unschedulable: it takes no more pods", "set that to false"
    taint = affinity.untolerated(reservation.spec.taints)
    if taint is not None:
        return f"has a taint that the pod does not tolerate: {text_of(taint)}", (
            "add a toleration to the annotation"
        )
    return None


def unplaced(reservation: Reservation, served: Collection[str]) -> Verdict:
    """Return why a Reservation has no node; `served` are the profiles' names."""
    if reservation.scheduler_name not in served:
        return (
            f"is scheduled by no profile: its template's schedulerName is {reservation.scheduler_name!r}, "
            f"and koordpy's profiles are for {', '.join(served) or 'none'}",
            "name one of these profiles in spec.template.spec.schedulerName",
        )
    words = _last_words(reservation)
    if words:
        return f"has no node yet{words}", "free resources for it, or lower the requests of its template"
    return (
        "has no node yet, and no attempt to place it was made",
        "check which process holds the Lease of extender.lease (koordpy doctor)",
    )


def _last_words(reservation: Reservation) -> str:
    told = [condition.message for condition in reservation.status.conditions if condition.message]
    return f": {told[-1]}" if told else ""


# --- Reservations that hold resources ------------------------------------------------------------


def _holders(cluster: Cluster, pod: Pod, reservations: list[Reservation]) -> Iterator[Cause]:
    """Name those without which the pod would fit on their nodes by the requests of other pods."""
    try:
        needed = {} if is_ignored_by(pod) else pod_fit_vector(pod)
    except QuantityError:
        return
    held = 0
    for reservation in reservations:
        info = _read(reservation) if reservation.is_available else None
        if info is None or info.has_owner(pod):
            continue
        left = _left(reservation)
        shared = {name: left[name] for name in needed if left.get(name)}
        if not shared or not _would_fit(cluster, reservation, needed, shared):
            continue
        held += 1
        if held > SHOWN:
            return
        amounts = ", ".join(f"{name} {_shown(name, amount)}" for name, amount in shared.items())
        yield Cause(
            cause="HeldByReservation",
            certainty=Certainty.LIKELY,
            message=f"Reservation {info.name} holds {amounts} of node {info.node_name} for other pods; "
            "without that the pod would fit there",
            fix="make the pod one of its spec.owners, wait until it ends, or free resources elsewhere",
        )


def _left(reservation: Reservation) -> Vector:
    """Return what its owners have not allocated yet, according to its status."""
    taken = wire_vector(reservation.status.allocated)
    offered = wire_vector(reservation.status.allocatable)
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in offered.items()}


def _would_fit(cluster: Cluster, reservation: Reservation, needed: Vector, shared: Vector) -> bool:
    """Return whether a pod fits on a node beside other pods, but not with this much held."""
    nodes = cluster.nodes
    row = nodes.row_of(reservation.node_name)
    if row is None:
        return False
    blocks = False
    for name, amount in needed.items():
        column = nodes.resources.get(name)
        free = 0 if column is None else int(nodes.allocatable[row, column] - nodes.requested[row, column])
        if amount > free:
            return False
        blocks = blocks or amount > free - shared.get(name, 0)
    return blocks


def _shown(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return f"{amount >> 20}Mi" if amount and not amount % (1 << 20) else str(amount)


def _certain(cause: str, message: str, fix: str) -> Cause:
    return Cause(cause=cause, certainty=Certainty.CERTAIN, message=message, fix=fix)
