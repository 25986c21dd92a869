"""Which reservations a pod requires: the annotation `reservation-affinity`.

A pod with the annotation, even an empty one, can only be placed in a reservation. Source: Koordinator,
`apis/extension/reservation.go`, `pkg/util/reservation/reservation.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koordpy.lib.bounded_cache import cached

from . import extension, node_affinity
from .core import NodeSelector, NodeSelectorTerm, Taint, Toleration
from .label_selector import EVERYTHING, Selector, of_labels
from .meta import Struct
from .node_affinity import RequiredNodeAffinity
from .scheme import DecodeError, decode
from .taints import NO_SCHEDULE, find_untolerated, tolerated

UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The implied taint of an unschedulable reservation."""


class _Terms(Struct):
    reservation_selector_terms: list[NodeSelectorTerm] = []


class _Written(Struct):
    name: str = ""
    required_during_scheduling_ignored_during_execution: _Terms | None = None
    reservation_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


@dataclass(frozen=True, slots=True)
class ReservationAffinity:
    """The reservations that a pod accepts. With a `name` only that one, regardless of the rest."""

    name: str
    selector: Mapping[str, str]
    """Labels that a reservation must have."""
    tolerations: Sequence[Toleration]
    tolerates_unschedulable: bool
    _labels: Selector
    _terms: RequiredNodeAffinity | None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether labels (the reservation's over its node's) and a reservation's name are accepted."""
        if not self._labels.matches(labels):
            return False
        return self._terms is None or self._terms.matches(labels, name)

    def untolerated(self, taints: Sequence[Taint]) -> Taint | None:
        """Return the first taint of a reservation that the pod does not tolerate."""
        return find_untolerated(taints, self.tolerations)


def affinity_of(annotations: Mapping[str, str]) -> ReservationAffinity | None:
    """Read the affinity of a pod, None if it has none. Raises DecodeError."""
    text = annotations.get(extension.ANNOTATION_RESERVATION_AFFINITY)
    if text is None:
        return None
    return _read(text)


@cached("reservation_affinity", 4 << 20)
def _read(text: str) -> ReservationAffinity:
    try:
        written = decode(_Written, b"{}" if not text or text.strip() == "null" else text.encode())
    except DecodeError as error:
        what = str(error).partition(": ")[2]
        raise DecodeError(f"annotation {extension.ANNOTATION_RESERVATION_AFFINITY}: {what}") from None
    terms = None
    required = written.required_during_scheduling_ignored_during_execution
    if required is not None:
        terms = node_affinity.node_selector(
            NodeSelector(node_selector_terms=required.reservation_selector_terms)
        )
        if terms.errors:
            what = "; ".join(terms.errors)
            raise DecodeError(f"annotation {extension.ANNOTATION_RESERVATION_AFFINITY}: {what}")
    return ReservationAffinity(
        written.name,
        written.reservation_selector,
        written.tolerations,
        tolerated(written.tolerations, UNSCHEDULABLE_TAINT),
        of_labels(written.reservation_selector) if written.reservation_selector else EVERYTHING,
        terms,
    )


def untolerated(affinity: ReservationAffinity | None, taints: Sequence[Taint]) -> Taint | None:
    """Return the first taint that keeps a pod out of a reservation; a pod without affinity tolerates all."""
    return None if affinity is None else affinity.untolerated(taints)


def text_of(taint: Taint) -> str:
    """Format a taint as in messages."""
    return f"{{{taint.key}: {taint.value}}}"


def label_overlay(
    node_labels: Mapping[str, str], labels: Mapping[str, str], *, omit_node_labels: bool
) -> Mapping[str, str]:
    """Return the labels by which a reservation is selected: its own over its node's, or only its own."""
    return labels if omit_node_labels else {**node_labels, **labels}
