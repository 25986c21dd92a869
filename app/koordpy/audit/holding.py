"""What one pod or one Reservation holds of its node."""

from collections.abc import Mapping
from typing import Final

import msgspec

from koordpy.api import extension, reservation_annotations
from koordpy.api.core import Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod

from .amounts import NOTHING, RequestReader, Requests
from .annotations import NO_CPUS, NO_DEVICES, AnnotationReader, CPUs, Devices

POD, RESERVATION = "Pod", "Reservation"

_STATUS: Final = extension.ANNOTATION_RESOURCE_STATUS
_DEVICES: Final = extension.ANNOTATION_DEVICE_ALLOCATED
_RESERVATION: Final = extension.ANNOTATION_RESERVATION_ALLOCATED
_IGNORED: Final = extension.LABEL_RESERVATION_IGNORED
_MODE: Final = extension.LABEL_POD_OPERATING_MODE
_NEGATIVE: Final = "annotation {}: a negative amount"
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class Holding(msgspec.Struct, gc=False):
    """A pod or a Reservation on a node, and what it holds.

    `uid` is the object's, or its kind and name in dumps without UIDs. `reservation` is the UID of the
    reservation that a pod uses, empty for none. `ignores_reservations` is whether a pod may use what is
    reserved for others. `reserves` is whether its owners use what it holds: a Reservation, or a pod that
    acts as one.
    """

    of: Pod | Reservation
    uid: str
    node: str
    requests: Requests
    is_leaving: bool = False
    cpus: CPUs = NO_CPUS
    devices: Devices = NO_DEVICES
    reservation: str = ""
    ignores_reservations: bool = False
    reserves: bool = False
    unreadable: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return RESERVATION if isinstance(self.of, Reservation) else POD

    @property
    def name(self) -> str:
        """The name of a Reservation, namespace and name of a pod."""
        meta = self.of.metadata
        return meta.name if self.kind == RESERVATION else f"{meta.namespace}/{meta.name}"


class HoldingReader:
    """Reads holdings; equal texts are read once."""

    def __init__(self) -> None:
        self.requests = RequestReader()
        self.annotations = AnnotationReader()

    def of_pod(self, pod: Pod) -> Holding:
        """Return what a bound pod holds."""
        meta = pod.metadata
        annotations, labels = meta.annotations, meta.labels
        holding = Holding(
            pod,
            meta.uid or f"{POD} {meta.namespace}/{meta.name}",
            pod.spec.node_name,
            self.requests.of(pod),
            meta.deletion_timestamp is not None,
        )
        if annotations:
            self._read(holding, annotations)
            if _RESERVATION in annotations:
                used = reservation_annotations.allocated(annotations)
                holding.reservation = used.uid if used is not None else ""
        if labels:
            if _IGNORED in labels:
                holding.ignores_reservations = reservation_annotations.is_ignored_by(pod)
            if _MODE in labels:
                holding.reserves = reservation_annotations.is_operating(meta)
        return holding

    def of_reservation(self, reservation: Reservation) -> Holding:
        """Return what an Available or Waiting Reservation holds; what its owners use is a part of it."""
        meta = reservation.metadata
        requests, unreadable = NOTHING, tuple[str, ...]()
        annotations: Mapping[str, str] = _NO_ANNOTATIONS
        try:
            stand_in = new_reserve_pod(reservation)
            requests = self.requests.of(stand_in)
            annotations = stand_in.metadata.annotations
        except QuantityError as error:
            unreadable = (str(error),)
        holding = Holding(
            reservation,
            uid=meta.uid or f"{RESERVATION} {meta.name}",
            node=reservation.status.node_name,
            requests=requests,
            reserves=True,
            is_leaving=meta.deletion_timestamp is not None,
            unreadable=unreadable,
        )
        self._read(holding, annotations)
        return holding

    def _read(self, holding: Holding, annotations: Mapping[str, str]) -> None:
        if _STATUS in annotations:
            try:
                holding.cpus = self.annotations.cpus(annotations)
                if holding.cpus.is_negative:
                    holding.unreadable += (_NEGATIVE.format(_STATUS),)
            except ValueError as error:
                holding.unreadable += (str(error),)
        if _DEVICES in annotations:
            try:
                holding.devices = self.annotations.devices(annotations)
                if holding.devices.is_negative:
                    holding.unreadable += (_NEGATIVE.format(_DEVICES),)
            except ValueError as error:
                holding.unreadable += (str(error),)
