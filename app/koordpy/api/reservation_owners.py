"""Which pods a reservation is for.

Owners are parsed once into matchers. Criteria on names and UIDs of pods are separate from those that are the
same for all pods of a workload, so that a whole workload can be looked up at once. Source: Koordinator,
`pkg/util/reservation/reservation.go` (`ParseReservationOwnerMatchers`, `MatchReservationOwners`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from koordpy.lib.bounded_cache import cached

from . import label_selector, selector_errors
from .core import ObjectReference, Pod
from .field_error import FieldError, aggregate
from .label_selector import Selector, SelectorError
from .meta import LabelSelector, OwnerReference
from .reservation import ReservationController, ReservationOwner


class OwnersError(ValueError):
    """A label selector among the owners is invalid; the message is Koordinator's."""


class OwnerMatchers:
    """The owners of one reservation; a pod need match only one of them."""

    __slots__ = ("_owners", "anchors")

    def __init__(self, owners: Iterable[tuple[ReservationOwner, Selector | None]]) -> None:
        self._owners = tuple(owners)
        self.anchors = frozenset(_anchor(owner, selector) for owner, selector in self._owners)
        """What a pod must have to match: at least one of these pairs or triples; an empty set is no
        condition.

        `label` with key and value, `name` or `uid` of the pod, `owner name` or `owner uid` of a reference.
        """

    def selects(self, pod: Pod) -> bool:
        """Return whether the label selector of any owner matches a pod, ignoring its other fields."""
        return any(
            selector is not None and selector.matches(pod.metadata.labels) for _, selector in self._owners
        )

    def matches(self, pod: Pod) -> bool:
        """Return whether a pod is an owner."""
        return any(
            _is_object(owner.object, pod)
            and _has_controller(owner.controller, pod)
            and (selector is None or selector.matches(pod.metadata.labels))
            for owner, selector in self._owners
        )


def _anchor(owner: ReservationOwner, selector: Selector | None) -> tuple[str, ...]:
    """Return the most selective condition of an owner."""
    if owner.object is not None and owner.object.uid:
        return "uid", owner.object.uid
    if owner.object is not None and owner.object.name:
        return "name", owner.object.name
    if owner.controller is not None and owner.controller.uid:
        return "owner uid", owner.controller.uid
    if owner.controller is not None and owner.controller.name:
        return "owner name", owner.controller.name
    for requirement in selector.requirements if selector is not None else ():
        value = selector.exact_value(requirement.key) if selector is not None else None
        if value is not None:
            return "label", requirement.key, value
    return ()


NOBODY = OwnerMatchers(())


def owner_matchers(owners: Sequence[ReservationOwner]) -> OwnerMatchers:
    """Return the matchers of owners; equal owners share them. Raises OwnersError."""
    return _matchers(msgspec.msgpack.encode(owners))


@cached("reservation_owners", 4 << 20)
def _matchers(packed: bytes) -> OwnerMatchers:
    owners = msgspec.msgpack.decode(packed, type=list[ReservationOwner])
    read: list[tuple[ReservationOwner, Selector | None]] = []
    errors: list[FieldError] = []
    for index, owner in enumerate(owners):
        selector = owner.label_selector
        try:
            read.append((owner, None if selector is None else label_selector.fast_of(selector)))
        except SelectorError:
            assert selector is not None
            errors.append(_selector_error(f"owners[{index}]", selector))
    if errors:
        raise OwnersError(aggregate(errors))
    return OwnerMatchers(read)


def _is_object(reference: ObjectReference | None, pod: Pod) -> bool:
    """Kind, resource version and field path are ignored.

    A reference with an apiVersion matches no pod: Koordinator compares it with the pod's, which its informers
    remove.
    """
    if reference is None:
        return True
    meta = pod.metadata
    return (
        (not reference.uid or reference.uid == meta.uid)
        and (not reference.name or reference.name == meta.name)
        and (not reference.namespace or reference.namespace == meta.namespace)
        and not reference.api_version
    )


def _has_controller(wanted: ReservationController | None, pod: Pod) -> bool:
    if wanted is None:
        return True
    if wanted.namespace and wanted.namespace != pod.metadata.namespace:
        return False
    return any(_is_controller(wanted, reference) for reference in pod.metadata.owner_references)


def _is_controller(wanted: ReservationController, reference: OwnerReference) -> bool:
    return (
        (wanted.controller is None or wanted.controller is reference.controller)
        and (not wanted.uid or wanted.uid == reference.uid)
        and (not wanted.name or wanted.name == reference.name)
        and (not wanted.kind or wanted.kind == reference.kind)
        and (not wanted.api_version or wanted.api_version == reference.api_version)
    )


# --- errors in a selector, in Kubernetes' words --------------------------------------------------


def _selector_error(path: str, selector: LabelSelector) -> FieldError:
    return FieldError(path, f"Invalid value: {_json(_written(selector))}: {selector_errors.reason(selector)}")


def _written(selector: LabelSelector) -> Mapping[str, Any]:
    written: dict[str, Any] = {}
    if selector.match_labels:
        written["matchLabels"] = dict(sorted(selector.match_labels.items()))
    if selector.match_expressions:
        written["matchExpressions"] = [
            {"key": item.key, "operator": item.operator} | ({"values": item.values} if item.values else {})
            for item in selector.match_expressions
        ]
    return written


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
