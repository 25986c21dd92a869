"""Annotations about reservations: on Reservations, on pods that use them, on pods that act as one.

Each function reads one annotation as Koordinator does: an absent one is None or empty, an invalid one raises
`DecodeError` if it is an error in Koordinator, and otherwise counts as absent. Source: Koordinator,
`apis/extension/reservation.go`, `apis/extension/node_reservation.go`.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from koordpy.lib import cpuset, int64

from . import extension
from .core import ObjectReference, Pod
from .meta import ObjectMeta, Struct
from .quantity import Quantity, QuantityError
from .reservation import ReservationOwner
from .resource_names import CPU
from .resources import quantities
from .scheme import DecodeError, decode

log = logging.getLogger(__name__)

Quantities = dict[str, Quantity]

T = TypeVar("T")


class Allocated(Struct):
    """The reservation that a pod uses."""

    name: str = ""
    uid: str = ""


class _Names(Struct):
    resources: list[str] = []
    resource_names: list[str] = []


class _Amounts(Struct):
    resources: dict[str, str | int | float] = {}
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")


def read(type_: type[T], annotations: Mapping[str, str], key: str) -> T | None:
    """Read an annotation's JSON; None if it is absent or empty, an empty struct for null.

    Raises DecodeError, which names the annotation.
    """
    text = annotations.get(key)
    if not text:
        return None
    try:
        return decode(type_, b"{}" if text.strip() == "null" else text.encode())
    except DecodeError as error:
        raise DecodeError(f"annotation {key}: {str(error).partition(': ')[2]}") from None


def allocated(annotations: Mapping[str, str]) -> Allocated | None:
    """Return the reservation that a pod uses; None if there is none or the annotation names none."""
    try:
        found = read(Allocated, annotations, extension.ANNOTATION_RESERVATION_ALLOCATED)
    except DecodeError:
        return None
    return found if found is not None and found.uid else None


def allocated_name(annotations: Mapping[str, str]) -> str:
    """Return the name of the reservation that a pod uses; empty for none."""
    found = allocated(annotations)
    return found.name if found is not None else ""


def allocated_text(name: str, uid: str) -> str:
    """Write the annotation that says which reservation a pod uses."""
    return msgspec.json.encode(Allocated(name=name, uid=uid)).decode()


def restricted_options(annotations: Mapping[str, str]) -> list[str]:
    """Return the resources that the Restricted policy covers; empty means all. Raises DecodeError."""
    options = read(_Names, annotations, extension.ANNOTATION_RESERVATION_RESTRICTED_OPTIONS)
    return options.resources if options else []


def resource_names(allocatable: Iterable[str], restricted_to: Iterable[str]) -> tuple[str, ...]:
    """Return the restricted resources of a reservation, sorted; options without any of them are ignored."""
    names = tuple(sorted(allocatable))
    wanted = frozenset(restricted_to)
    return tuple(name for name in names if name in wanted) or names


def inner_reserved(annotations: Mapping[str, str]) -> Quantities:
    """Return what owners of a reservation cannot use; empty if the annotation is invalid.

    Listed CPUs replace an amount of cpu.
    """
    try:
        inner = read(_Amounts, annotations, extension.ANNOTATION_NODE_RESERVATION)
        if inner is None:
            return {}
        amounts = quantities(inner.resources)
        if inner.reserved_cpus:
            amounts[CPU] = Quantity.of(len(cpuset.parse(inner.reserved_cpus)))
        return amounts
    except DecodeError as error:
        log.warning("%s", error)
    except ValueError as error:
        log.warning("annotation %s: %s", extension.ANNOTATION_NODE_RESERVATION, error)
    return {}


def resized_allocatable(annotations: Mapping[str, str]) -> dict[str, str | int | float]:
    """Return amounts that replace the template's when a Reservation is bound.

    Raises DecodeError.
    """
    resized = read(_Amounts, annotations, extension.ANNOTATION_RESERVATION_RESIZE_ALLOCATABLE)
    if resized is None:
        return {}
    try:
        quantities(resized.resources)
    except QuantityError as error:
        raise DecodeError(
            f"annotation {extension.ANNOTATION_RESERVATION_RESIZE_ALLOCATABLE}: {error}"
        ) from None
    return resized.resources


def exact_match(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the resources of which a pod requires exactly the amount reserved. Raises DecodeError."""
    wanted = read(_Names, annotations, extension.ANNOTATION_EXACT_MATCH_RESERVATION)
    return tuple(wanted.resource_names) if wanted else ()


def matches_exactly(
    names: Iterable[str], requests: Mapping[str, Quantity], allocatable: Mapping[str, Quantity]
) -> bool:
    """Return whether requests equal what a reservation holds of each name.

    The first name that both sides lack ends the comparison with a match.
    """
    for name in names:
        wanted, held = requests.get(name), allocatable.get(name)
        if wanted is None and held is None:
            return True
        if wanted is None or held is None or wanted != held:
            return False
    return True


def order(labels: Mapping[str, str]) -> int | None:
    """Return a reservation's place in the order of preference, None if it has none.

    0 means none, and so does the largest number, after which nothing can come.
    """
    place = int64.parse(labels.get(extension.LABEL_RESERVATION_ORDER, ""))
    return None if place == int64.MAX else place or None


def is_ignored_by(pod: Pod) -> bool:
    """Return whether a pod ignores reservations."""
    return pod.metadata.labels.get(extension.LABEL_RESERVATION_IGNORED) == "true"


def is_operating(meta: ObjectMeta) -> bool:
    """Return whether a pod acts as a reservation itself."""
    return meta.labels.get(extension.LABEL_POD_OPERATING_MODE) == "Reservation"


def operating_owners(annotations: Mapping[str, str]) -> list[ReservationOwner]:
    """Return the owners of a pod that acts as a reservation. Raises DecodeError."""
    if annotations.get(extension.ANNOTATION_RESERVATION_OWNERS, "").strip() == "null":
        return []
    return read(list[ReservationOwner], annotations, extension.ANNOTATION_RESERVATION_OWNERS) or []


def current_owner(annotations: Mapping[str, str]) -> ObjectReference | None:
    """Return the users of a pod that acts as a reservation. Raises DecodeError."""
    return read(ObjectReference, annotations, extension.ANNOTATION_RESERVATION_CURRENT_OWNER)
